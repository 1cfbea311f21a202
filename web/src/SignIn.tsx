// SPDX-License-Identifier: Apache-2.0
// What a tab without a session shows, whatever its address: once it has one, the page of that address is there.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useState, type FormEvent } from "react";
import { codeIn, hasCookies, type ProviderAnswer } from "./api/session";
import { goToProvider, provider, resume, signIn, signInByProvider } from "./api/signIn";
import { Command } from "./ui/Command";
import { ErrorNote, Page } from "./ui/Page";
import { WAITS } from "./ui/words";

/** The address that `canopyctl` has by default. */
const DEFAULT_HOST = "127.0.0.1:8640";
const server = location.host === DEFAULT_HOST || hasCookies() ? "" : ` --server ${location.origin}`;

/** The provider's answer is exchanged once, whatever is shown meanwhile. */
const seen = new WeakSet<ProviderAnswer>();

/** Without a code and an answer, a browser with a cookie may have a session. */
const enter = (code: string | null, answer: ProviderAnswer | null) => (code ? signIn(code) : answer ? signInByProvider(answer) : resume().catch(() => undefined));

/** `code` is that of the address, if it had one; `answer` what the identity provider has sent to it. */
export function SignIn({ code, answer }: { code: string | null; answer: ProviderAnswer | null }) {
  const [text, setText] = useState("");
  const exchange = useMutation({ mutationFn: signIn });
  const entry = useMutation({ mutationFn: () => enter(code, answer && !seen.has(answer) ? answer : null) });
  const { mutate } = entry;
  useEffect(() => {
    if (code || hasCookies()) {
      mutate(undefined, { onSettled: () => answer && seen.add(answer) });
    }
  }, [code, answer, mutate]);
  const typed = codeIn(text);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (typed) exchange.mutate(typed);
  };
  return (
    <main className="sign-in">
      <Page title="Sign in" tab="Sign in">
        {exchange.isPending || entry.isPending ? (
          <p role="status">Signing in…</p>
        ) : (
          <>
            <ErrorNote error={exchange.error ?? entry.error} />
            {hasCookies() && <Provider />}
            <p>On the controller&apos;s machine, {hasCookies() ? "this prints an address to paste here" : "this opens the web UI"}, signed in as you:</p>
            <p>
              <Command line={`canopyctl${server} ui${hasCookies() ? " --print" : ""}`} />
            </p>
            <form onSubmit={submit}>
              <label className="field">
                <span>
                  Or paste the address that <code>canopyctl{server} ui --print</code> prints. It works once, within a minute.
                </span>
                <input type="text" autoComplete="off" spellCheck={false} value={text} onChange={(event) => setText(event.target.value)} />
              </label>
              <div className="tools">
                <button type="submit" className="primary" disabled={!typed} aria-describedby="sign-in-why">
                  Sign in
                </button>
                <span id="sign-in-why" className="faint">{!typed && "A code has 22 characters."}</span>
              </div>
            </form>
            <p className="faint">
              A session lasts 12 hours at most, and ends when the controller restarts. Without one, <a href="/plain">the state of the domain is on one page</a>.
            </p>
          </>
        )}
      </Page>
    </main>
  );
}

/** The way by the identity provider, where this address has one. */
function Provider() {
  const name = useQuery({ queryKey: ["provider"], queryFn: provider }).data;
  const leave = useMutation({ mutationFn: goToProvider });
  if (!name) return null;
  return (
    <>
      <ErrorNote error={leave.error} />
      <p>
        <button type="button" className="primary" disabled={leave.isPending} aria-describedby="provider-why" onClick={() => leave.mutate()}>
          Sign in with {new URL(name).host}
        </button>{" "}
        <span id="provider-why" className="faint">{leave.isPending && WAITS}</span>
      </p>
    </>
  );
}
