// SPDX-License-Identifier: Apache-2.0
// Steps that several scenarios have.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import type { Locator, Page } from "playwright-core";

export const [name = "", url = ""] = process.argv.slice(2);
export const DEADLINE = 30_000;
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

export async function outside(what: string): Promise<string> {
  console.log(`do: ${what}`);
  const answer = await answers.next();
  if (answer.done) throw new Error(`${what}: no answer`);
  return answer.value;
}

export function check(ok: boolean, what: string): asserts ok {
  if (!ok) throw new Error(what);
}

export async function noProblem(page: Page): Promise<void> {
  await page.getByText("No problem is open.").waitFor();
}

/** What axe finds on a page. */
export async function violations(page: Page): Promise<string[]> {
  await page.evaluate(readFileSync("node_modules/axe-core/axe.min.js", "utf8"));
  return page.evaluate(async () => {
    const { axe: runner } = window as unknown as { axe: { run: () => Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> } };
    return (await runner.run()).violations.map((v) => `${v.id}: ${v.nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`);
  });
}

export const live = (page: Page) => page.getByRole("status", { name: "Connection to the controller" });

export const put = async (path: string, body: unknown) => {
  const answer = await fetch(url + path, { method: "PUT", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  check(answer.ok, `PUT ${path}: ${answer.status} ${await answer.text()}`);
};
export const group = (of: string) => ({ apiVersion: "canopy/v1", kind: "Group", metadata: { name: of }, spec: {} });

/** Presses a button once it can be used: a key on one that is disabled is lost. */
export async function press(button: Locator): Promise<void> {
  await button.click({ trial: true });
  await button.press("Enter");
}
