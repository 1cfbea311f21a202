// SPDX-License-Identifier: Apache-2.0
// The receivers that the source waits for: a strip of their shares, and the same as a table.
import { useQuery } from "@tanstack/react-query";
import { useStrip } from "../../api/useStrip";
import * as queries from "../../api/queries";
import { count } from "../../lib/format";
import { parts, percent, sentence, wait } from "../../lib/waited";
import { Command } from "../../ui/Command";
import { Loaded } from "../../ui/Page";
import { Term } from "../../ui/Term";
import { Strip } from "./Strip";

/** `over` names a port on the way to a receiver that is above a threshold. */
export function Waited({ group, over }: { group: string; over: (host: string) => string }) {
  const query = useQuery(queries.waitedFor(group));
  const feed = useStrip(group);
  return (
    <Loaded query={query}>
      {(shares) => {
        const strip = parts(shares);
        return (
          <>
            <p>{sentence(shares, over)}</p>
            {strip.length > 0 && (
              <>
                <div className="shares" aria-hidden="true">
                  {strip.map((part) => (
                    <div key={part.label} className={part.kind} style={{ flexGrow: part.ppm }} title={`${part.label}: ${percent(part.ppm)}`}>
                      {part.ppm > 80_000 ? part.label : ""}
                    </div>
                  ))}
                </div>
                <table className="plain" aria-label="Shares">
                  <thead>
                    <tr>
                      <th scope="col">Receiver</th>
                      <th scope="col"><Term of="edge">Edge</Term></th>
                      <th scope="col" className="right"><Term of="waited-for share">Waited for</Term></th>
                      <th scope="col" className="wide">Last 5 minutes</th>
                      <th scope="col" className="right"><Term of="ACK">ACK after</Term></th>
                    </tr>
                  </thead>
                  <tbody>
                    {shares.receivers.map((r) => (
                      <tr key={r.host}>
                        <td>{r.host}</td>
                        <td>{r.node}</td>
                        <td className="right num">{percent(r.sharePpm)}</td>
                        <td className="wide"><Strip host={r.host} feed={feed} /></td>
                        <td className="right num">{wait(r.waitNs)}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </>
            )}
            {shares.left > 0 && <p className="faint">{count(shares.left)} more receivers: <Command line={`canopyctl top group ${group} --limit 1000`} /></p>}
            <Command line={`canopyctl top group ${group} --strip`} />
          </>
        );
      }}
    </Loaded>
  );
}
