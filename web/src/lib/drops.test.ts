// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { dropRows } from "./drops";

const sample = (seconds: number, ...packets: number[]) => ({ timeUnixNs: seconds * 1e9, drops: packets.map((count, at) => ({ reason: 1 + (at >> 1), name: `r${1 + (at >> 1)}`, port: at % 2 ? "eth1" : null, packets: count })) });

// Catches a rate of another reason or port, one by the browser's clock, and a counter that began anew as a negative rate.
it("has the rate of each reason and port between two samples, most packets first", () => {
  expect(dropRows(sample(12, 100, 30, 7), sample(10, 100, 20)).map(({ name, port, packets, perSecond }) => [name, port, packets, perSecond])).toEqual([["r1", null, 100, 0], ["r1", "eth1", 30, 5], ["r2", null, 7, 3.5]]);
  expect(dropRows(sample(12, 3), sample(10, 100))[0]?.perSecond).toBeNull();
  expect(dropRows(sample(10, 3, 9), undefined).map(({ packets, perSecond }) => [packets, perSecond])).toEqual([[9, null], [3, null]]);
  expect(dropRows({ timeUnixNs: null, drops: [] }, undefined)).toEqual([]);
});
