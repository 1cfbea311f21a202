// SPDX-License-Identifier: Apache-2.0
// A clock of the page that this program advances: a day passes as fast as the page does its work. Frames stay those of the browser. Playwright's own
// clock waits for the browser between any two timers, which is 5 times slower.
import type { Page } from "playwright-core";

declare global {
  interface Window {
    advance: (milliseconds: number) => Promise<void>;
  }
}

export async function installClock(page: Page, start: number): Promise<void> {
  await page.addInitScript((from) => {
    interface Timer {
      at: number;
      every: number | undefined;
      run: () => void;
    }
    let now = from;
    let last = 0;
    const timers = new Map<number, Timer>();
    const RealDate = Date;
    window.Date = class extends RealDate {
      constructor(...parts: unknown[]) {
        if (parts.length === 0) super(now);
        else super(...(parts as [number]));
      }
      static override now = () => now;
    } as DateConstructor;
    performance.now = () => now - from;
    const add = (handler: TimerHandler, milliseconds: number | undefined, repeats: boolean, args: unknown[]) => {
      const wait = Math.max(repeats ? 1 : 0, milliseconds ?? 0);
      if (typeof handler !== "function") throw new TypeError("a timer without a function");
      last += 1;
      timers.set(last, { at: now + wait, every: repeats ? wait : undefined, run: () => handler(...args) });
      return last;
    };
    window.setTimeout = ((handler: TimerHandler, wait?: number, ...args: unknown[]) => add(handler, wait, false, args)) as typeof window.setTimeout;
    window.setInterval = ((handler: TimerHandler, wait?: number, ...args: unknown[]) => add(handler, wait, true, args)) as typeof window.setInterval;
    window.clearTimeout = window.clearInterval = (id) => void timers.delete(Number(id));
    window.advance = async (milliseconds) => {
      const until = now + milliseconds;
      for (;;) {
        let first: [number, Timer] | undefined;
        for (const entry of timers) if (entry[1].at <= until && (!first || entry[1].at < first[1].at)) first = entry;
        if (!first) break;
        const [id, timer] = first;
        now = Math.max(now, timer.at);
        if (timer.every === undefined) timers.delete(id);
        else timer.at = now + timer.every;
        timer.run();
        // Promises that it has kept continue first.
        await Promise.resolve();
      }
      now = until;
    };
  }, start);
}
