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
const CONTROLS = "a[href], button, input, select, textarea, summary, [tabindex='0']";

/**
 * What takes a click on the page and has no stop of Tab, by its name. Within what has keys of its own, as the map has, its stop is that for
 * all of it. What the page has drawn anew meanwhile gets a second pass.
 */
export async function unreached(page: Page): Promise<string[]> {
  await pass(page, "first");
  let { without, ofMain } = await page.evaluate(clickable, CONTROLS);
  if (without.length > 0) {
    await pass(page, "second");
    ({ without, ofMain } = await page.evaluate(clickable, CONTROLS));
  }
  check(ofMain > 0, `nothing on ${page.url()} takes a click`);
  return without;
}

/** Presses Tab through the page once, and marks what gets the focus. */
async function pass(page: Page, name: string): Promise<void> {
  for (let at = 0; at < MOST; at += 1) {
    await page.keyboard.press("Tab");
    // Behind the last stop is the window of the browser, or a stop that was there before.
    if (!(await page.evaluate(mark, name))) return;
  }
  check(false, `${page.url()} has more than ${MOST} stops`);
}

/** Marks the element that has the focus; false if there is none, or this pass has marked it already. */
function mark(pass: string): boolean {
  const of = document.activeElement as HTMLElement | null;
  if (!of || of === document.body || of.dataset["stop"] === pass) return false;
  of.dataset["stop"] = pass;
  return true;
}

/** Elements that take a click and are not marked, and how many there are in the main part of the page. */
function clickable(controls: string): { without: string[]; ofMain: number } {
  const [without, main] = [new Set<string>(), new Set<HTMLElement>()];
  for (const of of document.querySelectorAll<HTMLElement>("body *")) {
    const control = of.closest<HTMLElement>(`${controls}, label`);
    if (!of.checkVisibility() || of.closest(":disabled, [role='application'] *")) continue;
    const takes = of.matches(controls) ? of : getComputedStyle(of).cursor === "pointer" ? ((control instanceof HTMLLabelElement ? control.control : control) ?? of) : null;
    // Fields of a packet, between which arrow keys go: one of them is a stop.
    const isOneOf = takes?.tabIndex === -1 && takes.closest(".packet")?.querySelector("[data-stop]");
    if (!takes || isOneOf || takes.matches(":disabled, [type='radio']:not(:checked)")) continue;
    if (takes.closest("#main")) main.add(takes);
    if (!takes.dataset["stop"]) without.add(`${takes.tagName} ${takes.getAttribute("aria-label") ?? takes.textContent ?? ""} ${takes.getAttribute("href") ?? ""}`.replace(/\s+/g, " "));
  }
  return { without: [...without], ofMain: main.size };
}
