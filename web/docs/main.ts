// SPDX-License-Identifier: Apache-2.0
// The REST API with Swagger UI, from the controller's own description. Requests are of this tab's session, as those of the web UI.
import SwaggerUI from "swagger-ui-dist/swagger-ui-es-bundle";
import "swagger-ui-dist/swagger-ui.css";
import { authorization, begin, hasCookies, held, noteAnswer, onSession, takeCode } from "../src/api/session";
import { shareSession } from "../src/api/tabs";
import type { Caller, Session } from "../src/api/types";
import "./style.css";

interface ApiRequest {
  url: string;
  method?: string;
  headers: Record<string, string>;
}

const session = document.getElementById("session");
let shown = false;

/** Reads the description once there is a session: without one, the controller answers no browser. */
function show(): void {
  const by = held()?.by;
  if (session) {
    session.textContent = by
      ? `Signed in as ${by}: requests are sent to this controller, and writes are carried out.`
      : "Sign in first: `canopyctl ui` on the controller's machine opens the web UI; a tab that it has signed in shares its session.";
  }
  if (!by || shown) return;
  shown = true;
  SwaggerUI({
    url: "/api/v1/openapi.json",
    dom_id: "#api",
    deepLinking: true,
    // Nothing is sent to another origin.
    validatorUrl: null,
    defaultModelsExpandDepth: 0,
    docExpansion: "list",
    tryItOutEnabled: true,
    requestInterceptor(request: ApiRequest): ApiRequest {
      const bearer = authorization();
      if (bearer && new URL(request.url, location.href).origin === location.origin) request.headers["Authorization"] = bearer;
      // With a cookie, a write shows that it is no form's.
      if (hasCookies() && request.method !== "GET") request.headers["Content-Type"] = "application/json";
      return request;
    },
    responseInterceptor(answer: { status: number }) {
      noteAnswer(answer.status, authorization());
      return answer;
    },
  });
}

/** Exchanges the code of the address, if it has one. */
async function signIn(code: string): Promise<void> {
  const answer = await fetch("/api/v1/sign-in", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ code }) });
  if (answer.ok) begin((await answer.json()) as Session);
}

/** The session that this browser has a cookie of, if there is one. */
async function resume(): Promise<void> {
  const answer = await fetch("/api/v1/caller");
  if (!answer.ok) return;
  const { principal, role, tenants } = (await answer.json()) as Caller;
  begin({ by: principal, ...(role ? { role } : {}), ...(tenants ? { tenants } : {}) });
}

const code = takeCode();
onSession(show);
show();
if (code) void signIn(code);
else if (hasCookies()) void resume();
shareSession(code === null);
