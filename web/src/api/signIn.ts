// SPDX-License-Identifier: Apache-2.0
// Begins and ends the session of this tab at the controller.
import { api, data } from "./client";
import { begin, end } from "./session";

/** Exchanges a code for a session. */
export async function signIn(code: string): Promise<void> {
  begin(await data(api.POST("/api/v1/sign-in", { body: { code } })));
}

/** Ends the session; in this tab also if the controller cannot be reached, where it ends by itself later. */
export async function signOut(): Promise<void> {
  await data(api.DELETE("/api/v1/sign-in")).catch(() => undefined);
  end();
}
