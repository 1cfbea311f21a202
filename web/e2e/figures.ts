// SPDX-License-Identifier: Apache-2.0
// The figures of the UI that have a budget, in one run: `npm run figures -- [NODES]`, in web/. Octets as gzip -9 makes them; the first view from
// the start of the navigation to the sentence about problems, in a browser without a cache, the median of seven; the longest task of the page's
// thread until the map is drawn, as a multiple of what reading the map's JSON takes there, so that a busy machine has the same figure, medians of seven;
// frames by requestAnimationFrame in headless Chromium, which draws in software, while the map is dragged and zoomed for 4 s each, the least of three.
import { readdirSync, readFileSync } from "node:fs";
import { loadavg } from "node:os";
import { gzipSync } from "node:zlib";
import { chromium, type Browser } from "playwright-core";
import { serve, type Served } from "./serve";
import { signIn } from "./signIn";

const NODES = Number(process.argv[2] ?? 10_000);
const VIEWS = 7;
const RUNS = 3;
const LASTS = 4000;
const BUDGETS = { firstKilobytes: 200, allKilobytes: 350, firstMilliseconds: 1000, longestTask: 5, framesPerSecond: 30 };

const over: string[] = [];
function report(what: string, value: number, unit: string, budget: number, isMost: boolean): void {
  const ok = isMost ? value <= budget : value >= budget;
  console.log(`${what}: ${value.toFixed(unit.startsWith("kB") || unit === "ms" ? 0 : 1)} ${unit} (${isMost ? "at most" : "at least"} ${budget})${ok ? "" : " NOT KEPT"}`);
  if (!ok) over.push(what);
}

const median = (of: readonly number[]): number => [...of].sort((a, b) => a - b)[Math.floor(of.length / 2)] ?? Infinity;

function sizes(): void {
  const kilobytes = (files: readonly string[]) => gzipSync(Buffer.concat(files.map((file) => readFileSync(`dist/${file}`))), { level: 9 }).length / 1000;
  const named = [...readFileSync("dist/index.html", "utf8").matchAll(/"\/(assets\/[^"]*)"/g)].map(([, file]) => file ?? "");
  const assets = readdirSync("dist/assets").map((file) => `assets/${file}`);
  report("first view", kilobytes(["index.html", ...named]), "kB gzip", BUDGETS.firstKilobytes, true);
  report("all pages", kilobytes(["index.html", ...assets]), "kB gzip", BUDGETS.allKilobytes, true);
}

async function firstView(browser: Browser, { url, code }: Served): Promise<void> {
  const times: number[] = [];
  for (let view = 0; view < VIEWS; view += 1) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    const page = await context.newPage();
    await page.addInitScript(() => {
      const seen = () => {
        if (document.querySelector("h1") && /root problem|No problem is open/.test(document.body.textContent)) document.documentElement.dataset["seenAt"] ??= String(performance.now());
        else requestAnimationFrame(seen);
      };
      requestAnimationFrame(seen);
    });
    await page.goto(`${url}/#${code}`);
    await page.waitForSelector("html[data-seen-at]", { state: "attached" });
    times.push(Number(await page.locator("html").getAttribute("data-seen-at")));
    await context.close();
  }
  report("time to the first view, signing in included", median(times), "ms", BUDGETS.firstMilliseconds, true);
}

interface Opened {
  tasks: [from: number, lasts: number][];
  mapAt?: number;
}

