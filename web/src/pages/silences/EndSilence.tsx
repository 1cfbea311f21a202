// SPDX-License-Identifier: Apache-2.0
import { api, data } from "../../api/client";
import { CheckedDialog } from "../../write/CheckedDialog";

export function EndSilence({ name, onClose }: { name: string; onClose: () => void }) {
  return (
    <CheckedDialog
      title={`End silence ${name}`}
      name={`silence/${name}`}
      command={`canopyctl unsilence ${name}`}
      action="End it"
      send={(dryRun, plan) =>
        data(
          api.DELETE("/api/v1/silences/{silence}", {
            params: { path: { silence: name }, query: { dryRun }, ...(plan && { header: { "If-Plan-Match": plan } }) },
          }),
        )
      }
      changes={["problems", "silences"]}
      onClose={onClose}
    >
      <p>The problems that it covers raise alerts again.</p>
    </CheckedDialog>
  );
}
