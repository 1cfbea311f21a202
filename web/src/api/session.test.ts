// SPDX-License-Identifier: Apache-2.0
import { beforeEach, expect, it, vi } from "vitest";
import { authorization, authorized, begin, codeIn, end, held, isOfDomain, leaveForProvider, noteAnswer, onSession, takeCode, takeProviderAnswer } from "./session";

const CODE = "abcdefghij-_ABCDEFGH01";
const session = (bearer: string) => ({ bearer, by: { kind: "operator", name: "alice", via: "ui" }, role: "operator", expiresInSeconds: 43_200 });

beforeEach(() => {
  vi.unstubAllGlobals();
  const kept = new Map<string, string>();
  vi.stubGlobal("sessionStorage", {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => kept.set(key, value),
    removeItem: (key: string) => kept.delete(key),
  });
});

it("finds a code alone and behind # of an address, and nothing else", () => {
  for (const text of [CODE, `#${CODE}`, ` http://127.0.0.1:8640/#${CODE}\n`]) expect(codeIn(text)).toBe(CODE);
  for (const text of ["", "#main", `${CODE}0`, CODE.slice(1), `http://127.0.0.1:8640/${CODE}`]) expect(codeIn(text)).toBeNull();
});

// Catches a code that stays in the address bar or in the history, and a path that is lost with it.
it("takes the code out of the address and leaves the page", () => {
  const replaced: unknown[] = [];
  vi.stubGlobal("history", { state: 7, replaceState: (...all: unknown[]) => replaced.push(all) });
  vi.stubGlobal("location", { hash: `#${CODE}`, pathname: "/groups", search: "?q=a" });
  expect(takeCode()).toBe(CODE);
  expect(replaced).toEqual([[7, "", "/groups?q=a"]]);
  vi.stubGlobal("location", { hash: "#main", pathname: "/", search: "" });
  expect(takeCode()).toBeNull();
  expect(replaced.length).toBe(1);
});

// Catches a bearer that goes with a code, which would end the session if the code is wrong.
it("sends the bearer with everything but a code", () => {
  const sent = (method: string, path: string) => authorized(new Request(`http://localhost${path}`, { method })).headers.get("Authorization");
  expect(sent("GET", "/api/v1/groups")).toBeNull();
  begin(session("b1"));
  expect(sent("GET", "/api/v1/groups")).toBe("Bearer b1");
  expect(sent("DELETE", "/api/v1/sign-in")).toBe("Bearer b1");
  expect(sent("POST", "/api/v1/sign-in")).toBeNull();
});

it("ends with a refusal of its own bearer only", () => {
  const seen: (string | null)[] = [];
  const stop = onSession(() => seen.push(authorization()));
  begin(session("b1"));
  begin(session("b2"));
  noteAnswer(401, "Bearer b1");
  noteAnswer(401, null);
  noteAnswer(403, "Bearer b2");
  expect(seen).toEqual(["Bearer b1", "Bearer b2"]);
  noteAnswer(401, "Bearer b2");
  expect(seen).toEqual(["Bearer b1", "Bearer b2", null]);
  stop();
  end();
  expect(seen.length).toBe(3);
});

// Catches a role that stays when another user signs in, or after the session.
it("keeps the role of the session and no other", () => {
  begin({ ...session("b1"), role: "viewer" });
  expect(held()).toEqual({ bearer: "b1", by: "alice", role: "viewer" });
  begin({ ...session("b2"), role: null });
  expect(held()).toEqual({ bearer: "b2", by: "alice" });
  begin({ ...session("b3"), role: "viewer" });
  end();
  expect([held(), sessionStorage.getItem("role")]).toEqual([null, null]);
});

// Catches a session of a tenant that asks for what is the domain's, one of the domain that does not, and one that stays so for the next user.
it("knows whether it sees the domain or single tenants", () => {
  const of = (role: string | null, tenants?: Record<string, string>) => {
    begin({ ...session("b1"), role, ...(tenants && { tenants }) });
    return [held()?.role, held()?.tenants, isOfDomain()];
  };
  expect(of(null, { b: "operator", a: "viewer" })).toEqual(["operator", "a, b", false]);
  expect(of("metrics", { a: "viewer" })).toEqual(["viewer", "a", false]);
  expect(of("viewer", { a: "admin" })).toEqual(["viewer", undefined, true]);
  expect(of("operator")).toEqual(["operator", undefined, true]);
  of(null, { a: "viewer" });
  end();
  expect(isOfDomain()).toBe(true);
});

// Catches a tab that keeps a secret where a cookie is the session, a write that a form could send, and a session that a refusal does not end.
it("keeps no secret where a cookie is the session", () => {
  vi.stubGlobal("location", { protocol: "https:", hash: "", pathname: "/", search: "" });
  expect(held()).toBeNull();
  begin({ by: { kind: "operator", name: "oidc:alice" }, role: "operator" });
  expect(held()).toEqual({ bearer: "", by: "oidc:alice", role: "operator" });
  const sent = (method: string) => authorized(new Request("https://localhost/api/v1/groups/g1", { method })).headers;
  expect([sent("DELETE").get("Authorization"), sent("DELETE").get("Content-Type"), sent("GET").get("Content-Type")]).toEqual([null, "application/json", null]);
  noteAnswer(200, null);
  expect(held()).not.toBeNull();
  noteAnswer(401, null);
  expect(held()).toBeNull();
});

// Catches an answer of the identity provider that stays in the address or the history, and a page of another origin that it leads to.
it("takes the provider's answer out of the address and comes back to the page that was left", () => {
  const replaced: unknown[] = [];
  vi.stubGlobal("history", { state: 7, replaceState: (...all: unknown[]) => replaced.push(all[2]) });
  vi.stubGlobal("location", { pathname: "/groups", search: "?q=a" });
  expect(takeProviderAnswer()).toBeNull();
  leaveForProvider();
  vi.stubGlobal("location", { pathname: "/signed-in", search: "?code=c&state=s&iss=https%3A%2F%2Fidp.example" });
  expect(takeProviderAnswer()).toEqual({ code: "c", state: "s", issuer: "https://idp.example" });
  vi.stubGlobal("location", { pathname: "/signed-in", search: "?error=access_denied&state=s" });
  expect(takeProviderAnswer()).toEqual({ error: "access_denied", state: "s" });
  for (const left of ["//evil.example", "https://evil.example", "/signed-in?code=c"]) {
    sessionStorage.setItem("returnTo", left);
    takeProviderAnswer();
  }
  expect(replaced).toEqual(["/groups?q=a", "/", "/", "/", "/"]);
});
