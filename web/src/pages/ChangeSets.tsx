// SPDX-License-Identifier: Apache-2.0
// Many resources that were sent at once: how far each set is, and the way back.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import * as queries from "../api/queries";
import { ofChangeSet } from "../lib/changeSet";
import { principal } from "../lib/commit";
import { count } from "../lib/format";
import { Instant } from "../ui/Age";
import { Command } from "../ui/Command";
import { Empty, Loaded, Page } from "../ui/Page";
import { StateWord } from "../ui/State";
import { Term } from "../ui/Term";

export function ChangeSets() {
  const query = useQuery(queries.changeSets);
  return (
    <Page title={<Term of="change set">Change sets</Term>} tab="Change sets" aside={<Command line="canopyctl change-set list" />}>
      <Loaded query={query}>
        {(list) =>
          list.length === 0 ? (
            <Empty command="canopyctl apply -f groups.yaml">No change set is kept. Files that change more than 30 resources are sent as one, which is taken back as a whole:</Empty>
          ) : (
            <div className="scroll">
              <table className="plain" aria-label="Change sets">
                <thead>
                  <tr>
                    <th scope="col">Id</th>
                    <th scope="col">Phase</th>
                    <th scope="col" className="wide">By</th>
                    <th scope="col" className="right">Resources</th>
                    <th scope="col" className="right wide">Created</th>
                    <th scope="col" className="right wide">Updated</th>
                    <th scope="col" className="wide">Begun</th>
                  </tr>
                </thead>
                <tbody>
                  {list.map((set) => (
                    <tr key={set.id}>
                      <td><Link to="/change-sets/$set" params={{ set: set.id }} className="mono">{set.id}</Link></td>
                      <td>
                        <StateWord state={ofChangeSet(set)}>{set.phase}</StateWord>
                        {set.waitsFor && <div className="faint">waits: {set.waitsFor}</div>}
                      </td>
                      <td className="wide">{principal(set.by)}</td>
                      <td className="num right">{count(set.done)}/{count(set.items)}</td>
                      <td className="num right wide">{count(set.created)}</td>
                      <td className="num right wide">{count(set.updated)}</td>
                      <td className="wide"><Instant at={set.begunUnixNs} /></td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Loaded>
    </Page>
  );
}
