// SPDX-License-Identifier: Apache-2.0
// Steps that several scenarios have.
import { createInterface } from "node:readline";
import type { BrowserContext, Locator, Page } from "playwright-core";

export { violations } from "./axe";

export const [name = "", url = ""] = process.argv.slice(2);
export const DEADLINE = 30_000;
/** What no scenario may end with: errors of the page, and what the content security policy refused. */
export const reported: string[] = [];
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

/** Another profile of the browser, which has nothing of this one. */
export async function stranger(page: Page): Promise<BrowserContext> {
  const browser = page.context().browser();
  check(browser !== null, "the page has no browser");
  return browser.newContext();
}
