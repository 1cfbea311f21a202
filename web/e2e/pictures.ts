// SPDX-License-Identifier: Apache-2.0
// Pictures of every page, for people to judge: `npm run pictures -- DIRECTORY [WORD]`, in web/, writes them; WORD selects by name. With
// PICTURES_OF=ADDRESS, that of `canopyctl ui --print`, they are of a controller, else of fixtures with 0, 1, 100 and 10,000 objects.
//
// On the way every page has to be without a violation that axe finds, without an error in the console, and no wider than its screen.
import { mkdirSync } from "node:fs";
import { chromium, type Page } from "playwright-core";
import { violations } from "./axe";
import type { Sizes } from "./fixture";
import { serve } from "./serve";
import { signIn } from "./signIn";

const [directory = "pictures", word = ""] = process.argv.slice(2);
const SIZES: Record<string, Sizes> = {
  "0": { nodes: 0, groups: 0, events: 0, problems: 0 },
  "1": { nodes: 1, groups: 1, events: 1, problems: 1 },
  "100": { nodes: 100, groups: 100, events: 100, problems: 7 },
  "10000": { nodes: 10_000, groups: 10_000, events: 4096, problems: 60 },
};
const LISTS: Record<string, string> = {
  overview: "/",
  groups: "/groups",
  "groups-label": "/groups?label=team%3Dstorage&phase=Stalled",
  topology: "/topology",
  "topology-load": "/topology?links=load",
  "topology-queue": "/topology?links=queue",
  "topology-loss": "/topology?links=loss",
  links: "/links",
  congestion: "/congestion",
  nodes: "/nodes",
  hosts: "/hosts",
  drains: "/drains",
  controller: "/controller",
  events: "/events",
  "events-links": "/events?kind=link&from=1795596000&to=1795596240",
  audit: "/audit",
  "audit-hosts": "/audit?hosts=true",
  "change-sets": "/change-sets",
  incidents: "/incidents",
};
const ONES: Record<string, string> = {
  group: "/groups/group-00001",
  "group-stalled": "/groups/group-00003",
  "group-empty": "/groups/group-00007",
  "group-wide": "/groups/group-00004",
  "group-deep": "/groups/group-00008",
  "group-deepest": "/groups/group-00009",
  "group-many": "/groups/group-00010",
  link: "/links/leaf1/eth2",
  "link-drained": "/links/leaf7/eth3",
  "topology-picked": "/topology?picked=leaf1",
  "topology-picked-host": "/topology?links=queue&picked=host1",
  "topology-picked-drained": "/topology?links=load&picked=leaf7%2Feth3--spine10%2Feth7",
  node: "/nodes/leaf1",
  host: "/hosts/host1",
  "change-set": "/change-sets/8d0c5b61f2a94e01",
  incident: "/incidents/1764170000-00000000009a3f00",
  problem: "/problems/00000000009a3f00",
  "no-such-page": "/no/such/page",
};
/** The map from near: the page, and keys in the map. From the first picked node, then nearer or farther. */
const ZOOMED: Record<string, [path: string, keys: string[]]> = {
  "topology-nodes": ["/topology?links=load", ["ArrowDown", "Enter", "-", "-", "-"]],
  "topology-link": ["/topology", ["ArrowDown", "l", "l", "Enter"]],
  "topology-ports": ["/topology?links=load", ["ArrowDown", "Enter", "+", "+"]],
};
/** Dialogs, explained words, and what is shown by a button: the page, and the button. */
const OPENED: Record<string, [path: string, button: string]> = {
  "overview-drain": ["/", "Drain…"],
  "group-create": ["/groups", "Create…"],
  "group-edit": ["/groups/group-00001", "Edit…"],
  "group-join": ["/groups/group-00001", "Join…"],
  "packet-captured": ["/groups/group-00001", "PSN 1586061"],
  "node-drain": ["/nodes/leaf1", "Drain…"],
  "node-term": ["/nodes/leaf1", "K_max"],
  "link-put-back": ["/links/leaf7/eth3", "Put back…"],
  "node-silence": ["/nodes/leaf1", "Silence…"],
  "audit-entry": ["/audit", "create group/group-00011: open"],
  "change-set-undo": ["/change-sets/8d0c5b61f2a94e01", "Undo…"],
};
const SCREENS = { wide: { width: 1280, height: 800 }, large: { width: 1920, height: 1080 }, phone: { width: 390, height: 844 } };

const found: string[] = [];
mkdirSync(directory, { recursive: true });
const browser = await chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: ["--no-sandbox"] });

/** The innermost elements that reach beyond the right edge, but for those that scroll by themselves. */
function widest(of: Element): string {
  const edge = of.getBoundingClientRect().left + of.clientWidth;
  const beyond = [...of.querySelectorAll("*")].filter((one) => one.getBoundingClientRect().right > edge && !one.parentElement?.closest(".scroll, .octets, .tree"));
  const innermost = beyond.filter((one) => !beyond.some((other) => other !== one && one.contains(other)));
  return innermost.slice(0, 3).map((one) => `<${one.tagName.toLowerCase()} class="${one.getAttribute("class") ?? ""}"> ${one.textContent?.slice(0, 40) ?? ""}`).join("; ");
}

/** Heads of columns that have no room for their names: nothing marks what is missing. */
function cutHeads(of: Element): string[] {
  return [...of.querySelectorAll("[role=columnheader], th")].filter((head) => head.scrollWidth > head.clientWidth && getComputedStyle(head).overflowX === "hidden").map((head) => head.textContent ?? "");
}

