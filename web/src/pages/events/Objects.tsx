// SPDX-License-Identifier: Apache-2.0
// The objects of an event, each with a link to its page.
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Event } from "../../api/types";
import { about } from "../../lib/event";

/** An event can name hundreds of ports. */
const SHOWN = 4;

/** Group, links, ports and hosts; the node has a column of its own. */
export function Objects({ of, withNode = false }: { of: Event; withNode?: boolean }) {
  const { links, hosts } = about(of);
  const all: [string, ReactNode][] = [];
  if (withNode && of.node) all.push([`node ${of.node}`, <Link key="" to="/nodes/$node" params={{ node: of.node }}>{of.node}</Link>]);
  if (of.group) all.push([`group ${of.group}`, <Link key="" to="/groups/$group" params={{ group: of.group }}>{of.group}</Link>]);
  for (const name of links) {
    const [node = "", port = ""] = (name.split("--")[0] ?? "").split("/");
    all.push([`link ${name}`, <Link key="" to="/links/$node/$port" params={{ node, port }}>{name}</Link>]);
  }
  for (const host of hosts) all.push([`host ${host}`, <Link key="" to="/hosts/$host" params={{ host }}>{host}</Link>]);
  return (
    <>
      {all.slice(0, SHOWN).map(([key, link], at) => (
        <span key={key}>
          {at > 0 && ", "}
          {link}
        </span>
      ))}
      {all.length > SHOWN && ` and ${all.length - SHOWN} more`}
    </>
  );
}

/** The code; where the event is about a problem, with a link to its page, which has what it means and what to do. */
export function Code({ of }: { of: Event }) {
  const { problem } = about(of);
  return problem ? <Link to="/problems/$id" params={{ id: problem }}><code>{of.code}</code></Link> : <code>{of.code}</code>;
}
