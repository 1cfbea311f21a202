// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Drain } from "../api/types";
import { drainCommand, drainName, drainOf, nodesDrained } from "./drain";

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

const drained = (name: string, spec: Partial<Drain["spec"]>, links: string[]) => ({ metadata: { name }, spec: { reason: "optics", ...spec }, status: { links, groups: 0, hosts: [] } }) as unknown as Drain;

// Catches a button that puts a whole node back from the page of one of its links, and one that misses a drain by the link's other end.
it("finds the drain of a target itself, and the nodes that took a link along", () => {
  const whole = "n1/eth1--n2/eth1";
  const drains = [drained("n2", { node: "n2" }, [whole, "n2/eth2--n3/eth1"]), drained("other", { link: "n3/eth9" }, []), drained("n2-eth1", { link: "n2/eth1" }, [whole])];
  expect(drainOf(drains, { link: whole })?.metadata.name).toBe("n2-eth1");
  expect(drainOf(drains, { link: "n2/eth2--n3/eth1" })).toBeUndefined();
  expect(drainOf(drains, { node: "n2" })?.metadata.name).toBe("n2");
  expect(drainOf(drains, { node: "n1" })).toBeUndefined();
  expect(nodesDrained(drains, whole)).toEqual(["n2"]);
  expect(nodesDrained(drains, "n1/eth2--n3/eth2")).toEqual([]);
});
