// SPDX-License-Identifier: Apache-2.0
// Scenarios of what is measured: charts, congestion, values that are late, and the map.
import type { Page } from "playwright-core";
import { check, DEADLINE, outside, press, put, url, violations } from "./steps";

/** Gives the links rates, and with them thresholds. */
async function measured(): Promise<void> {
  const links = [{ a: "n1/eth1", b: "n2/eth1", rateBps: 1e9, rttUs: 1000 }, { a: "n1/eth2", b: "s1/eth0", rateBps: 1e9 }, { a: "n2/eth2", b: "r1/eth0", rateBps: 1e9 }, { a: "n2/eth3", b: "r2/eth0", rateBps: 1e9 }];
  const topology = (await (await fetch(`${url}/api/v1/topology`)).json()) as { spec: object };
  await put("/api/v1/topology", { ...topology, spec: { ...topology.spec, links } });
}

/** The topology with four pods of 42 nodes besides. */
async function withPods(): Promise<object> {
  const topology = (await (await fetch(`${url}/api/v1/topology`)).json()) as { spec: { nodes: object[]; hosts: object[]; links: object[] } };
  const { nodes, hosts, links } = topology.spec;
  const numbers = (count: number) => Array.from({ length: count }, (_, at) => at + 1);
  const node = (name: string, tier: number) => nodes.push({ name, id: nodes.length + 1, tier });
  const link = (a: string, b: string) => links.push({ a, b });
  for (const core of numbers(2)) node(`core${core}`, 3);
  link("n1/eth9", "core1/eth9");
  for (const pod of numbers(4)) {
    for (const spine of numbers(2)) {
      node(`spine${pod}-${spine}`, 2);
      for (const core of numbers(2)) link(`spine${pod}-${spine}/up${core}`, `core${core}/p${pod}s${spine}`);
    }
    for (const leaf of numbers(40)) {
      node(`leaf${pod}-${leaf}`, 1);
      const prefix = `2001:db8:${pod}:${leaf}::`;
      hosts.push({ name: `host${pod}-${leaf}`, prefix: `${prefix}/64`, address: `${prefix}1` });
      link(`leaf${pod}-${leaf}/eth1`, `host${pod}-${leaf}/eth0`);
      for (const spine of numbers(2)) link(`leaf${pod}-${leaf}/up${spine}`, `spine${pod}-${spine}/eth${leaf}`);
    }
  }
  return topology;
}

