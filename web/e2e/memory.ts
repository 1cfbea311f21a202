// SPDX-License-Identifier: Apache-2.0
// Whether the page's memory is flat over a day of changes: `npm run memory -- [SECONDS [STEP]]`, in web/. The page's clock is this program's: the fixture
// sends what a busy domain sends in STEP seconds, the clock passes them, the page reads what it reads by itself, and the next ones begin once it has.
//
// It is flat if, after a sixth of the time, neither the heap after a forced collection nor the nodes and listeners of the document grow: the line
// through the least of each two hours rises by less than 3 % of the mean, and at most 1 MB of heap, over the rest of the time. The least: at some moments lists
// that were just replaced are still held, in a snapshot 18,000 objects and 11,000 strings. No sample is more than 2 MB of heap above the least.
//
// The scripts are interpreted: compiled code is a part of the heap, and V8 makes more of it for as long as the program runs, which is minutes here.
import { chromium, type CDPSession, type Page } from "playwright-core";
import { installClock } from "./pageClock";
import { entry, event, group, node, T0, topology } from "./fixture";
import { serve } from "./serve";
import { signIn } from "./signIn";

const seconds = Number(process.argv[2] ?? 86_400);
/** Less than the 15 s after which a silent stream is taken for a broken one. */
const step = Number(process.argv[3] ?? 10);
const SIZES = { nodes: 100, groups: 100, events: 100, problems: 7 };
const SAMPLES = 48;
/** Samples of which the least counts. */
const LEAST_OF = 4;
/**
 * Pages of a round, a part of it on each: navigation must not leak either. Every sample is taken at the end, on Overview, where the page has been for
 * long enough to have forgotten the others: React Query keeps what they have read for 5 minutes.
 */
const ROUND = ["/groups/group-00001", "/topology", "/links/leaf1/eth2", "/congestion", "/events", "/audit", "/nodes/leaf1", "/", "/"];
const WARM_UP = 1 / 6;
const SHARE = 0.03;
const MEGABYTE = 1_000_000;
/** What a moment may hold beside what stays, octets of heap. */
const OF_A_MOMENT = 2 * MEGABYTE;

interface Sample {
  at: number;
  heap: number;
  nodes: number;
  listeners: number;
}

