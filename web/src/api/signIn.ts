// SPDX-License-Identifier: Apache-2.0
// Begins and ends the session of this tab at the controller.
import { api, data } from "./client";
import { begin, end, leaveForProvider, type ProviderAnswer } from "./session";

/** Exchanges a code for a session. */
export async function signIn(code: string): Promise<void> {
  begin(await data(api.POST("/api/v1/sign-in", { body: { code } })));
}

/** The session that this browser has a cookie of, if there is one. */
export async function resume(): Promise<void> {
  const { principal, role, tenants } = await data(api.GET("/api/v1/caller"));
  begin({ by: principal, ...(role ? { role } : {}), ...(tenants ? { tenants } : {}) });
}

/** The identity provider of this address; null without one. */
export const provider = async (): Promise<string | null> => (await data(api.GET("/api/v1/sign-in"))).singleSignOn ?? null;

/** Leaves this page for the identity provider. */
export async function goToProvider(): Promise<void> {
  const { address } = await data(api.POST("/api/v1/single-sign-on"));
  leaveForProvider();
  location.assign(address);
}

/** Exchanges what the identity provider has sent for a session. */
export async function signInByProvider({ code, state, issuer, error }: ProviderAnswer): Promise<void> {
  if (!code || !state) throw new Error(error === "access_denied" ? "The identity provider has not let you sign in." : "The identity provider has sent no code: begin again.");
  begin(await data(api.POST("/api/v1/single-sign-on/answer", { body: { code, state, ...(issuer ? { issuer } : {}) } })));
}

/** Ends the session; in this tab also if the controller cannot be reached, where it ends by itself later. */
export async function signOut(): Promise<void> {
  await data(api.DELETE("/api/v1/sign-in")).catch(() => undefined);
  end();
}
