// SPDX-License-Identifier: Apache-2.0
import { useNavigate } from "@tanstack/react-router";
import { api, data } from "../../api/client";
import { quoted } from "../../lib/drain";
import { CheckedDialog } from "../../write/CheckedDialog";

export function DeleteGroup({ name, onClose }: { name: string; onClose: () => void }) {
  const navigate = useNavigate();
  return (
    <CheckedDialog
      title={`Delete group ${name}`}
      name={`group/${name}`}
      command={`canopyctl delete group ${quoted(name)}`}
      action="Delete it"
      send={(dryRun, plan) =>
        data(api.DELETE("/api/v1/groups/{group}", { params: { path: { group: name }, query: { dryRun }, ...(plan && { header: { "If-Plan-Match": plan } }) } }))
      }
      changes={["groups"]}
      onClose={onClose}
      onDone={() => navigate({ to: "/groups" })}
    >
      <p>Its members leave it, and their queue pairs get no more data. Its settings can be put back from the audit; members have to join again.</p>
    </CheckedDialog>
  );
}
