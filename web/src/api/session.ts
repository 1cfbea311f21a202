// SPDX-License-Identifier: Apache-2.0
// The session of this tab. On this machine, it is the bearer that a code was exchanged for, kept until the tab is closed, and sent in a header: a
// cookie would be sent to every port of the machine, and by pages of other origins. Over TLS it is a cookie that no page can read, and the tab
// keeps only whose it is.
import { useSyncExternalStore } from "react";
import { principal } from "../lib/commit";
import type { Session } from "./types";

const BEARER = "bearer";
const BY = "signedInAs";
const ROLE = "role";
const TENANTS = "tenants";
const ROLES = ["metrics", "viewer", "operator", "admin"];
const SIGN_IN = "/api/v1/sign-in";
const CODE = /^(?:.*#)?([A-Za-z0-9_-]{22})$/;

const listeners = new Set<() => void>();

/** Calls back when the session begins or ends. */
export function onSession(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Whether sessions of this origin are cookies. */
export const hasCookies = (): boolean => globalThis.location?.protocol === "https:";

/** What a tab keeps of its session. */
export interface Held {
  /** Empty where a cookie is the session. */
  bearer: string;
  /** Who is signed in. */
  by: string;
  /** What the session may do; absent if the controller did not answer it. */
  role?: string | undefined;
  /** The tenants of a session that has no role in the domain, for people. */
  tenants?: string | undefined;
}

export function held(): Held | null {
  const [bearer, by, role, tenants] = [BEARER, BY, ROLE, TENANTS].map((key) => sessionStorage.getItem(key));
  return by && (bearer || hasCookies()) ? { bearer: bearer ?? "", by, ...(role ? { role } : {}), ...(tenants ? { tenants } : {}) } : null;
}

/** The bearer that requests send; null without a session, and where the browser sends a cookie. */
export function authorization(): string | null {
  const bearer = held()?.bearer;
  return bearer ? `Bearer ${bearer}` : null;
}

const signedInAs = () => held()?.by ?? null;
/** The name of who is signed in, null without a session. */
export const useSignedInAs = (): string | null => useSyncExternalStore(onSession, signedInAs);

const role = () => held()?.role ?? null;
/** The role of the session, its highest in any tenant; null if it is not known. */
export const useRole = (): string | null => useSyncExternalStore(onSession, role);
/** Whether the session may see the domain itself, and not only what tenants have. */
export const isOfDomain = (): boolean => held()?.tenants === undefined;
const tenants = () => held()?.tenants ?? null;
/** The tenants of a session that sees nothing else, null if it sees the domain. */
export const useTenants = (): string | null => useSyncExternalStore(onSession, tenants);
/** Why the session cannot write; nothing if it can. The controller decides it, and this only spares a form that it would refuse. */
export const useReadOnly = (): string => (useRole() === "viewer" ? "You have the role viewer, and writes need operator: ask an administrator." : "");

/** The code in a text: alone, or behind # in an address. */
export const codeIn = (text: string): string | null => CODE.exec(text.trim())?.[1] ?? null;

/** Takes the code out of the address bar and of this entry of the history. */
export function takeCode(): string | null {
  const code = location.hash ? codeIn(location.hash) : null;
  if (code) history.replaceState(history.state, "", location.pathname + location.search);
  return code;
}

/** What the provider of single sign-on has sent to this page: a code, or an error. */
export interface ProviderAnswer {
  code?: string;
  state?: string;
  issuer?: string;
  error?: string;
}

const RETURN_TO = "returnTo";
/** Where the provider sends the browser back to. */
const SIGNED_IN = "/signed-in";

/** Notes the page to come back to from the provider. */
export function leaveForProvider(): void {
  sessionStorage.setItem(RETURN_TO, location.pathname + location.search);
}

/** Takes the provider's answer out of the address bar and of this entry of the history, which has the page then that was left. */
export function takeProviderAnswer(): ProviderAnswer | null {
  if (location.pathname !== SIGNED_IN) return null;
  const sent = new URLSearchParams(location.search);
  const left = sessionStorage.getItem(RETURN_TO) ?? "/";
  sessionStorage.removeItem(RETURN_TO);
  history.replaceState(history.state, "", /^\/(?!\/)/.test(left) && !left.startsWith(SIGNED_IN) ? left : "/");
  const [code, state, issuer, error] = ["code", "state", "iss", "error"].map((name) => sent.get(name));
  return { ...(code ? { code } : {}), ...(state ? { state } : {}), ...(issuer ? { issuer } : {}), ...(error ? { error } : {}) };
}

export function begin({ bearer = "", by, role, tenants: own = {} }: Omit<Session, "expiresInSeconds"> & Partial<Session>): void {
  const [best] = Object.values(own).sort((a, b) => ROLES.indexOf(b) - ROLES.indexOf(a));
  const names = Object.keys(own).sort().join(", ");
  const isViewer = ROLES.indexOf(role ?? "") >= ROLES.indexOf("viewer");
  keep({ bearer: bearer ?? "", by: principal({ ...by, via: null }), role: (isViewer ? role : best) ?? undefined, tenants: isViewer ? undefined : names || undefined });
}

export function keep({ bearer, by, role, tenants: names }: Held): void {
  sessionStorage.setItem(BEARER, bearer);
  sessionStorage.setItem(BY, by);
  if (role) sessionStorage.setItem(ROLE, role);
  else sessionStorage.removeItem(ROLE);
  if (names) sessionStorage.setItem(TENANTS, names);
  else sessionStorage.removeItem(TENANTS);
  for (const listener of listeners) listener();
}

export function end(): void {
  sessionStorage.removeItem(BEARER);
  sessionStorage.removeItem(BY);
  sessionStorage.removeItem(ROLE);
  sessionStorage.removeItem(TENANTS);
  for (const listener of listeners) listener();
}

/** Adds the bearer. A code is sent without: it begins another session. With a cookie, a write shows that it is no form's. */
export function authorized(request: Request): Request {
  if (hasCookies() && request.method !== "GET" && request.method !== "HEAD") request.headers.set("Content-Type", "application/json");
  const bearer = authorization();
  const isSignIn = request.method === "POST" && new URL(request.url).pathname === SIGN_IN;
  if (bearer && !isSignIn) request.headers.set("Authorization", bearer);
  return request;
}

/** Ends the session here once the controller does not know it any more. An answer to another bearer changes nothing. */
export function noteAnswer(status: number, sent: string | null): void {
  if (status === 401 && held() && sent === authorization()) end();
}
