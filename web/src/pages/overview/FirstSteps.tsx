// SPDX-License-Identifier: Apache-2.0
// What is to be done in a domain in which no data can flow yet, and what is done already.
import { lazy, Suspense, useState, type ReactNode } from "react";
import type { DomainStatus } from "../../api/types";
import { count, counted } from "../../lib/format";
import { Command } from "../../ui/Command";
import { StateWord } from "../../ui/State";

// Not part of the first view.
const GroupDialog = lazy(() => import("../groups/GroupDialog").then((module) => ({ default: module.GroupDialog })));
const TopologyDialog = lazy(() => import("../topology/TopologyDialog").then((module) => ({ default: module.TopologyDialog })));

export function FirstSteps({ domain }: { domain: DomainStatus }) {
  const [open, setOpen] = useState<"topology" | "group" | null>(null);
  const { nodes, connectedNodes } = domain;
  const groups = Object.values(domain.groups).reduce((a, b) => a + b, 0);
  const close = () => setOpen(null);
  return (
    <section aria-label="First steps">
      <h2>First steps</h2>
      <ol className="steps">
        <Step isDone={nodes > 0} title="Declare the network">
          {nodes > 0 ? (
            <>{counted(nodes, "node")}, {counted(domain.links, "link")}, {counted(domain.hosts, "host")}.</>
          ) : (
            <>
              <p>Nodes, the links between them and the hosts behind them, with their addresses.</p>
              <div className="tools">
                <button type="button" className="primary" onClick={() => setOpen("topology")}>Declare…</button>
                <Command line="canopyctl apply -f topology.yaml" />
              </div>
            </>
          )}
        </Step>
        <Step isDone={nodes > 0 && connectedNodes === nodes} title="Start an agent on every node">
          {nodes > 0 ? `${count(connectedNodes)} of ${count(nodes)} are connected.` : "It programs the datapath of its node and reports what it does."}
        </Step>
        <Step isDone={groups > 0} title="Create a group">
          {groups > 0 ? (
            counted(groups, "group")
          ) : (
            <>
              <p>One source sends to many receivers as if to one: an ordinary RC connection for each.</p>
              <div className="tools">
                <button type="button" className={nodes > 0 ? "primary" : undefined} onClick={() => setOpen("group")}>Create…</button>
                <Command line="canopyctl apply -f group.yaml" />
              </div>
            </>
          )}
        </Step>
        <Step isDone={false} title="Let hosts join">
          Applications join by canopy-host; by hand, a host joins on the page of the group.
        </Step>
      </ol>
      <Suspense fallback={null}>
        {open === "topology" && <TopologyDialog onClose={close} />}
        {open === "group" && <GroupDialog onClose={close} />}
      </Suspense>
    </section>
  );
}

function Step({ isDone, title, children }: { isDone: boolean; title: string; children: ReactNode }) {
  return (
    <li>
      <h3>
        {title} <StateWord state={isDone ? "ok" : "pending"}>{isDone ? "done" : "to do"}</StateWord>
      </h3>
      <div>{children}</div>
    </li>
  );
}