export const measuring: Record<string, (page: Page) => Promise<void>> = {
  /** Catches a chart without data, one of another unit, one that is never read again, values that only a canvas has, and inline styles that the policy refuses. */
  async charts(page) {
    await measured();
    await page.goto(`${url}/nodes/n1`);
    await page.getByText("Nothing was measured of it yet").waitFor();
    await outside("congest");
    const figures = (of: string) => page.getByRole("table", { name: `${of}: figures` });
    // Ten packets a second, of which the first page has the chart as soon as it is measured.
    await figures("Drops for any reason").getByText(/^(9\.\d+|10(\.\d+)?) \/s$/).first().waitFor();

    // Events of the node are marks, and a list for those who do not see the canvas.
    await page.getByText(/^\d+ events? in this time$/).press("Enter");
    await page.getByRole("listitem").filter({ hasText: "AgentConnected" }).first().waitFor();
    // A link for the channel of the incident shows the same time to everybody, and later.
    const frozen = page.waitForRequest((request) => /\/charts\?.*to=\d+/.test(request.url()));
    await press(page.getByRole("button", { name: "Freeze" }));
    await frozen;
    await page.getByText(/^Charts until .*UTC; the rest of the page is of now\.$/).waitFor();
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await press(page.getByRole("button", { name: "Copy link" }));
    await page.getByRole("button", { name: "Copied" }).waitFor();
    const link = await page.evaluate(() => navigator.clipboard.readText());
    check(/\/nodes\/n1\?at=\d+$/.test(link), `copied ${link}`);
    const again = page.waitForRequest((request) => request.url().includes(`to=${link.split("at=")[1]}`));
    await page.goto(link);
    await again;
    await figures("Drops for any reason").getByText(/ \/s$/).first().waitFor();
    await press(page.getByRole("button", { name: "Live" }));
    await page.waitForURL(/\/nodes\/n1$/);

    await page.getByRole("table", { name: "Drops by reason" }).getByText(/^(9\.\d+|10(\.\d+)?) \/s$/).waitFor();

    let steps: string[] = [];
    page.on("request", (request) => {
      const to = new URL(request.url());
      if (to.pathname === "/api/v1/charts") steps.push(`${to.searchParams.get("object")} ${to.searchParams.get("step")}`);
    });
    await page.goto(`${url}/links/n1/eth1`);
    const queue = page.getByRole("figure", { name: "Queue of n1/eth1" });
    await figures("Queue of n1/eth1").getByText("250 kB").waitFor();
    await figures("Data of n1/eth1").getByText(/^(9\d\d Mbit|1(\.0\d)? Gbit)\/s$/).first().waitFor();
    const canvas = queue.locator("canvas");
    await canvas.waitFor();
    /** Colours of the canvas but for the ground. */
    const painted = () => canvas.evaluate((drawn: HTMLCanvasElement) => new Set(new Uint32Array(drawn.getContext("2d")?.getImageData(0, 0, drawn.width, drawn.height).data.buffer ?? new ArrayBuffer(0))).size);
    check((await painted()) > 4, "nothing is drawn");
    // By keyboard, what the canvas shows.
    await queue.getByText("Values").press("Enter");
    const values = queue.getByRole("table", { name: /^Queue of n1\/eth1: values, 1\d s per row/ });
    await values.getByRole("row").filter({ hasText: "200 kB" }).first().waitFor();
    check((await values.getByRole("row").filter({ hasText: "–" }).count()) > 10, "what was not measured is no gap");
    // Under the cursor, the value of that second, in every chart of the page.
    await queue.locator(".u-over").hover({ position: { x: 200, y: 40 } });
    await figures("Data of n1/eth1").getByText(/^\d\d:\d\d:\d\d$/).waitFor();
    await page.mouse.move(5, 5);
    const before = steps.filter((step) => step === "link/n1/eth1 1").length;
    const until = Date.now() + DEADLINE;
    while (steps.filter((step) => step === "link/n1/eth1 1").length < before + 2 && Date.now() < until) await page.waitForTimeout(100);
    check(Date.now() < until, "the charts are not read again");
    steps = [];
    await page.getByRole("combobox", { name: "Time range of the charts" }).selectOption("1h");
    await page.waitForURL(/range=1h/);
    await figures("Queue of n1/eth1").getByText("250 kB").waitFor();
    check(steps.includes("link/n1/eth1 10"), `an hour was read as ${steps.join(", ")}`);

    // The fleet on Overview, without the library of the other charts.
    const scripts: string[] = [];
    page.on("request", (request) => scripts.push(new URL(request.url()).pathname));
    await page.goto(url);
    const ready = page.getByRole("region", { name: "Last 5 minutes" }).locator("div").filter({ hasText: "Groups ready" });
    await ready.getByText("1", { exact: true }).waitFor();
    check(/^M[\d.]+ 1\.0L.+$/.test((await ready.locator("path").getAttribute("d")) ?? ""), "the line is not at the top");
    check(!scripts.some((path) => path.includes("plot")), "the first view reads what draws charts");
  },

  /** Catches a congested port that is not listed, a source that stays an address, shares of another port, and thresholds that are not those of the link. */
  async congestion(page) {
    await measured();
    await page.goto(`${url}/congestion`);
    // What is not known is not well.
    await page.getByText("No port has reported its queue within a minute.").waitFor();
    await outside("congest");
    await page.getByText("Above K_max, sources are slowed down: n1/eth1.").waitFor();
    await page.getByText(/^Checked: \d of 5 ports have thresholds and have reported their queue within a minute\.$/).waitFor();
    const port = page.getByRole("region", { name: "n1/eth1 to n2/eth1" });
    await port.getByText("s1 sends most: 78 % of what leaves there.").waitFor();
    await port.getByText(/Since its agent started: 12 Long-haul CNPs \(Notify 4, Rate Reduce 8\), 3 held back/).waitFor();
    // Every measured second was above K_max: 1 Gbit/s for 1 ms.
    await port.getByText(/Over K_max in 100 % of \d+ measured seconds?, over K_min in 100 %\. The largest depth was 250 kB\./).waitFor();
    await port.getByText("K_max 125 kB, by the bandwidth-delay product, at 1 Gbit/s.").waitFor();
    const rows = port.getByRole("table", { name: "Sources of what leaves n1/eth1" }).getByRole("row");
    check((await rows.allInnerTexts()).slice(1).map((row) => row.split(/\s/)[0]).join() === "s1,r2", `the sources are ${await rows.allInnerTexts()}`);
    await port.getByRole("figure", { name: "Queue of n1/eth1" }).locator("canvas").waitFor();
    // Marks rise, notifications do not.
    await port.getByRole("table", { name: "Marks of n1/eth1: figures" }).getByText(/^[12]\d(\.\d+)? k\/s$/).first().waitFor();
    await port.getByRole("table", { name: "Notifications since the page was opened of n1/eth1: figures" }).getByText("0 /s", { exact: true }).first().waitFor();
    await port.getByRole("link", { name: "LinkCongested" }).click();
    await page.getByRole("heading", { level: 1, name: /n1\/eth1/ }).waitFor();
  },

  /** Catches a value of an agent that is away which seems to be of now, and a line of what was checked that does not have how old it is. */
  async late(page) {
    await measured();
    await outside("congest");
    await page.goto(url);
    const checked = page.getByText(/^Checked: 2 agents of 2 connected; 2 nodes in sync; /);
    await checked.getByText(/; 1 agent reported its ports less than [1-5] s ago; 1 of 5 link directions reported within 5 s/).waitFor();
    // The simulated headend reports no position of its group.
    await checked.getByText(/; 0 groups progressing, 1 not reported; /).waitFor();
    check((await page.locator(".stale").count()) === 0, "what is of now is grey");
    // An agent that is connected and hangs: the controller has what it reported last, 12 s ago.
    interface Reported {
      status: { congestion: { reportedAgoNs: number } | null };
    }
    await page.route("**/api/v1/links**", async (route) => {
      const answer = await route.fetch();
      const body = (await answer.json()) as Reported | { items: Reported[] };
      for (const { status } of "items" in body ? body.items : [body]) if (status.congestion) status.congestion.reportedAgoNs = 12.5e9;
      await route.fulfill({ response: answer, json: body });
    });
    await checked.locator(".stale").getByText("n1 12 s ago", { exact: true }).waitFor();
    await checked.getByText("; 0 of 5 link directions reported within 5 s").waitFor();
    await page.goto(`${url}/links`);
    const row = page.getByRole("row").filter({ has: page.getByRole("link", { name: "n1/eth1", exact: true }) });
    await row.locator(".stale").getByText("12 s ago", { exact: true }).waitFor();
    await row.locator(".stale").getByText("250 kB", { exact: true }).waitFor();
    check((await page.getByRole("row").filter({ has: page.getByRole("link", { name: "n2/eth1", exact: true }) }).locator(".stale").count()) === 0, "a link of another agent is grey");
    await page.goto(`${url}/links/n1/eth1`);
    const queue = page.getByRole("region", { name: "Queue", exact: true });
    await queue.locator(".stale").getByText("200 kB, 250 kB").waitFor();
    const found = await violations(page);
    check(found.length === 0, found.join("\n"));
    await page.unroute("**/api/v1/links**");
    await queue.locator(".stale").first().waitFor({ state: "detached" });
  },

  /**
   * Catches a map that needs a mouse, a side panel of another object than is marked, a drain without its effects or that leaves the map, a layer
   * that draws the lines of another one, and a pod that a click does not go into.
   */
  async fabric(page) {
    await measured();
    await page.goto(`${url}/topology`);
    const map = page.getByRole("application", { name: /^Map of 2 nodes and 3 hosts\./ });
    const panel = page.getByRole("region", { name: "Picked" });
    const heading = (of: string | RegExp) => panel.getByRole("heading", { level: 2, name: of });
    await map.waitFor();
    await page.getByText(/^The map is being /).waitFor({ state: "detached" });
    await panel.getByText("Pick a node, host or link", { exact: false }).waitFor();

    // By keyboard: a node, then its links.
    await map.press("ArrowDown");
    await heading("n1").waitFor();
    await page.getByRole("application", { name: /n1 is picked\.$/ }).waitFor();
    check(page.url().endsWith("/topology?picked=n1"), `what is picked is not in ${page.url()}`);
    await panel.getByText("in sync", { exact: true }).waitFor();
    const ports = panel.getByRole("list", { name: "Ports of n1" });
    await ports.getByRole("listitem").filter({ hasText: "eth1 to n2/eth1" }).getByText("in service").waitFor();
    check((await ports.getByRole("link").allInnerTexts()).join() === "eth1,eth2", `the ports are ${await ports.allInnerTexts()}`);
    await panel.getByRole("list", { name: "Last events of n1" }).getByText("AgentConnected").first().waitFor();
    await map.press("l");
    await heading("n1/eth1 to n2/eth1").waitFor();
    await map.press("l");
    await heading("n1/eth2 to s1/eth0").waitFor();
    check(await panel.getByRole("button", { name: "Drain…" }).isDisabled(), "a link to a host can be drained");
    await map.press("Shift+L");
    await heading("n1/eth1 to n2/eth1").waitFor();
    await panel.getByRole("list", { name: "Directions of n1/eth1--n2/eth1" }).getByRole("link", { name: "n2/eth1" }).waitFor();

    // It is in the middle then: another layer has other pixels there.
    await map.press("Enter");
    await page.waitForTimeout(500);
    const box = await map.boundingBox();
    check(box !== null, "the map has no place");
    const [x, y] = [box.width / 2, box.height / 2 + 8];
    /** Pixels of a state's colour around the middle. */
    const painted = (token: string) =>
      map.evaluate((canvas, { name, left, top }) => {
        const probe = document.body.appendChild(document.createElement("i"));
        probe.className = name;
        const colour = getComputedStyle(probe).color.match(/\d+/g)?.map(Number) ?? [];
        probe.remove();
        const drawn = (canvas as HTMLCanvasElement).getContext("2d")?.getImageData(left - 40, top - 12, 80, 24).data ?? [];
        let found = 0;
        for (let at = 0; at < drawn.length; at += 4) if (colour.every((value, of) => Math.abs(value - (drawn[at + of] ?? 0)) < 3)) found += 1;
        return found;
      }, { name: token, left: Math.round(x), top: Math.round(y) });
    const until = async (what: string, holds: () => Promise<boolean>) => {
      const end = Date.now() + DEADLINE;
      while (!(await holds())) {
        check(Date.now() < end, what);
        await page.waitForTimeout(100);
      }
    };
    await outside("congest");
    const layer = page.getByRole("combobox", { name: "Lines by" });
    await layer.selectOption("queue");
    await panel.getByRole("listitem").filter({ hasText: "n1/eth1 to n2/eth1" }).getByText("K_max or more, sources slowed down").waitFor();
    await until("no line has the colour of its queue", async () => (await painted("failed")) > 20);
    await layer.selectOption("loss");
    await until("the line by loss has the colour of its queue", async () => (await painted("failed")) === 0);
    check(page.url().includes("links=loss") && page.url().includes("picked="), `the layer, or what is picked, is not in ${page.url()}`);

    // By click: nothing, the line, the node at its end.
    await map.click({ position: { x: 8, y: 8 } });
    await panel.getByText("Pick a node, host or link", { exact: false }).waitFor();
    await map.click({ position: { x, y } });
    await heading("n1/eth1 to n2/eth1").waitFor();
    await map.click({ position: { x: x - 60, y } });
    await heading(/^n[12]$/).waitFor();

    // Drained and put back without leaving the map.
    await page.goto(`${url}/topology?picked=n1%2Feth1--n2%2Feth1`);
    await press(panel.getByRole("button", { name: "Drain…" }));
    await page.getByRole("dialog", { name: "Drain link n1/eth1--n2/eth1" }).waitFor();
    await page.keyboard.type("optics");
    await page.keyboard.press("Enter");
    await page.getByText("The controller accepts it.").waitFor();
    await press(page.getByRole("button", { name: "Drain it" }));
    await panel.getByText("drained: optics").waitFor();
    check(new URL(page.url()).pathname === "/topology", `the drain led to ${page.url()}`);
    await press(panel.getByRole("button", { name: "Put back…" }));
    await press(page.getByRole("button", { name: "Put it back" }));
    await panel.getByRole("button", { name: "Drain…" }).waitFor();

    // Many nodes: from far they are pods, and a click goes into one.
    await put("/api/v1/topology", await withPods());
    await page.goto(`${url}/topology`);
    const large = page.getByRole("application", { name: /^Map of 172 nodes and 163 hosts\./ });
    await large.waitFor();
    await page.getByText(/^The map is being /).waitFor({ state: "detached" });
    const level = () => large.getAttribute("data-level");
    for (let times = 0; times < 8 && (await level()) !== "cells"; times += 1) {
      await large.press("-");
      await page.waitForTimeout(300);
    }
    await page.getByRole("application", { name: /Pods are shown: zoom in for their nodes\./ }).waitFor();
    const whole = await large.boundingBox();
    check(whole !== null, "the map has no place");
    for (let at = 0; at < 25 && (await level()) === "cells"; at += 1) {
      await large.click({ position: { x: (whole.width * (3 + (at % 5))) / 10, y: (whole.height * (3 + Math.floor(at / 5))) / 10 } });
      await page.waitForTimeout(300);
    }
    check((await level()) !== "cells", "no click goes into a pod");
    await panel.getByText("Pick a node, host or link", { exact: false }).waitFor();
    const found = await violations(page);
    check(found.length === 0, found.join("\n"));
  },
};
