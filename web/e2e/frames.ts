// SPDX-License-Identifier: Apache-2.0
// Frames per second of the map while it is dragged and zoomed: `npm run frames -- NODES`, in web/. Counted by requestAnimationFrame in
// headless Chromium, which draws in software.
import { chromium } from "playwright-core";
import { serve } from "./fixture";
import { signIn } from "./signIn";

const nodes = Number(process.argv[2] ?? 10_000);
const { url, code, server } = await serve("dist", { nodes, groups: 1, events: 1, problems: 5 });
const browser = await chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
await signIn(page, `${url}/#${code}`);
const began = Date.now();
await page.goto(`${url}/topology`);
const map = page.getByRole("application");
await map.waitFor();
console.log(`the map is there after ${Date.now() - began} ms`);
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
const box = await map.boundingBox();
if (!box) throw new Error("the map has no size");
const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
for (const [what, act] of Object.entries({
  drag: async (step: number) => page.mouse.move(x + 200 * Math.sin(step / 9), y + 80 * Math.cos(step / 7)),
  zoom: async (step: number) => page.mouse.wheel(0, step % 40 < 20 ? -40 : 40),
})) {
  await page.mouse.move(x, y);
  if (what === "drag") await page.mouse.down();
  const from = Date.now();
  const before = await page.evaluate(() => (window as unknown as { frames: number }).frames);
  for (let step = 0; Date.now() - from < 4000; step += 1) await act(step);
  const after = await page.evaluate(() => (window as unknown as { frames: number }).frames);
  console.log(`${what}: ${((after - before) / ((Date.now() - from) / 1000)).toFixed(1)} frames/s with ${nodes} nodes`);
  await page.mouse.up();
}
await browser.close();
server.closeAllConnections();
server.close();
