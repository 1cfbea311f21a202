// SPDX-License-Identifier: Apache-2.0
import { useQuery } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import { status } from "./api/queries";
import { useRole, useTenants, useSignedInAs } from "./api/session";
import { signOut } from "./api/signIn";
import { useLive } from "./api/useLive";
import type { Live } from "./api/live";
import { everySecond } from "./lib/clock";
import { age } from "./lib/format";
import type { State } from "./lib/state";
import { setTheme, setUtc, useTheme, useUtc } from "./ui/settings";
import { StateWord } from "./ui/State";

/** A heartbeat comes every 5 s. */
const LATE = 7000;

/** What the top bar shows of the stream: a state and its word. */
export function liveWord({ phase, lastAt }: Live, now: number): [State, string] {
  const silent = lastAt ? now - lastAt : 0;
  switch (phase) {
    case "live":
      return silent > LATE ? ["degraded", `stale for ${age(silent * 1e6)}`] : ["ok", "live"];
    case "connecting":
      return ["pending", "connecting"];
    case "paused":
      return ["pending", "paused"];
    case "reconnecting":
      return ["failed", lastAt ? `reconnecting, last data ${age(silent * 1e6)} ago` : "reconnecting"];
  }
}

export function TopBar({ onSearch }: { onSearch: () => void }) {
  const live = useLive();
  const second = useSyncExternalStore(everySecond, () => Math.floor(Date.now() / 1000));
  const domain = useQuery(status).data;
  const theme = useTheme();
  const utc = useUtc();
  const signedInAs = useSignedInAs();
  const role = useRole();
  const tenants = useTenants();
  const [state, word] = liveWord(live, second * 1000);
  return (
    <header className="top">
      <span className="grow faint">{domain && `controller ${domain.version}, term ${domain.term}`}</span>
      <button type="button" onClick={onSearch} aria-keyshortcuts="Control+K Meta+K">
        Search <kbd>Ctrl K</kbd>
      </button>
      <span role="status" aria-label="Connection to the controller">
        <StateWord state={state}>{word}</StateWord>
      </span>
      <button type="button" className="quiet" onClick={() => setUtc(!utc)} aria-label={`Times are in ${utc ? "UTC" : "local time"}; change`}>
        {utc ? "UTC" : "local"}
      </button>
        <select aria-label="Theme" value={theme} onChange={(event) => setTheme(event.target.value as typeof theme)}>
          <option value="system">system</option>
          <option value="dark">dark</option>
          <option value="light">light</option>
        </select>
      <button type="button" className="quiet" onClick={() => void signOut()} title={`Signed in as ${signedInAs ?? ""}${role ? `, ${role}` : ""}${tenants ? ` in ${tenants}` : ""}`}>
        Sign out
      </button>
    </header>
  );
}
