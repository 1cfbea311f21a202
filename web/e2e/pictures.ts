// SPDX-License-Identifier: Apache-2.0
// Pictures of every page, for people to judge: `npm run pictures -- DIRECTORY [WORD]`, in web/, writes them; WORD selects by name.
import { mkdirSync } from "node:fs";
import { chromium } from "playwright-core";
import { serve, type Sizes } from "./fixture";
import { signIn } from "./signIn";

const [directory = "pictures", word = ""] = process.argv.slice(2);
const SIZES: Record<string, Sizes> = {
  "0": { nodes: 0, groups: 0, events: 0, problems: 0 },
  "1": { nodes: 1, groups: 1, events: 1, problems: 1 },
  "100": { nodes: 100, groups: 100, events: 100, problems: 7 },
  "10000": { nodes: 10_000, groups: 10_000, events: 4096, problems: 60 },
};
const PAGES: Record<string, string> = {
  overview: "/",
  groups: "/groups",
  group: "/groups/group-00001",
  "group-stalled": "/groups/group-00003",
  "group-wide": "/groups/group-00004",
  topology: "/topology",
  links: "/links",
  link: "/links/leaf1/eth2",
  congestion: "/congestion",
  nodes: "/nodes",
  node: "/nodes/leaf1",
  hosts: "/hosts",
  drains: "/drains",
  controller: "/controller",
  events: "/events",
  audit: "/audit",
  incidents: "/incidents",
  incident: "/incidents/1764170000-00000000009a3f00",
  problem: "/problems/00000000009a3f00",
};
/** Dialogs: the page, and the button that opens it. */
const DIALOGS: Record<string, [path: string, button: string]> = {
  "group-create": ["/groups", "Create…"],
  "group-edit": ["/groups/group-00001", "Edit…"],
  "group-join": ["/groups/group-00001", "Join…"],
  "node-drain": ["/nodes/leaf1", "Drain…"],
  "node-silence": ["/nodes/leaf1", "Silence…"],
};
const SCREENS = { wide: { width: 1280, height: 800 }, large: { width: 1920, height: 1080 }, phone: { width: 390, height: 844 } };

mkdirSync(directory, { recursive: true });
const browser = await chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
for (const [size, sizes] of Object.entries(SIZES)) {
  const { url, code, server } = await serve("dist", sizes);
  for (const [screen, viewport] of Object.entries(SCREENS)) {
    for (const colorScheme of ["dark", "light"] as const) {
      const context = await browser.newContext({ viewport, colorScheme });
      const page = await context.newPage();
      page.on("pageerror", (error) => console.error(`${page.url()}: ${error.message}`));
      const door = `sign-in-${size}-${screen}-${colorScheme}.png`;
      if (door.includes(word)) {
        await page.goto(url);
        await page.getByRole("heading", { name: "Sign in" }).waitFor();
        await page.screenshot({ path: `${directory}/${door}` });
      }
      await signIn(page, `${url}/#${code}`);
      for (const [name, path] of Object.entries(PAGES)) {
        const file = `${name}-${size}-${screen}-${colorScheme}.png`;
        if (!file.includes(word)) continue;
        await page.goto(url + path);
        await page.getByRole("heading", { level: 1 }).first().waitFor();
        // Two samples make a rate.
        await page.waitForTimeout(path.startsWith("/groups/") ? 2300 : 400);
        // The page scrolls inside its frame: what is below is part of the picture.
        const height = await page.locator("#main").evaluate((main) => main.scrollHeight);
        await page.setViewportSize({ ...viewport, height: Math.min(4000, Math.max(viewport.height, height + 60)) });
        await page.waitForTimeout(100);
        await page.screenshot({ path: `${directory}/${file}` });
        await page.setViewportSize(viewport);
        console.log(file);
      }
      for (const [name, [path, button]] of Object.entries(DIALOGS)) {
        const file = `${name}-${size}-${screen}-${colorScheme}.png`;
        if (size !== "100" || !file.includes(word)) continue;
        await page.goto(url + path);
        await page.getByRole("button", { name: button }).click();
        await page.getByRole("dialog").waitFor();
        await page.screenshot({ path: `${directory}/${file}` });
        console.log(file);
      }
      await context.close();
    }
  }
  server.closeAllConnections();
  server.close();
}
await browser.close();
