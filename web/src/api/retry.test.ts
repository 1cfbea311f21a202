// SPDX-License-Identifier: Apache-2.0
import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { beforeEach, expect, it, vi } from "vitest";

/** Statuses of the answers to come; then 200. */
let answers: [status: number, headers?: Record<string, string>][] = [];
let asked: number[] = [];

// The client takes its `fetch` when it is made.
vi.stubGlobal("location", { origin: "http://localhost" });
vi.stubGlobal("sessionStorage", { getItem: () => null });
vi.stubGlobal("fetch", () => {
  asked.push(Date.now());
  const [status, headers] = answers.shift() ?? [200];
  return Promise.resolve(new Response(JSON.stringify(status === 200 ? { name: "g1" } : { status, detail: "no" }), { status, headers: { "content-type": "application/json", ...headers } }));
});
const { api, data } = await import("./client");
const { RETRY } = await import("./retry");

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
  asked = [];
});

const read = { queryKey: ["group"], queryFn: () => data(api.GET("/api/v1/groups/{group}", { params: { path: { group: "g1" } } })) };
const client = () => new QueryClient({ defaultOptions: { queries: { staleTime: Infinity, networkMode: "always", ...RETRY } } });

async function reads(...statuses: typeof answers): Promise<number> {
  answers = statuses;
  let isSettled = false;
  void client().fetchQuery(read).catch(() => undefined).finally(() => (isSettled = true));
  while (!isSettled) await vi.advanceTimersByTimeAsync(100);
  return asked.length;
}

// Catches a resource that is not there, or is forbidden, and is asked for again at once.
it.each([400, 401, 403, 404, 409, 421])("asks once for what is answered %i", async (status) => {
  expect(await reads([status], [status])).toBe(1);
});

it.each([429, 500, 503])("asks twice for what is answered %i", async (status) => {
  expect(await reads([status], [status], [status])).toBe(2);
});

// Catches a second request before the time that the controller named, which it refuses too.
it("waits as long as Retry-After has", async () => {
  expect(await reads([429, { "retry-after": "7" }])).toBe(2);
  expect((asked[1] ?? 0) - (asked[0] ?? 0)).toBe(7000);
});

// Catches a page that asks again for what its loader was refused a moment before, and one that never asks again.
it("does not ask again for the page whose loader was refused", async () => {
  answers = [[404]];
  const queries = client();
  const shown = () => new QueryObserver(queries, read).subscribe(() => undefined);
  await queries.fetchQuery(read).catch(() => undefined);
  const leave = shown();
  await vi.advanceTimersByTimeAsync(100);
  expect(asked.length).toBe(1);
  leave();
  await vi.advanceTimersByTimeAsync(2000);
  shown();
  await vi.advanceTimersByTimeAsync(100);
  expect(asked.length).toBe(2);
});
