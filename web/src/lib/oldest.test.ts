// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { inWords, SentTimes } from "./oldest";

const sent = (...samples: [high: number, second: number][]) => {
  const times = new SentTimes();
  for (const [high, second] of samples) times.note(high, second * 1e9);
  return times;
};

// Catches an age from the receiver's last ACK: a receiver that acknowledges all the time can be far behind.
it("has the time since the sample by which the packet had been sent", () => {
  const times = sent([100, 1], [200, 2], [300, 3], [400, 4]);
  expect(times.since(150)).toEqual({ ns: 2e9, isOlder: false });
  // Packet 200 is the first one after the second sample.
  expect(times.since(200)).toEqual({ ns: 1e9, isOlder: false });
  expect(times.since(399)).toEqual({ ns: 0, isOlder: false });
  expect(times.since(400)).toBe(null);
  expect(new SentTimes().since(0)).toBe(null);
});

// Catches a packet that was sent long before the page was opened and is shown as just sent.
it("has a least age for what was sent before the first sample", () => {
  expect(sent([100, 1], [200, 13]).since(40)).toEqual({ ns: 12e9, isOlder: true });
});

it("forgets what is long ago, and a session that has ended; takes a sample once", () => {
  const many = new SentTimes();
  for (let second = 1; second <= 500; second += 1) many.note(second * 10, second * 1e9);
  expect(many.since(5)).toEqual({ ns: 119e9, isOlder: true });
  expect(sent([100, 1], [200, 2], [20, 3], [30, 4]).since(5)).toEqual({ ns: 1e9, isOlder: true });
  expect(sent([100, 1], [100, 1], [150, 1]).since(120)).toBe(null);
});

it("has words", () => {
  expect([null, { ns: 0, isOlder: true }, { ns: 12e9, isOlder: true }, { ns: 4e8, isOlder: false }, { ns: 1e9, isOlder: false }, { ns: 75e9, isOlder: false }].map(inWords)).toEqual(["none", "–", "> 12 s", "< 1 s", "1 s", "1 min"]);
});
