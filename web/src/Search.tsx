// SPDX-License-Identifier: Apache-2.0
// Opens a page, node, host, link, group or problem by its name: a combobox (WAI-ARIA 1.2) in a dialog.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import * as queries from "./api/queries";
import { sentence } from "./lib/problem";
import { isOfDomain } from "./api/session";
import { device, matches, next, port, type Found } from "./lib/search";
import { PAGES } from "./pages";
import { Dialog } from "./ui/Dialog";

const pages: readonly Found[] = PAGES.map(([to, name]) => ({ kind: "page", name, to }));
const found = (kind: string, path: string) => (name: string): Found => ({ kind, name, to: `/${path}/${encodeURIComponent(name)}` });

export function Search({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const navigate = useNavigate();
  const wanted = text.trim();
  const problems = useQuery(queries.problems).data;
  // The controller finds them: there may be a million groups, which it knows by the beginning of their names.
  const enabled = wanted !== "";
  const groups = useQuery({ ...queries.groupsLike(wanted), enabled, placeholderData: keepPreviousData }).data;
  const like = queries.nodesLike(device(wanted).toLowerCase());
  const nodes = useQuery({ ...like, enabled: enabled && isOfDomain(), placeholderData: keepPreviousData }).data;
  const hosts = useQuery({ ...queries.hostsLike(wanted.toLowerCase()), enabled: enabled && isOfDomain(), placeholderData: keepPreviousData }).data;
  const results = useMemo(() => {
    const names = nodes ?? [];
    return [
      ...matches(wanted, pages),
      ...matches(wanted, names.map(found("node", "nodes"))),
      ...port(wanted, new Set(names)),
      ...matches(wanted, (groups ?? []).map(found("group", "groups"))),
      ...matches(wanted, (hosts ?? []).map(found("host", "hosts"))),
      ...matches(wanted, (problems ?? []).map((problem) => ({ kind: "problem", name: sentence(problem), to: `/problems/${problem.id}` }))),
    ];
  }, [wanted, nodes, groups, hosts, problems]);
  const chosen = results[Math.min(at, results.length - 1)];
  const open = async (what: Found | undefined) => {
    if (!what) return;
    onClose();
    await navigate({ to: what.to });
  };
  return (
    <Dialog title="Search" onClose={onClose}>
      <input
        // eslint-disable-next-line jsx-a11y/no-autofocus -- the dialog is this field, and was opened to fill it
        autoFocus
        className="wide"
        role="combobox"
        aria-label="Name of a page, node, host, link, group or problem"
        aria-expanded={results.length > 0}
        aria-controls="search-results"
        aria-activedescendant={chosen && option(chosen)}
        autoComplete="off"
        spellCheck={false}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
          if (step) {
            event.preventDefault();
            setAt(next(Math.min(at, results.length - 1), step, results.length));
          } else if (event.key === "Enter") {
            event.preventDefault();
            void open(chosen);
          }
        }}
      />
      <ul id="search-results" className="found" role="listbox" aria-label="Found">
        {results.map((result) => (
          // eslint-disable-next-line jsx-a11y/click-events-have-key-events -- the combobox has the keys of its list
          <li key={option(result)} id={option(result)} role="option" aria-selected={result === chosen} onClick={() => void open(result)}>
            <span className="faint">{result.kind}</span> {result.name}
          </li>
        ))}
      </ul>
      <p className="faint" role="status">
        {wanted === "" ? "Enter opens, arrows choose, Escape closes." : results.length === 0 ? "Nothing has this name." : `${results.length} found`}
      </p>
    </Dialog>
  );
}

const option = (of: Found): string => `search-${of.kind}-${of.to.replace(/[^a-zA-Z0-9]/g, "-")}`;
