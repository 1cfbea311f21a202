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

/** Stops of the longest page. */
const MOST = 600;

/**
 * What takes a click on the page as it was opened and has no stop of Tab, by its name. Within what has keys of its own, as the map has, its
 * stop is that for all of it.
 */
export async function unreached(page: Page): Promise<string[]> {
  const stops = new Set<string>();
  for (let at = 0; at < MOST; at += 1) {
    await page.keyboard.press("Tab");
    const stop = await page.evaluate(describe);
    // Behind the last stop is the window of the browser, or the first one again.
    if (stop === null || (at > 0 && stop.isFirst && stops.has(stop.name))) break;
    stops.add(stop.name);
  }
  const all = await page.evaluate(clickable);
  return all.filter((name) => !stops.has(name));
}

/** The element that has the focus, so that it is recognized. */
function describe(): { name: string; isFirst: boolean } | null {
  const of = document.activeElement;
  if (!of || of === document.body) return null;
  const isFirst = of === document.querySelector("a[href], button, input, select, textarea, summary, [tabindex='0']");
  return { name: `${of.tagName} ${of.getAttribute("aria-label") ?? of.textContent ?? ""} ${of.getAttribute("href") ?? ""}`.replace(/[0-9]+/g, "0").replace(/\s+/g, " "), isFirst };
}

/** Elements that take a click, each as `describe` would have it. */
function clickable(): string[] {
  const controls = "a[href], button, input, select, textarea, summary, [tabindex='0']";
  const found = new Set<string>();
  for (const of of document.querySelectorAll<HTMLElement>("body *")) {
    const control = of.closest<HTMLElement>(`${controls}, label`);
    if (!of.checkVisibility() || of.closest(":disabled, [role='application'] *")) continue;
    const takes = of.matches(controls) ? of : getComputedStyle(of).cursor === "pointer" ? ((control instanceof HTMLLabelElement ? control.control : control) ?? of) : null;
    // One of several between which arrow keys go: one of them is a stop.
    const isOneOf = takes?.tabIndex === -1 && takes.closest("table, [role='listbox']")?.querySelector(`${takes.tagName}:not([tabindex='-1'])`);
    if (!takes || isOneOf || takes.matches(":disabled, [type='radio']:not(:checked)")) continue;
    found.add(`${takes.tagName} ${takes.getAttribute("aria-label") ?? takes.textContent ?? ""} ${takes.getAttribute("href") ?? ""}`.replace(/[0-9]+/g, "0").replace(/\s+/g, " "));
  }
  return [...found];
}
