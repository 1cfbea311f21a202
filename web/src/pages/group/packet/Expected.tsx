// SPDX-License-Identifier: Apache-2.0
// The packet as it has to be at each place, from the programs of the nodes: no packet is needed.
import { useQuery } from "@tanstack/react-query";
import * as queries from "../../../api/queries";
import type { ExpectedField, ExpectedHop } from "../../../api/types";
import { expectedOctets, isOfPacket, label } from "../../../lib/expected";
import { names, place } from "../../../lib/packet";
import { expectedScapy } from "../../../lib/scapy";
import { CopyButton } from "../../../ui/Command";
import { Loaded } from "../../../ui/Page";
import { FieldRow } from "./FieldRow";
import { Octets, type About } from "./Octets";
import { Way, Why } from "./Way";

/** `epoch`: with another one, the programs are others. */
export function Expected({ group, epoch }: { group: string; epoch: number }) {
  const query = useQuery(queries.expectedPacket(group, epoch));
  return (
    <Loaded query={query}>
      {({ hops }) =>
        hops.length === 0 ? (
          <p className="faint">The group has no tree: no packet can pass before a source and a receiver have joined.</p>
        ) : (
          <Way
            hops={hops}
            first={(places) => places.at(-1)}
            rows={(places) =>
              names(places.map(({ fields }) => fields.map(({ field }) => ({ name: field, at: 0, octets: 0, value: "" })))).map((name, at) => (
                <FieldRow key={name} name={label(name)} isTab={at === 0}>
                  {places.map((hop) => (
                    <Cell key={place(hop)} fields={hop.fields} name={name} />
                  ))}
                </FieldRow>
              ))
            }
          >
            {(chosen) => (
              <>
                <Octets place={place(chosen)} caption={`${place(chosen)}: as it has to be up to the end of the BTH; the packet decides what is dots, marked octets change since the place before`} octets={expectedOctets(chosen)} about={(name) => about(chosen, name)} />
                <CopyButton text={expectedScapy(chosen)} label="Copy as scapy" />
              </>
            )}
          </Way>
        )
      }
    </Loaded>
  );
}

function about(hop: ExpectedHop, name: string): About | undefined {
  const field = hop.fields.find((one) => label(one.field) === name);
  return field && { value: field.value, changes: field.why ? [`${hop.node}, ${field.why}`] : [] };
}

function Cell({ fields, name }: { fields: readonly ExpectedField[]; name: string }) {
  const at = fields.findIndex((field) => field.field === name);
  const field = fields[at];
  if (!field) return <td className="faint">–</td>;
  // A header that is new has one reason, not one per field.
  const isAsAbove = field.why === fields[at - 1]?.why;
  return (
    <td className={field.why ? "changed" : undefined} title={field.why || undefined}>
      {isOfPacket(field) ? <span className="faint">{field.value}</span> : <code className={name === "srh" ? "long" : undefined}>{field.value}</code>}
      {field.why && !isAsAbove && <Why text={field.why} />}
    </td>
  );
}
