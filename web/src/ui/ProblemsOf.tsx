// SPDX-License-Identifier: Apache-2.0
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { problems } from "../api/queries";
import { count } from "../lib/format";
import { concerns, sentence } from "../lib/problem";
import { ofSeverity } from "../lib/state";
import { Command } from "./Command";
import { SEEN } from "./ProblemSentence";
import { Prose } from "./Prose";
import { StateWord } from "./State";

/** So many are shown: a node can have hundreds of links. */
const SHOWN = 8;

/** Open problems of one object and of its parts, with what is wrong, what was seen and what to do. */
export function ProblemsOf({ kind, name }: { kind: "node" | "link" | "port" | "group"; name: string }) {
  const found = useQuery(problems).data?.filter(({ object: of }) => concerns(of, kind, name)) ?? [];
  return (
    <>
      {found.slice(0, SHOWN).map((problem) => (
        <div key={problem.id} className={`note ${ofSeverity(problem.severity)}`}>
          <StateWord state={ofSeverity(problem.severity)}>{problem.severity}</StateWord>{" "}
          <Link to="/problems/$id" params={{ id: problem.id }}>{sentence(problem)}</Link>
          {problem.evidence.slice(0, SEEN).map((line) => (
            <div key={line} className="remedy">{line}</div>
          ))}
          <div className="remedy"><strong>Do:</strong> <Prose text={problem.remedy} /></div>
        </div>
      ))}
      {found.length > SHOWN && (
        <p className="faint">
          {count(found.length - SHOWN)} more: <Command line="canopyctl get problems" />
        </p>
      )}
    </>
  );
}
