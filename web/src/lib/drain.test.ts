// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { drainCommand, drainName, drainOf } from "./drain";

it("names a drain after its target, as a label", () => {
  expect(drainName({ link: "n4/Eth1.3--n2/eth1" })).toBe("n4-eth1-3");
  expect(drainName({ link: "n4/eth3" })).toBe("n4-eth3");
  expect(drainName({ node: "n4" })).toBe("n4");
});

// Catches a reason that ends the quotation and becomes a command of its own in the operator's shell.
it("quotes what is copied to a shell", () => {
  expect(drainCommand({ node: "n4" }, "fan; rm -rf 'x'", true)).toBe(`canopyctl drain node n4 --reason 'fan; rm -rf '\\''x'\\''' --accept-loss`);
  expect(drainCommand({ link: "n1/eth1" }, "", false)).toBe("canopyctl drain link n1/eth1 --reason REASON");
  expect(drainCommand({ node: "n4" }, "fan", false, "4h")).toBe("canopyctl drain node n4 --reason fan --for 4h");
});

it("drains what the remedy of a problem names, and nothing else", () => {
  const remedy = "Check optics, cables and counters at both ends. Drain the link to move its trees away.";
  expect(drainOf({ object: { kind: "link", name: "n1/eth1--n2/eth1" }, remedy })).toEqual({ link: "n1/eth1--n2/eth1" });
  expect(drainOf({ object: { kind: "link", name: "n1/eth1--n2/eth1" }, remedy: "Undrain or mend links, or change the group." })).toBe(null);
  expect(drainOf({ object: { kind: "port", name: "n1/eth1" }, remedy })).toBe(null);
});

// Catches other words of the controller, with which the button would be gone. docs/problems.md is made from its registry.
it("finds the words in the remedies that the controller has", () => {
  const problems = readFileSync("../docs/problems.md", "utf8").split("\n## ").slice(1);
  const named = problems.filter((text) => drainOf({ object: { kind: "link", name: "n1/eth1--n2/eth1" }, remedy: /\nWhat to do: (.*)/.exec(text)?.[1] ?? "" }));
  expect(named.map((text) => text.split("\n")[0])).toEqual(["LinkLossy"]);
});
