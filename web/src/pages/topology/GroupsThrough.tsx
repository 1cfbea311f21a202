// SPDX-License-Identifier: Apache-2.0
// The groups of a node that is picked: those of its sample, as long as they are few. No list of the controller has the groups of a node or link.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import * as queries from "../../api/queries";
import { count, counted } from "../../lib/format";

/** Up to so many groups of a node are read: a sample has every group with all of its branches. */
const FEW = 200;
const SHOWN = 12;
const EVERY = 10_000;

export function GroupsThrough({ node, programs }: { node: string; programs: number }) {
  const isRead = programs > 0 && programs <= FEW;
  const { data, error } = useQuery({ ...queries.nodeTelemetry(node), enabled: isRead, refetchInterval: EVERY });
  if (isRead && data) return <GroupNames names={data.groups.map(({ group }) => group)} total={programs} />;
  return (
    <>
      <h3>Groups</h3>
      <p className="faint">
        {programs === 0 ? "No group has a program here." : `${counted(programs, "group")} with a program here${isRead ? (error ? "; its sample could not be read" : ": reading…") : ", too many to be listed"}.`}
      </p>
    </>
  );
}

/** `total`: how many there are, of which those with names were reported; `more`: how many others are not listed by the controller. */
export function GroupNames({ names, total, more = 0 }: { names: readonly string[]; total: number; more?: number }) {
  const shown = [...new Set(names)].slice(0, SHOWN);
  const left = Math.max(0, total - shown.length) + more;
  return (
    <>
      <h3>Groups</h3>
      {total + more === 0 ? (
        <p className="faint">None.</p>
      ) : (
        <p>
          {shown.map((name, at) => (
            <span key={name}>
              {at > 0 && ", "}
              <Link to="/groups/$group" params={{ group: name }}>{name}</Link>
            </span>
          ))}
          {left > 0 && <span className="faint">{shown.length > 0 ? ` and ${count(left)} more` : `${counted(left, "group")}, not reported yet`}</span>}
        </p>
      )}
    </>
  );
}
