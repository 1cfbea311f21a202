// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { Incident, IncidentItem } from "../api/types";
import { charted, chartObject, keptWords, lasted, sentenceOf, title } from "./incident";

const item: IncidentItem = {
  id: "1764171000-00c0ffee00c0ffee", problem: "00c0ffee00c0ffee", of: { code: "ReceiverStalled", kind: "member", name: "demo/r3" }, severity: "critical",
  title: "acknowledges nothing", evidence: [], openedUnixNs: 1e18, reopened: 0, causes: [], affects: [],
};

it("is listed with how many are kept, once earlier ones are not", () => {
  expect([1, 199, 200].map(keptWords)).toEqual(["1 incident, the newest first", "199 incidents, the newest first", "200 incidents, the newest first; the controller keeps no more, so that earlier ones are not here"]);
});

describe("an incident", () => {
  it("is a sentence, and lasts from opening to closing", () => {
    expect(sentenceOf(item)).toBe("receiver r3 of group demo acknowledges nothing");
    expect([lasted(item), lasted({ ...item, closedUnixNs: 1e18 + 2e9 })]).toEqual([null, "2 s"]);
    // Catches a clock that was set back in between.
    expect(lasted({ ...item, closedUnixNs: 1e18 - 5e9 })).toBe("0 ns");
  });
  // Catches series of one object under another one, and an order that is not that of the answer.
  it("has its charts by object", () => {
    const of = (object: string, series: string) => ({ object, series, unit: "perSecond" as const, points: [[1, 2], null] });
    const incident = { apiVersion: "canopy/v1", kind: "Incident", incident: item, startUnixNs: 5e9, stepSeconds: 1, series: [of("link/n1/eth1", "drops"), of("group/g", "naks"), of("link/n1/eth1", "loss")] } as unknown as Incident;
    const all = charted(incident);
    expect(all.map(({ object, data }) => [object, data.start, data.series.map(({ name }) => name)])).toEqual([["link/n1/eth1", 5, ["drops", "loss"]], ["group/g", 5, ["naks"]]]);
    expect(all[0]?.data.series[0]?.points).toEqual([[1, 2], null]);
  });
  it("names what it charts, also of a later version", () => {
    expect(["fleet", "group/g", "link/n1/eth1", "branch/g/n2/2001:db8::1"].map(chartObject)).toEqual(["fleet", "group g", "link n1/eth1", "branch to 2001:db8::1 at n2 of group g"]);
    expect([title("rtt"), title("later")]).toEqual(["Round-trip time", "later"]);
  });
});
