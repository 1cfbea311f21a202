// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Problem } from "../api/types";
import { ackCommand, ackName, endsAt, known } from "./silence";

const problem = { id: "00c0ffee00c0ffee" } as Problem;

it("is the command that does the same", () => {
  expect(ackName(problem)).toBe("problem-00c0ffee00c0ffee");
  expect(ackCommand(problem, "it's optics", "4h")).toBe(`canopyctl ack 00c0ffee00c0ffee --note 'it'\\''s optics' --for 4h`);
  expect(ackCommand(problem, "", "")).toBe("canopyctl ack 00c0ffee00c0ffee --note NOTE");
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