const fixture = await serve("dist", SIZES);
const browser = await chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: ["--no-sandbox", "--js-flags=--no-opt --no-maglev --no-sparkplug"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
const failures: string[] = [];
page.on("pageerror", (error) => failures.push(error.message));
await installClock(page, T0 / 1e6);
// Signing in waits for the page, and the page for its clock.
const ticking = setInterval(() => void page.evaluate(() => window.advance(50)).catch(() => undefined), 50);
await signIn(page, `${fixture.url}/#${fixture.code}`);
clearInterval(ticking);
const session = await page.context().newCDPSession(page);
await session.send("HeapProfiler.enable");

/** What a domain sends in a second: of groups and nodes states that change, of problems some that come and go, and an event. */
function push(second: number): number {
  const messages: [string, unknown][] = [["heartbeat", { timeUnixNs: T0 + second * 1e9 }]];
  const changed = group(second % SIZES.groups);
  messages.push(["groups.modified", { ...changed, metadata: { ...changed.metadata, generation: second }, status: { ...changed.status, phase: second % 2 ? "Ready" : "Degraded" } }]);
  messages.push(["groups.modified", group(0)]);
  const name = topology(SIZES.nodes).spec.nodes[second % SIZES.nodes]?.name ?? "leaf1";
  messages.push(["nodes.modified", node(name, second % SIZES.nodes, [])]);
  messages.push(["events.added", event(SIZES.events + second, T0 + second * 1e9)]);
  if (second % 20 === 0) messages.push(["audit.added", entry(5000 + second, false)]);
  if (second % 30 < 2) messages.push([second % 30 ? "problems.deleted" : "problems.added", problem(second)]);
  // A group that comes and goes is another one each time: nothing may be kept of it.
  if (second % 60 < 2) messages.push([second % 60 ? "groups.deleted" : "groups.added", { ...changed, metadata: { ...changed.metadata, name: `passing-${Math.floor(second / 60)}` } }]);
  for (const [kind, data] of messages) fixture.push(kind, data);
  return messages.length;
}

function problem(second: number): unknown {
  const id = Math.floor(second / 30).toString(16).padStart(16, "0");
  return { id, code: "LinkLossy", severity: "warning", object: { kind: "link", name: "leaf1/eth2--spine1/eth1" }, title: "loses packets although its carrier is up", sinceUnixNs: T0 + second * 1e9, count: 1, closing: false, root: true, evidence: ["12 of 1000"], causes: [], affects: [], remedy: "Check optics." };
}

/** Advances the page by a step that ends with this second, and waits until it has read what it asked for. */
async function pass(second: number): Promise<number> {
  let sent = 0;
  for (let each = second - step + 1; each <= second; each += 1) sent += push(each);
  await page.evaluate((milliseconds) => window.advance(milliseconds), step * 1000);
  const until = Date.now() + 30_000;
  // On a slow machine what was sent may arrive after the page's clock has passed: the page takes its stream for broken then, and begins another.
  while (fixture.waiting() > 0 || fixture.streams() !== 1) {
    if (Date.now() > until) throw new Error(`second ${second}: ${fixture.waiting()} requests wait, ${fixture.streams()} streams of changes`);
    if (fixture.streams() === 0) await page.evaluate(() => window.advance(500));
    await new Promise((done) => setTimeout(done, 1));
  }
  return sent;
}

async function measure(cdp: CDPSession, at: number): Promise<Sample> {
  for (let turn = 0; turn < 3; turn += 1) await cdp.send("HeapProfiler.collectGarbage");
  const { usedSize } = await cdp.send("Runtime.getHeapUsage");
  const { nodes, jsEventListeners } = await cdp.send("Memory.getDOMCounters");
  return { at, heap: usedSize, nodes, listeners: jsEventListeners };
}

const go = (to: Page, path: string) => to.evaluate((where) => {
  history.pushState(null, "", where);
  dispatchEvent(new PopStateEvent("popstate"));
}, path);

/** How much the line through these values, at equal distances, rises from the first to the last. */
function rise(values: readonly number[]): number {
  const middle = (values.length - 1) / 2;
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const slope = values.reduce((sum, value, at) => sum + (at - middle) * (value - mean), 0) / values.reduce((sum, _, at) => sum + (at - middle) ** 2, 0);
  return slope * (values.length - 1);
}

const samples: Sample[] = [];
const began = Date.now();
const every = Math.floor(seconds / SAMPLES / step) * step;
let messages = 0;
let at = "/";
for (let second = step; second <= seconds; second += step) {
  const part = Math.floor(((second - step) % every) / (every / ROUND.length));
  if (ROUND[part] !== at) await go(page, (at = ROUND[part] ?? "/"));
  messages += await pass(second);
  if (second % every === 0) {
    const sample = await measure(session, second);
    samples.push(sample);
    console.log(`${String(Math.round(second / 360) / 10).padStart(5)} h: heap ${(sample.heap / MEGABYTE).toFixed(2)} MB, ${sample.nodes} nodes, ${sample.listeners} listeners; ${Math.round((Date.now() - began) / 1000)} s`);
  }
}
const reads = [...fixture.answered.values()].reduce((sum, count) => sum + count, 0);
console.log(`${seconds} s: ${messages} messages of the stream, ${reads} answers, of these ${fixture.answered.get("/api/v1/groups/telemetry") ?? 0} of telemetry of a group; ${Math.round((Date.now() - began) / 1000)} s of this machine`);
const rest = samples.slice(Math.ceil(samples.length * WARM_UP));
for (const [what, of, most] of [["heap", (s: Sample) => s.heap, MEGABYTE], ["nodes", (s: Sample) => s.nodes, Infinity], ["listeners", (s: Sample) => s.listeners, Infinity]] as const) {
  const all = rest.map(of);
  const values = Array.from({ length: Math.floor(all.length / LEAST_OF) }, (_, at) => Math.min(...all.slice(at * LEAST_OF, (at + 1) * LEAST_OF)));
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const up = rise(values);
  const isFlat = up < Math.min(SHARE * mean, most);
  console.log(`${what}: mean ${Math.round(mean)}, rises by ${Math.round(up)} (${((100 * up) / mean).toFixed(2)} %) after the warm-up: ${isFlat ? "flat" : "NOT FLAT"}`);
  if (!isFlat) failures.push(`${what} rises by ${Math.round(up)}`);
}
const heaps = rest.map(({ heap }) => heap);
const above = Math.max(...heaps) - Math.min(...heaps);
console.log(`heap: the most is ${(above / MEGABYTE).toFixed(2)} MB above the least`);
if (above > OF_A_MOMENT) failures.push(`heap: the most is ${above} octets above the least`);
await browser.close();
fixture.server.closeAllConnections();
fixture.server.close();
if (failures.length > 0) {
  console.error(failures.join("\n"));
  process.exit(1);
}