/** Takes a picture of what is there, with what is below the screen, and judges it as far as a program can. */
async function take(page: Page, file: string): Promise<void> {
  // The page scrolls inside its frame: what is below is part of the picture.
  const viewport = page.viewportSize() ?? SCREENS.wide;
  const main = page.locator("#main");
  if ((await main.count()) > 0 && (await page.getByRole("dialog").count()) === 0) {
    const height = await main.evaluate((of) => of.scrollHeight);
    await page.setViewportSize({ ...viewport, height: Math.min(4000, Math.max(viewport.height, height + 60)) });
    await page.waitForTimeout(100);
    const wider = await main.evaluate((of) => Math.max(of.scrollWidth - of.clientWidth, document.documentElement.scrollWidth - document.documentElement.clientWidth));
    if (wider > 0) found.push(`${file}: ${wider} px wider than the screen, by ${await main.evaluate(widest)}`);
    const cut = await main.evaluate(cutHeads);
    if (cut.length > 0) found.push(`${file}: no room for the head of a column: ${cut.join(", ")}`);
  }
  await page.screenshot({ path: `${directory}/${file}` });
  await page.setViewportSize(viewport);
  found.push(...(await violations(page)).map((text) => `${file}: ${text}`));
  console.log(file);
}

/** Takes one picture. One that cannot be taken is a fault, with a picture of what is there instead; the others are taken all the same. */
async function attempt(page: Page, file: string, take: () => Promise<void>): Promise<void> {
  try {
    await take();
  } catch (error) {
    if (!browser.isConnected()) throw error;
    const heading = await page.getByRole("heading", { level: 1 }).first().textContent({ timeout: 5000 }).catch(() => "no heading");
    found.push(`${file}: not taken, while the page showed "${heading ?? ""}": ${error instanceof Error ? error.message : String(error)}`);
    await page.screenshot({ path: `${directory}/failed-${file}` }).catch((cause: unknown) => found.push(`${file}: no picture of the failure either: ${String(cause)}`));
  }
}

async function all(address: string, size: string, ones: Record<string, string>): Promise<void> {
  const { origin: url } = new URL(address);
  const hasMap = size !== "0";
  // One session: what `canopyctl ui --print` prints signs in once.
  const context = await browser.newContext();
  const page = await context.newPage();
  page.on("pageerror", (error) => found.push(`${page.url()}: ${error.message}`));
  page.on("console", (message) => {
    // Objects that the small fixtures do not have are answered 404.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) found.push(`${page.url()}: ${message.text()}`);
  });
  let isSignedIn = false;
  for (const [screen, viewport] of Object.entries(SCREENS)) {
    for (const colorScheme of ["dark", "light"] as const) {
      const named = (name: string) => `${name}-${size}-${screen}-${colorScheme}.png`;
      const names = ["sign-in", ...Object.keys({ ...LISTS, ...ones, ...(hasMap && ZOOMED), ...(size === "100" && OPENED) })];
      if (!names.some((name) => named(name).includes(word))) continue;
      if (named("sign-in").includes(word)) {
        const stranger = await browser.newPage({ viewport, colorScheme });
        await stranger.goto(url);
        await stranger.getByRole("heading", { name: "Sign in" }).waitFor();
        await take(stranger, named("sign-in"));
        await stranger.close();
      }
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      if (!isSignedIn) await signIn(page, address);
      isSignedIn = true;
      for (const [name, path] of Object.entries({ ...LISTS, ...ones })) {
        if (!named(name).includes(word)) continue;
        await attempt(page, named(name), async () => {
          await page.goto(url + path);
          await page.getByRole("heading", { level: 1 }).first().waitFor();
          // Two samples make a rate.
          await page.waitForTimeout(path.startsWith("/groups/") ? 2300 : path.startsWith("/topology") ? 1500 : 400);
          await take(page, named(name));
        });
      }
      for (const [name, [path, keys]] of Object.entries(hasMap ? ZOOMED : {})) {
        if (!named(name).includes(word)) continue;
        await attempt(page, named(name), async () => {
          await page.goto(url + path);
          const map = page.getByRole("application");
          await map.waitFor();
          await page.getByText(/^The map is being /).waitFor({ state: "detached" });
          for (const key of keys) await map.press(key);
          await page.getByRole("region", { name: "Picked" }).getByRole("heading", { level: 2 }).waitFor();
          // Drawn once nothing moves any more.
          await page.waitForTimeout(1000);
          await take(page, named(name));
        });
      }
      for (const [name, [path, button]] of Object.entries(size === "100" ? OPENED : {})) {
        if (!named(name).includes(word)) continue;
        await attempt(page, named(name), async () => {
          await page.goto(url + path);
          // What is folded away is opened first.
          await page.getByRole("heading", { level: 1 }).first().waitFor();
          if (button.startsWith("PSN")) await page.getByText("1 capture", { exact: true }).click();
          await page.getByRole("button", { name: button, exact: true }).first().click();
          await (button.startsWith("PSN") ? page.getByText("seen at").last() : page.getByRole("dialog").or(page.getByRole("tooltip"))).waitFor();
          await page.waitForTimeout(300);
          await take(page, named(name));
        });
      }
    }
  }
  await context.close();
}

const of = process.env["PICTURES_OF"];
if (of) {
  await all(of, process.env["PICTURES_SIZE"] ?? "real", JSON.parse(process.env["PICTURES_ONES"] ?? "{}") as Record<string, string>);
} else {
  for (const [size, sizes] of Object.entries(SIZES)) {
    const { url, code, server } = await serve("dist", sizes);
    await all(`${url}/#${code}`, size, ONES);
    server.closeAllConnections();
    server.close();
  }
}
await browser.close();
if (found.length > 0) {
  console.error(`${found.length} faults:\n${[...new Set(found)].join("\n")}`);
  process.exit(1);
}
