// SPDX-License-Identifier: Apache-2.0
// What a tab without a session shows, whatever its address: once it has one, the page of that address is there.
import { useMutation } from "@tanstack/react-query";
import { useEffect, useState, type FormEvent } from "react";
import { codeIn } from "./api/session";
import { signIn } from "./api/signIn";
import { Command } from "./ui/Command";
import { ErrorNote, Page } from "./ui/Page";

/** The address that `canopyctl` has by default. */
const DEFAULT_HOST = "127.0.0.1:8640";
const server = location.host === DEFAULT_HOST ? "" : ` --server ${location.origin}`;

/** `code` is that of the address, if it had one. */
export function SignIn({ code }: { code: string | null }) {
  const [text, setText] = useState("");
  const exchange = useMutation({ mutationFn: signIn });
  const { mutate } = exchange;
  useEffect(() => {
    if (code) mutate(code);
  }, [code, mutate]);
  const typed = codeIn(text);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (typed) mutate(typed);
  };
  return (
    <main className="sign-in">
      <Page title="Sign in" tab="Sign in">
        {exchange.isPending ? (
          <p role="status">Signing in…</p>
        ) : (
          <>
            <ErrorNote error={exchange.error} />
            <p>On the controller&apos;s machine, this opens the web UI, signed in as you:</p>
            <p>
              <Command line={`canopyctl${server} ui`} />
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
