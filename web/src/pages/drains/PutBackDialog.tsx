// SPDX-License-Identifier: Apache-2.0
// Ends a drain: what that does is shown first.
import { api, data } from "../../api/client";
import type { Drain } from "../../api/types";
import { CheckedDialog } from "../../write/CheckedDialog";

interface Props {
  drain: Drain;
  onClose: () => void;
}

export function PutBackDialog({ drain, onClose }: Props) {
  const name = drain.metadata.name;
  const remove = (dryRun: boolean, plan?: string) =>
    data(api.DELETE("/api/v1/drains/{drain}", { params: { path: { drain: name }, query: { dryRun }, ...(plan && { header: { "If-Plan-Match": plan } }) } }));
  return (
    <CheckedDialog
      title={`Put ${name} back into service`}
      name={`drain/${name}`}
      command={`canopyctl undrain ${name}`}
      action="Put it back"
      send={remove}
      changes={["drains", "links", "link"]}
      onClose={onClose}
    >
      <p>
        Back in service, unless the topology or another drain has it drained: {drain.status.links.join(", ") || "nothing, the topology has no such target"}. Trees may move back.
      </p>
    </CheckedDialog>
  );
}
