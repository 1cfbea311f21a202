// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";

/** What axe finds on a page. */
export async function violations(page: Page): Promise<string[]> {
  await page.evaluate(readFileSync("node_modules/axe-core/axe.min.js", "utf8"));
  return page.evaluate(async () => {
    const { axe: runner } = window as unknown as { axe: { run: () => Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> } };
    return (await runner.run()).violations.map((v) => `${v.id}: ${v.nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`);
  });
}
