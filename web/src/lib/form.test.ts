// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { applyCommand, labels, labelsText, resource, whole } from "./form";

// Catches a text that JavaScript takes for a number and people do not.
it("reads whole numbers, also as QPNs are written", () => {
  expect([whole("17"), whole(" 0x11 "), whole("0")]).toEqual([17, 17, 0]);
  expect(["", " ", "1.5", "-1", "1e3", "17 a", "99999999999999999999"].map(whole)).toEqual(Array(7).fill(null));
});

// Catches a value with an equals sign that is cut, and a label that is lost without a word.
it("reads labels as people write them, and back", () => {
  expect(labels("team=storage, a.b/job=x  empty=")).toEqual({ team: "storage", "a.b/job": "x", empty: "" });
  expect(labels("k=a=b")).toEqual({ k: "a=b" });
  expect(labels("")).toEqual({});
  expect(labels("team")).toBe("A label is written key=value; team is not.");
  expect(labels("=x")).toBe("A label is written key=value; =x is not.");
  expect(labels("a=1 a=2")).toBe("a is there twice.");
  expect(labels(labelsText({ a: "1", b: "" }))).toEqual({ a: "1", b: "" });
});

it("a command applies the same from a shell's input", () => {
  expect(applyCommand({ a: "it's $HOME" })).toBe(`canopyctl apply -f - <<'END'\n{"a":"it's $HOME"}\nEND`);
});

// Catches a whole resource that is wrapped in another one.
it("is a resource, also if only its spec is there", () => {
  const whole = { apiVersion: "canopy/v1", kind: "Topology", metadata: { name: "default" }, spec: { nodes: [] } };
  expect(resource("Topology", "default", JSON.stringify(whole))).toEqual(whole);
  expect(resource("Topology", "default", '{"nodes": []}')).toEqual(whole);
  expect(resource("Topology", "default", " ")).toBe("It is empty.");
  expect(resource("Topology", "default", "[]")).toBe("It is no object.");
  expect(resource("Topology", "default", "nodes:")).toMatch(/^It is no JSON: /);
});
