// SPDX-License-Identifier: Apache-2.0
// Going through pages by keys alone: nothing is clicked or focused by a program, and every stop shows that it has the focus.
import type { Page } from "playwright-core";
import { check } from "./steps";

/** Stops of a page until one is given up. */
const STOPS = 150;

/** What has the focus: its name as people read it, and whether a ring or shadow is drawn around it. */
const focused = (page: Page) =>
  page.evaluate(() => {
    const of = document.activeElement;
    if (!of || of === document.body) return null;
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(of);
    const labels = of instanceof HTMLInputElement || of instanceof HTMLSelectElement || of instanceof HTMLTextAreaElement ? [...(of.labels ?? [])].map((label) => label.textContent).join(" ") : "";
    const name = (of.getAttribute("aria-label") ?? (labels || of.textContent || of.tagName)).replace(/\s+/g, " ").trim();
    const box = of.getBoundingClientRect();
    return { name, hasRing: (outlineStyle !== "none" && outlineWidth !== "0px") || boxShadow !== "none", isOnScreen: box.bottom > 0 && box.top < window.innerHeight && box.right > 0 && box.left < window.innerWidth };
  });

/** Presses Tab until what has this name has the focus. */
export async function tabTo(page: Page, name: RegExp): Promise<void> {
  const passed: string[] = [];
  while (passed.length < STOPS) {
    await page.keyboard.press("Tab");
    const at = await focused(page);
    // Behind the last stop is the window of the browser.
    passed.push(at?.name ?? "(the window)");
    if (!at) continue;
    check(at.hasRing, `${at.name} has the focus without a ring, on ${page.url()}`);
    check(at.isOnScreen, `${at.name} has the focus outside of the screen, on ${page.url()}`);
    if (name.test(at.name)) return;
  }
  check(false, `no stop ${String(name)} on ${page.url()}: ${passed.join(", ")}`);
}

/** Goes to what has this name, and presses Enter there. */
export async function enter(page: Page, name: RegExp): Promise<void> {
  await tabTo(page, name);
  await page.keyboard.press("Enter");
}
