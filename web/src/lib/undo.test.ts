// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { AuditItem, Version } from "../api/types";
import { around, auditCommand, changed, undo, undoCommand } from "./undo";

const version = (uid: string, generation: number, mtu: number, ended: boolean, deleted = false) =>
  ({ uid, generation, labels: {}, spec: { pathMtu: mtu }, deleted, ...(ended && { endedUnixNs: 1 }) }) as unknown as Version;
const entry = (action: string, uid: string, generation: number, kind = "Group") => ({ action, kind, name: "g", uid, generation, sequence: 1, timeUnixNs: 1, by: { kind: "operator" } }) as unknown as AuditItem;

// The newest first, as the API sends them: b is in force; a was deleted in generation 2.
const versions = [version("b", 3, 512, false), version("b", 2, 2048, true), version("b", 1, 4096, true), version("a", 2, 1024, true, true), version("a", 1, 4096, true)];

// Catches versions of another resource of the same name, and of another generation.
it("an entry lies between two versions of its own resource", () => {
  expect(changed(entry("update", "b", 2), around(entry("update", "b", 2), versions))).toEqual([{ pointer: "/spec/pathMtu", old: 4096, new: 2048 }]);
  expect(changed(entry("update", "a", 2), around(entry("update", "a", 2), versions))).toEqual([{ pointer: "/spec/pathMtu", old: 4096, new: 1024 }]);
  expect(changed(entry("create", "b", 1), around(entry("create", "b", 1), versions))).toEqual([{ pointer: "", new: { metadata: { labels: {} }, spec: { pathMtu: 4096 } } }]);
  expect(changed(entry("delete", "a", 2), around(entry("delete", "a", 2), versions))).toEqual([{ pointer: "", old: { metadata: { labels: {} }, spec: { pathMtu: 1024 } } }]);
  expect(changed(entry("update", "c", 2), around(entry("update", "c", 2), versions))).toMatch(/no longer kept/);
});

// Catches an undo without a condition, one that hides what it takes back besides, and one that would do nothing.
it("an undo puts the version before back, if nothing else was written meanwhile", () => {
  expect(undo(entry("update", "b", 3), versions)).toMatchObject({ to: { generation: 2 }, isThere: true, condition: { "If-Match": '"b.3"' }, also: 0 });
  expect(undo(entry("update", "b", 2), versions)).toMatchObject({ to: { generation: 1 }, also: 1 });
  expect(undo(entry("delete", "a", 2), versions)).toMatchObject({ to: { uid: "a", generation: 2 }, isThere: true, condition: { "If-Match": '"b.3"' }, also: 0 });
  expect(undo(entry("delete", "a", 2), versions.slice(3))).toMatchObject({ isThere: false, condition: { "If-None-Match": "*" } });
  expect(undo(entry("create", "b", 1), versions)).toMatch(/nothing before it/);
  expect(undo(entry("update", "c", 2), versions)).toMatch(/no longer kept/);
  expect(undo(entry("create", "b", 1, "Member"), [])).toMatch(/^Only/);
  expect(undo(entry("delete", "b", 3), versions)).toBe("This version is in force.");
});

// Catches an undo by which one tenant gets what a group of another tenant was that had the name before.
it("what another tenant had under the name is not put back", () => {
  const of = (tenant: string, from: Version): Version => ({ ...from, tenant });
  const moved = versions.map((version) => of(version.uid === "b" ? "acme" : "other", version));
  expect(undo(entry("delete", "a", 2), moved)).toBe("This version is of tenant other, and the group is tenant acme's by now.");
  expect(undo(entry("update", "b", 3), moved)).toMatchObject({ to: { generation: 2 } });
});

it("commands do the same", () => {
  expect(undoCommand(entry("update", "b", 2), version("b", 1, 1, true))).toBe("canopyctl undo group g --to 1");
  expect(undoCommand(entry("update", "b", 2, "Topology"), version("b", 1, 1, true))).toBe("canopyctl undo topology --to 1");
  expect(auditCommand({})).toBe("canopyctl audit");
  expect(auditCommand({ hosts: true, kind: "ChangeSet", request: "ab" })).toBe("canopyctl audit --hosts --kind change-set --request ab");
  expect(auditCommand({ kind: "Drain", by: "a b", within: "1h", action: "delete" })).toBe("canopyctl audit --kind drain --by 'a b' --action delete --within 1h");
});
