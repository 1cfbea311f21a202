// SPDX-License-Identifier: Apache-2.0
// The figures of the UI that have a budget, in one run: `npm run figures -- [NODES]`, in web/. Octets as gzip -9 makes them; the first view from
// the start of the navigation to the sentence about problems, in a browser without a cache, the median of seven; frames by requestAnimationFrame
// in headless Chromium, which draws in software, while the map is dragged and zoomed for 4 s each, the least of three.
import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { chromium, type Browser } from "playwright-core";
import { serve, type Served } from "./serve";
import { signIn } from "./signIn";

const NODES = Number(process.argv[2] ?? 10_000);
const VIEWS = 7;
const RUNS = 3;
const LASTS = 4000;
const BUDGETS = { firstKilobytes: 200, allKilobytes: 350, firstMilliseconds: 1000, framesPerSecond: 30 };

const over: string[] = [];
function report(what: string, value: number, unit: string, budget: number, isMost: boolean): void {
  const ok = isMost ? value <= budget : value >= budget;
  console.log(`${what}: ${value.toFixed(unit === "frames/s" ? 1 : 0)} ${unit} (${isMost ? "at most" : "at least"} ${budget})${ok ? "" : " NOT KEPT"}`);
  if (!ok) over.push(what);
}

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
  report("time to the first view, signing in included", times.sort((a, b) => a - b)[Math.floor(VIEWS / 2)] ?? Infinity, "ms", BUDGETS.firstMilliseconds, true);
}

async function frames(browser: Browser, { url, code }: Served): Promise<void> {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await signIn(page, `${url}/#${code}`);
  const began = Date.now();
  await page.goto(`${url}/topology`);
  const map = page.getByRole("application");
  await map.waitFor();
  console.log(`map of ${NODES} nodes: there after ${Date.now() - began} ms`);
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
for (const [measure, of] of [[firstView, { nodes: 100, groups: 100, events: 100, problems: 7 }], [frames, { nodes: NODES, groups: 1, events: 1, problems: 5 }]] as const) {
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
