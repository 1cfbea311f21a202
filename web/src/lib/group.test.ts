// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Group } from "../api/types";
import { GROUP_FIELDS, groupForm, groupResource, MEMBER, memberResource } from "./group";

const old = {
  metadata: { name: "g", labels: { job: "llm" } },
  spec: { pathMtu: 1024, minReceivers: 2, stallPolicy: "evict", stallAfterMs: 200, replication: "srv6", encoding: "auto", maxFlight: 65536, cnpWindowUs: 1000, startPsn: null, later: "stays" },
} as unknown as Group;

// Catches a default that the form sends as a value, so that it stays when the controller's changes.
it("a new group has only what was filled in", () => {
  const { resource, missing } = groupResource({ name: " g ", labels: "", spec: { pathMtu: "512", stallPolicy: "evict", maxFlight: "" } });
  expect(resource).toEqual({ apiVersion: "canopy/v1", kind: "Group", metadata: { name: "g" }, spec: { pathMtu: 512, stallPolicy: "evict" } });
  expect(missing).toEqual({});
});

// Catches an edit that puts settings back that the form does not know, and one that changes what was not touched.
it("a group that is sent as it was read is the same", () => {
  const { resource } = groupResource(groupForm(old), old);
  const { startPsn, ...spec } = old.spec;
  expect(startPsn).toBe(null);
  expect(resource).toEqual({ apiVersion: "canopy/v1", kind: "Group", metadata: { name: "g", labels: { job: "llm" } }, spec });
  const { resource: other } = groupResource({ ...groupForm(old), labels: "", spec: { ...groupForm(old).spec, maxFlight: "", startPsn: "0x10" } }, old);
  expect(other).toMatchObject({ metadata: { name: "g" }, spec: { startPsn: 16, later: "stays" } });
  expect(JSON.stringify(other)).not.toMatch(/maxFlight|labels/);
});

it("what is missing is at its field", () => {
  const { missing } = groupResource({ name: "", labels: "x", spec: { minReceivers: "two" } });
  expect(Object.keys(missing)).toEqual(["metadata.name", "metadata.labels", "spec.minReceivers"]);
  expect(Object.keys(missing).every((field) => GROUP_FIELDS.includes(field))).toBe(true);
  expect(Object.keys(memberResource("g", MEMBER).missing)).toEqual(["spec.host", "spec.qpn"]);
  expect(Object.keys(memberResource("g", { ...MEMBER, host: "r1", qpn: "2", rkey: "7" }).missing)).toEqual(["spec.memory.va", "spec.memory.length"]);
});

// Catches a field of the other role that is sent although the form does not show it.
it("a member has what its role has", () => {
  const form = { ...MEMBER, host: "r1", qpn: "0x11", address: "2001:db8::1", startPsn: "5", va: "4096", rkey: "0x10", length: "64" };
  expect(memberResource("g", form).resource).toEqual({
    apiVersion: "canopy/v1", kind: "Member", metadata: { group: "g" }, spec: { host: "r1", role: "receiver", qpn: 17, address: "2001:db8::1", memory: { va: 4096, rkey: 16, length: 64 } },
  });
  expect(memberResource("g", { ...form, role: "source" }).resource).toMatchObject({ spec: { role: "source", startPsn: 5 } });
  expect(JSON.stringify(memberResource("g", { ...form, role: "source" }).resource)).not.toContain("memory");
});
