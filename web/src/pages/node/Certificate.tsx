// SPDX-License-Identifier: Apache-2.0
// The certificate of a node's agent. The controller lists those of all agents at once, so that it is read once its section is opened.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import * as queries from "../../api/queries";
import { controllerNow } from "../../lib/clock";
import { age } from "../../lib/format";
import { Instant } from "../../ui/Age";
import { Mono } from "../../ui/Command";
import { Loaded } from "../../ui/Page";
import { StateWord } from "../../ui/State";

export function Certificate({ node }: { node: string }) {
  const [isOpen, setOpen] = useState(false);
  const query = useQuery({ ...queries.certificate(`node/${node}`), enabled: isOpen });
  return (
    <details className="of-object" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary><h2>Certificate</h2></summary>
      {isOpen && (
        <Loaded query={query}>
          {(agent) =>
            agent ? (
              <dl className="facts">
                <dt>Ends</dt>
                <dd><Instant at={agent.notAfterUnixNs} /> <End at={agent.notAfterUnixNs} /></dd>
                <dt>Key</dt>
                <dd>{agent.enrolled ? "that of its enrollment here" : "the one that it has shown first; it was not enrolled here"}</dd>
                {agent.otherKeyUnixNs ? (
                  <>
                    <dt>Another key</dt>
                    <dd><StateWord state="degraded">was shown first</StateWord> <Instant at={agent.otherKeyUnixNs} /></dd>
                  </>
                ) : null}
                <dt>Authority</dt>
                <dd><Mono>{agent.authority}</Mono></dd>
              </dl>
            ) : (
              <p className="faint">The controller lists none of this node: agents of this machine need none, and one from before the list began is in it once its agent has connected.</p>
            )
          }
        </Loaded>
      )}
    </details>
  );
}

function End({ at }: { at: number }) {
  const left = at - controllerNow();
  return left <= 0 ? <StateWord state="failed">it has ended</StateWord> : <span className="faint">in {age(left)}; a running agent renews it before</span>;
}
