// SPDX-License-Identifier: Apache-2.0
// The session of this tab: the bearer that a code was exchanged for. It is kept until the tab is closed, and sent in a header: a cookie would
// be sent to every port of the machine, and by pages of other origins.
import { useSyncExternalStore } from "react";
import { principal } from "../lib/commit";
import type { Session } from "./types";

const BEARER = "bearer";
const BY = "signedInAs";
const ROLE = "role";
const SIGN_IN = "/api/v1/sign-in";
const CODE = /^(?:.*#)?([A-Za-z0-9_-]{22})$/;

const listeners = new Set<() => void>();

/** Calls back when the session begins or ends. */
export function onSession(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** What a tab keeps of its session. */
export interface Held {
  bearer: string;
  /** Who is signed in. */
  by: string;
  /** What the session may do; absent if the controller did not answer it. */
  role?: string | undefined;
}

export function held(): Held | null {
  const [bearer, by, role] = [BEARER, BY, ROLE].map((key) => sessionStorage.getItem(key));
  return bearer && by ? { bearer, by, ...(role ? { role } : {}) } : null;
}

/** What requests send; null without a session. */
export function authorization(): string | null {
  const session = held();
  return session && `Bearer ${session.bearer}`;
}

const signedInAs = () => held()?.by ?? null;
/** The name of who is signed in, null without a session. */
export const useSignedInAs = (): string | null => useSyncExternalStore(onSession, signedInAs);

const role = () => held()?.role ?? null;
/** The role of the session, null if it is not known. */
export const useRole = (): string | null => useSyncExternalStore(onSession, role);
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

export const begin = ({ bearer, by, role }: Session): void => keep({ bearer, by: principal({ ...by, via: null }), role: role ?? undefined });

export function keep({ bearer, by, role }: Held): void {
  sessionStorage.setItem(BEARER, bearer);
  sessionStorage.setItem(BY, by);
  if (role) sessionStorage.setItem(ROLE, role);
  else sessionStorage.removeItem(ROLE);
  for (const listener of listeners) listener();
}

export function end(): void {
  sessionStorage.removeItem(BEARER);
  sessionStorage.removeItem(BY);
  sessionStorage.removeItem(ROLE);
  for (const listener of listeners) listener();
}

/** Adds the bearer. A code is sent without: it begins another session. */
export function authorized(request: Request): Request {
  const bearer = authorization();
  const isSignIn = request.method === "POST" && new URL(request.url).pathname === SIGN_IN;
  if (bearer && !isSignIn) request.headers.set("Authorization", bearer);
  return request;
}

/** Ends the session here once the controller does not know it any more. An answer to another bearer changes nothing. */
export function noteAnswer(status: number, sent: string | null): void {
  if (status === 401 && sent !== null && sent === authorization()) end();
}
