// SPDX-License-Identifier: Apache-2.0
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { problems } from "../api/queries";
import { sentence } from "../lib/problem";
import { ofSeverity } from "../lib/state";
import { SEEN } from "./ProblemSentence";
import { Prose } from "./Prose";
import { StateWord } from "./State";

/** Open problems of one object, with what is wrong, what was seen and what to do. */
export function ProblemsOf({ kind, name }: { kind: "node" | "link" | "port" | "group"; name: string }) {
  const found = useQuery(problems).data?.filter(({ object: of }) => isOf(of, kind, name)) ?? [];
  return (
    <>
      {found.map((problem) => (
        <div key={problem.id} className={`note ${ofSeverity(problem.severity)}`}>
          <StateWord state={ofSeverity(problem.severity)}>{problem.severity}</StateWord>{" "}
          <Link to="/problems/$id" params={{ id: problem.id }}>{sentence(problem)}</Link>
          {problem.evidence.slice(0, SEEN).map((line) => (
            <div key={line} className="remedy">{line}</div>
          ))}
          <div className="remedy"><strong>Do:</strong> <Prose text={problem.remedy} /></div>
        </div>
      ))}
    </>
  );
}

function isOf(of: { kind: string; name: string }, kind: string, name: string): boolean {
  if (of.kind === kind && of.name === name) return true;
  if (kind === "node") return of.kind === "port" && of.name.startsWith(`${name}/`);
  if (kind === "group") return of.kind === "member" && of.name.startsWith(`${name}/`);
  return false;
}
