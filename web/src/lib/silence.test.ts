// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Problem, SilenceSpec } from "../api/types";
import { covers, endsAt, known, silenceCommand, silenceName, silenceSpec } from "./silence";

const problem = { id: "00c0ffee00c0ffee" } as Problem;

it("is the command that does the same", () => {
  expect(silenceName({ problem })).toBe("problem-00c0ffee00c0ffee");
  expect(silenceCommand({ problem }, "it's optics", "4h")).toBe(`canopyctl ack 00c0ffee00c0ffee --note 'it'\\''s optics' --for 4h`);
  expect(silenceCommand({ problem }, "", "")).toBe("canopyctl ack 00c0ffee00c0ffee --note NOTE");
  const link = { kind: "link", name: "n4/Eth1--n2/eth1" } as const;
  expect(silenceName(link)).toBe("link-n4-eth1");
  expect(silenceCommand(link, "fans", "1h")).toBe("canopyctl silence link n4/Eth1--n2/eth1 --note fans --for 1h");
  expect([silenceSpec(link), silenceSpec({ problem })]).toEqual([{ link: "n4/Eth1--n2/eth1" }, { problem: "00c0ffee00c0ffee" }]);
});

// Catches a silence of another object, and one of a link that is named by its end.
it("covers the object that it names", () => {
  const of = (spec: object) => ({ note: "x", ...spec }) as SilenceSpec;
  expect(covers(of({ node: "n1" }), "node", "n1")).toBe(true);
  expect(covers(of({ node: "n1" }), "node", "n11")).toBe(false);
  expect(covers(of({ node: "n1" }), "host", "n1")).toBe(false);
  expect(covers(of({ link: "n2/eth1" }), "link", "n1/eth1--n2/eth1")).toBe(true);
  expect(covers(of({ link: "n2/eth1" }), "link", "n1/eth1--n2/eth11")).toBe(false);
  expect(covers(of({ group: null }), "group", "null")).toBe(false);
});

it("ends at a whole second, not before the time that was wanted", () => {
  expect(endsAt(1000, 3600)).toBe("1970-01-01T01:00:01Z");
  expect(endsAt(1001, 3600)).toBe("1970-01-01T01:00:02Z");
});

it("names who knows what", () => {
  const by = { kind: "operator", name: "alice" } as const;
  expect(known({ name: "n", note: "optics", by })).toBe("alice: optics");
  expect(known({ name: "n", note: "optics" })).toBe("an operator: optics");
});
