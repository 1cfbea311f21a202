// SPDX-License-Identifier: Apache-2.0
// One root problem: what, where, since, what it affects, what to do, and the way there.
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Problem } from "../api/types";
import { affected, object, sentence } from "../lib/problem";
import { ofSeverity } from "../lib/state";
import { Age } from "./Age";
import { Known } from "./Known";
import { ObjectLink } from "./ObjectLink";
import { Prose } from "./Prose";
import { Shape } from "./State";

export const SEEN = 3;

interface Props {
  problem: Problem;
  /** Without what was seen and what to do, where there are many. */
  isShort?: boolean;
  /** Further actions. */
  children?: ReactNode;
}

export function ProblemSentence({ problem, isShort = false, children }: Props) {
  const hit = affected(problem.affects);
  return (
    <article className="problem" aria-label={`${problem.severity}: ${sentence(problem)}`}>
      <div className="what">
        <Shape state={ofSeverity(problem.severity)} />
        <span>
          <span className={ofSeverity(problem.severity)}>{problem.severity}</span> {sentence(problem)}
        </span>
      </div>
      <div className="detail faint">
        <code>{problem.code}</code> for <Age since={problem.sinceUnixNs} />
        {problem.count > 1 && `, ${problem.count} times`}
        {problem.closing && ", not seen at present"}
        {hit && `; affects ${hit}`}
      </div>
      {!isShort && (
        <>
          {problem.evidence.slice(0, SEEN).map((line) => (
            <div key={line} className="detail">
              {line}
            </div>
          ))}
          <div className="detail">
            <strong>Do:</strong> <Prose text={problem.remedy} />
          </div>
        </>
      )}
      {problem.silence && (
        <div className="detail">
          <strong>Known:</strong> <Known silence={problem.silence} />
        </div>
      )}
      <div className="act">
        <ObjectLink of={problem.object} className="button" text={`Open ${object(problem.object)}`} />
        <Link to="/problems/$id" params={{ id: problem.id }}>
          Cause and effects
        </Link>
        {children}
      </div>
    </article>
  );
}