/** How long the page's thread does nothing else while the map is opened. */
async function opening(browser: Browser, { url, code }: Served): Promise<void> {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await page.addInitScript(() => {
    const opened: Opened = { tasks: [] };
    Object.assign(window, { opened });
    new PerformanceObserver((list) => opened.tasks.push(...list.getEntries().map(({ startTime, duration }): [number, number] => [startTime, duration]))).observe({ type: "longtask", buffered: true });
    const { prototype } = CanvasRenderingContext2D;
    const own = Reflect.get(prototype, "drawImage") as (...of: unknown[]) => void;
    Object.assign(prototype, {
      drawImage(this: CanvasRenderingContext2D, ...of: unknown[]) {
        opened.mapAt ??= performance.now();
        own.apply(this, of);
      },
    });
  });
  await signIn(page, `${url}/#${code}`);
  const [longest, there, reading]: [number[], number[], number[]] = [[], [], []];
  // The first one warms the caches of fixture and browser.
  for (let view = 0; view <= VIEWS; view += 1) {
    await page.goto(`${url}/topology`);
    await page.waitForFunction(() => (window as unknown as { opened: Opened }).opened.mapAt !== undefined);
    const { tasks, mapAt = 0, reads } = await page.evaluate(async () => {
      const answer = await fetch("/api/v1/map", { headers: { authorization: `Bearer ${sessionStorage.getItem("bearer") ?? ""}` } });
      const text = await answer.text();
      const from = performance.now();
      JSON.parse(text);
      return { ...(window as unknown as { opened: Opened }).opened, reads: performance.now() - from };
    });
    if (view === 0) continue;
    longest.push(Math.max(0, ...tasks.flatMap(([from, lasts]) => (from < mapAt ? [lasts] : []))));
    there.push(mapAt);
    reading.push(reads);
  }
  await page.close();
  console.log(`map of ${NODES} nodes: drawn ${median(there).toFixed(0)} ms after the start of the navigation; longest task of the page ${median(longest).toFixed(0)} ms, reading its JSON ${median(reading).toFixed(0)} ms; load ${loadavg()[0]?.toFixed(1)}`);
  report("longest task while the map is opened", median(longest) / median(reading), "times reading its JSON", BUDGETS.longestTask, true);
}

async function frames(browser: Browser, { url, code }: Served): Promise<void> {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await signIn(page, `${url}/#${code}`);
  await page.goto(`${url}/topology`);
  const map = page.getByRole("application");
  await map.waitFor();
  await page.getByText(/^The map is being /).waitFor({ state: "detached" });
  // Drawn and put together before it is moved.
  await page.waitForTimeout(3000);
  await page.evaluate(() => {
    const counted = window as unknown as { frames: number };
    counted.frames = 0;
    const next = () => {
      counted.frames += 1;
      requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  });
  const count = () => page.evaluate(() => (window as unknown as { frames: number }).frames);
  const box = await map.boundingBox();
  if (!box) throw new Error("the map has no size");
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  for (const [what, act] of Object.entries({
    panning: async (step: number) => page.mouse.move(x + 200 * Math.sin(step / 9), y + 80 * Math.cos(step / 7)),
    zooming: async (step: number) => page.mouse.wheel(0, step % 40 < 20 ? -40 : 40),
  })) {
    let least = Infinity;
    for (let run = 0; run < RUNS; run += 1) {
      await page.mouse.move(x, y);
      if (what === "panning") await page.mouse.down();
      const [from, before] = [Date.now(), await count()];
      for (let step = 0; Date.now() - from < LASTS; step += 1) await act(step);
      least = Math.min(least, (await count() - before) / ((Date.now() - from) / 1000));
      await page.mouse.up();
    }
    report(`${what} ${NODES} nodes`, least, "frames/s", BUDGETS.framesPerSecond, false);
  }
}

sizes();
const browser = await chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
console.log(`Chromium ${browser.version()}, headless`);
for (const [measure, of] of [[firstView, { nodes: 100, groups: 100, events: 100, problems: 7 }], [opening, { nodes: NODES, groups: 1, events: 1, problems: 5 }], [frames, { nodes: NODES, groups: 1, events: 1, problems: 5 }]] as const) {
  const fixture = await serve("dist", of);
  await measure(browser, fixture);
  fixture.server.closeAllConnections();
  fixture.server.close();
}
await browser.close();
if (over.length > 0) {
  console.error(`not kept: ${over.join(", ")}`);
  process.exit(1);
}
