// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { drainCommand, drainName } from "./drain";

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
