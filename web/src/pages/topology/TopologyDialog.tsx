// SPDX-License-Identifier: Apache-2.0
// Declares the network from a resource in JSON.
import { useState } from "react";
import { api, data } from "../../api/client";
import { applyCommand, resource } from "../../lib/form";
import { AreaField } from "../../write/Field";
import { WriteDialog } from "../../write/WriteDialog";

const EXAMPLE = '{"nodes": [{"name": "n1", "id": 1}], "hosts": [{"name": "h1", "prefix": "2001:db8:1::/64", "address": "2001:db8:1::1"}], "links": [{"a": "n1/eth1", "b": "h1/eth0"}]}';

export function TopologyDialog({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const body = resource("Topology", "default", text);
  const isText = typeof body === "string";
  return (
    <WriteDialog
      title="Declare the network"
      name="topology/default"
      command={isText ? "canopyctl apply -f topology.yaml" : applyCommand(body)}
      action="Declare it"
      content={text}
      fields={["spec"]}
      missing={isText ? { spec: body } : {}}
      send={(dryRun, plan) => data(api.PUT("/api/v1/topology", { params: { query: { dryRun }, header: { "If-None-Match": "*", ...(plan && { "If-Plan-Match": plan }) } }, body: body as never }))}
      changes={["topology", "status", "nodes", "links", "hosts"]}
      onClose={onClose}
    >
      {() => (
        <>
          <p>
            A topology as <code>canopyctl get topology -o json</code> prints it, or its spec alone, such as <code>{EXAMPLE}</code>
          </p>
          <AreaField name="spec" label="Topology, JSON" value={text} onChange={setText} />
        </>
      )}
    </WriteDialog>
  );
}
