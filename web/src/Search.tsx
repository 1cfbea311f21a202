// SPDX-License-Identifier: Apache-2.0
// Opens a page, node, host, link, group, incident, change set or problem, or begins an action, by its name: a combobox (WAI-ARIA 1.2) in a dialog.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import * as queries from "./api/queries";
import { isOfDomain } from "./api/session";
import { signOut } from "./api/signIn";
import type { Drain } from "./api/types";
import { instant } from "./lib/format";
import { sentenceOf } from "./lib/incident";
import type { Place } from "./lib/place";
import { sentence } from "./lib/problem";
import { acts, argument, device, matches, next, port, type Action, type Found } from "./lib/search";
import { OF_TENANTS, PAGES } from "./pages";
import { Dialog } from "./ui/Dialog";
import { setTheme, setUtc, useUtc } from "./ui/settings";

const found = (kind: string, to: (name: string) => Place) => (name: string): Found => ({ kind, name, target: to(name) });
const node = found("node", (name) => ({ to: "/nodes/$node", params: { node: name } }));
const group = found("group", (name) => ({ to: "/groups/$group", params: { group: name } }));
const host = found("host", (name) => ({ to: "/hosts/$host", params: { host: name } }));
const changeSet = found("change set", (name) => ({ to: "/change-sets/$set", params: { set: name } }));

/** A page that the session cannot read is not offered. */
const pages = (): Found[] => PAGES.filter(([to]) => isOfDomain() || OF_TENANTS.includes(to)).map(([to, name]) => ({ kind: "page", name, target: { to } }));

const action = (name: string, target: Action, also?: string): Found => ({ kind: "action", name, target, ...(also && { also }) });

/** What can be done: with a network that is there, none can be declared; a node that is drained is put back. */
function actions(nodes: readonly string[], drains: readonly Drain[], isEmpty: boolean, utc: boolean): Found[] {
  const drained = new Set(drains.map(({ spec }) => spec.node));
  return [
    action("Create group", { do: "createGroup" }, "new"),
    ...(isEmpty ? [action("Declare topology", { do: "declareTopology" }, "network")] : []),
    ...drains.map(({ metadata, spec }) => action(`Put back ${spec.node ? `node ${spec.node}` : `link ${spec.link ?? ""}`}`, { do: "putBack", drain: metadata.name }, `undrain ${metadata.name}`)),
    ...nodes.filter((name) => !drained.has(name)).map((name) => action(`Drain node ${name}`, { do: "drainNode", node: name })),
    action("Theme: dark", { do: "theme", theme: "dark" }, "colours"),
    action("Theme: light", { do: "theme", theme: "light" }, "colours"),
    action("Theme: that of the system", { do: "theme", theme: "system" }, "colours"),
    action(utc ? "Times in local time" : "Times in UTC", { do: "utc", utc: !utc }, "zone utc"),
    action("Sign out", { do: "signOut" }, "log out"),
  ];
}

interface Props {
  onClose: () => void;
  /** An action that needs a dialog. */
  onAct: (action: Action) => void;
}

export function Search({ onClose, onAct }: Props) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const navigate = useNavigate();
  const wanted = text.trim();
  const utc = useUtc();
  const problems = useQuery(queries.problems).data;
  // The controller finds them: there may be a million groups, which it knows by the beginning of their names.
  const enabled = wanted !== "";
  const ofDomain = enabled && isOfDomain();
  const groups = useQuery({ ...queries.groupsLike(wanted), enabled, placeholderData: keepPreviousData }).data;
  const like = queries.nodesLike(device(argument(text)).toLowerCase());
  const nodes = useQuery({ ...like, enabled: ofDomain, placeholderData: keepPreviousData }).data;
  const hosts = useQuery({ ...queries.hostsLike(wanted.toLowerCase()), enabled: ofDomain, placeholderData: keepPreviousData }).data;
  const drains = useQuery({ ...queries.drains, enabled: ofDomain }).data;
  const incidents = useQuery({ ...queries.incidents, enabled: ofDomain, refetchInterval: false }).data;
  const changeSets = useQuery({ ...queries.changeSets, enabled, refetchInterval: false }).data;
  const isEmpty = useQuery(queries.status).data?.nodes === 0;
  const results = useMemo(() => {
    const names = nodes ?? [];
    return [
      ...matches(wanted, pages()),
      ...matches(wanted, names.map(node)),
      ...port(wanted, new Set(names)),
      ...matches(wanted, (groups ?? []).map(group)),
      ...matches(wanted, (hosts ?? []).map(host)),
      ...acts(wanted, actions(names, drains ?? [], isEmpty, utc)),
      ...matches(wanted, (changeSets ?? []).map(({ id }) => changeSet(id))),
      ...matches(wanted, (problems ?? []).map((problem) => ({ kind: "problem", name: sentence(problem), id: problem.id, target: { to: "/problems/$id", params: { id: problem.id } } }))),
      ...matches(wanted, (incidents ?? []).map((one) => ({ kind: "incident", name: `${sentenceOf(one)}, ${instant(one.openedUnixNs, utc)}`, id: one.id, target: { to: "/incidents/$incident", params: { incident: one.id } } }))),
    ];
  }, [wanted, nodes, groups, hosts, drains, incidents, changeSets, problems, isEmpty, utc]);
  const chosen = results[Math.min(at, results.length - 1)];
  const open = async (what: Found | undefined) => {
    if (!what) return;
    onClose();
    if ("to" in what.target) await navigate(what.target);
    else act(what.target, onAct);
  };
  return (
    <Dialog title="Search" onClose={onClose}>
      <input
        // eslint-disable-next-line jsx-a11y/no-autofocus -- the dialog is this field, and was opened to fill it
        autoFocus
        className="wide"
        role="combobox"
        aria-label="Name of a page, node, host, link, group, incident, change set, problem or action"
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
        {wanted === "" ? "Enter opens, arrows choose, Escape closes. Also what can be done: create group, drain n4, theme." : results.length === 0 ? "Nothing has this name." : `${results.length} found`}
      </p>
    </Dialog>
  );
}

/** Does what needs no dialog. */
function act(what: Action, onAct: Props["onAct"]): void {
  switch (what.do) {
    case "signOut":
      return void signOut();
    case "theme":
      return setTheme(what.theme);
    case "utc":
      return setUtc(what.utc);
    default:
      onAct(what);
  }
}

const option = ({ kind, name, id = name }: Found): string => encodeURIComponent(`search-${kind}-${id}`);
