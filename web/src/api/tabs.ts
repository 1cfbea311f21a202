// SPDX-License-Identifier: Apache-2.0
// A tab that a link has opened gets the session of a tab that has one: browsers copy no sessionStorage to it. The channel reaches pages of this
// origin only, which has the port of the controller in it.
import { hasCookies, held, keep, type Held } from "./session";

const WANTED = "wanted";

/** Passes this tab's session on to tabs that want one; `wants` whether this tab does. */
export function shareSession(wants: boolean): void {
  // A cookie is every tab's.
  if (hasCookies()) return;
  const tabs = new BroadcastChannel("session");
  let waits = wants && !held();
  tabs.addEventListener("message", ({ data }: MessageEvent<Held | typeof WANTED>) => {
    const own = held();
    if (data === WANTED) {
      if (own) tabs.postMessage(own);
    } else if (waits && !own) {
      waits = false;
      keep(data);
    }
  });
  if (waits) tabs.postMessage(WANTED);
}
