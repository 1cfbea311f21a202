// SPDX-License-Identifier: Apache-2.0
import { expect, it, vi } from "vitest";

let answer = () => new Response();

// The client takes its `fetch` when it is made.
vi.stubGlobal("location", { origin: "http://localhost" });
vi.stubGlobal("sessionStorage", { getItem: () => null });
vi.stubGlobal("fetch", () => Promise.resolve(answer()));
const { api, ApiError, data } = await import("./client");

const refusal = async () => {
  const error: unknown = await data(api.GET("/api/v1/status")).catch((e: unknown) => e);
  if (!(error instanceof ApiError)) throw new Error("it is not refused");
  return error;
};
const headers = { "content-type": "application/json", "Canopy-Request-Id": "of the header", "Retry-After": "2" };

// Catches a refusal that nothing of the controller's log can be found by.
it("has the id of the request that was refused, of its document or of the answer", async () => {
  answer = () => new Response(JSON.stringify({ status: 404, detail: "no such thing", requestId: "of the document" }), { status: 404, headers });
  expect(await refusal()).toMatchObject({ message: "no such thing", status: 404, requestId: "of the document", retryAfter: 2000 });
  answer = () => new Response("{}", { status: 502, headers });
  expect(await refusal()).toMatchObject({ message: "The controller answered 502.", requestId: "of the header" });
  answer = () => new Response("{}", { status: 502 });
  expect(await refusal()).toMatchObject({ requestId: undefined, retryAfter: undefined });
});

it("has none where no answer came", async () => {
  answer = () => {
    throw new TypeError("Failed to fetch");
  };
  expect(await refusal()).toMatchObject({ status: 0, message: "The controller cannot be reached.", requestId: undefined });
});
