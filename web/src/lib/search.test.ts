// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { acts, argument, matches, next, port, type Found } from "./search";

const node = (name: string): Found => ({ kind: "node", name, target: { to: "/nodes/$node", params: { node: name } } });

it("offers what begins with the text before what has it within", () => {
  const all = ["leaf10", "spine1", "leaf1", "leaf2"].map(node);
  expect(matches("LEAF1 ", all).map((f) => f.name)).toEqual(["leaf10", "leaf1"]);
  expect(matches("1", all).map((f) => f.name)).toEqual(["leaf10", "spine1", "leaf1"]);
  expect(matches("e1", all).map((f) => f.name)).toEqual(["spine1"]);
  expect([matches("", all), matches("  ", all), matches("x", all)]).toEqual([[], [], []]);
});

it("ends at a bound, however many there are", () => {
  const many = Array.from({ length: 10_000 }, (_, i) => node(`leaf${i}`));
  expect(matches("leaf", many).map((f) => f.name)).toEqual(["leaf0", "leaf1", "leaf2", "leaf3", "leaf4", "leaf5"]);
});

it("knows the port of a node by its name", () => {
  const nodes = new Set(["n1"]);
  expect(port("n1/eth1.3", nodes)).toEqual([{ kind: "link", name: "n1/eth1.3", target: { to: "/links/$node/$port", params: { node: "n1", port: "eth1.3" } } }]);
  expect([port("n2/eth1", nodes), port("n1/", nodes), port("n1/a/b", nodes), port("n1", nodes)]).toEqual([[], [], [], []]);
});

it("finds an action by its words in any order, and by what else it is called", () => {
  const action = (name: string, also?: string): Found => ({ kind: "action", name, ...(also && { also }), target: { do: "signOut" } });
  const all = [action("Create group", "new"), action("Drain node n2"), action("Drain node n20"), action("Sign out", "log out")];
  const names = (text: string) => acts(text, all).map((found) => found.name);
  expect([names("drain n2"), names("N20 drain"), names("new group"), names("LOG"), names("drain n3")]).toEqual([["Drain node n2", "Drain node n20"], ["Drain node n20"], ["Create group"], ["Sign out"], []]);
  expect([names(""), names(" "), names("n"), names("no")]).toEqual([[], [], [], ["Drain node n2", "Drain node n20"]]);
  expect(acts("drain", Array.from({ length: 50 }, (_, at) => action(`Drain node n${at}`)))).toHaveLength(6);
});

it("knows what is to be drained or put back", () => {
  expect(["drain n2", "Drain node n2 ", "  put  back n1-eth1", "undrain link x", "drain ", "n2", "draining"].map(argument)).toEqual(["n2", "n2", "n1-eth1", "x", "", "n2", "draining"]);
});

it("goes round at the ends of the list", () => {
  expect([next(0, -1, 3), next(2, 1, 3), next(0, 1, 3), next(0, 1, 0)]).toEqual([2, 0, 1, 0]);
});
