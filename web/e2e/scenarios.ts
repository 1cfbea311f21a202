// SPDX-License-Identifier: Apache-2.0
// What the UI does in Chromium with a real controller: `npm run scenario -- NAME URL`, started by controller/runtime/tests/ui.rs. The line
// `do: ...` asks for something outside of the browser; the answer is a line.
import { createServer } from "node:http";
import { connect, createServer as createConnections, type Socket } from "node:net";
import { chromium, type Locator, type Page } from "playwright-core";
import { signIn } from "./signIn";
import { check, DEADLINE, group, live, name, noProblem, outside, press, put, url, violations } from "./steps";
import { books } from "./books";
import { unreached } from "./keys";
import { lab } from "./lab";
import { writing } from "./writing";

/** What no scenario may end with: errors of the page, and what the content security policy refused. */
const reported: string[] = [];

/** As a code that is opened at /docs itself. */
async function signInAt(page: Page, address: string): Promise<void> {
  await page.goto(`${url}/docs${new URL(address).hash}`);
  await page.reload();
}

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

/** Signs in at the identity provider of the test, from the page of the UI. */
async function atProvider(page: Page, person: string): Promise<void> {
  await page.getByRole("button", { name: /^Sign in with localhost/ }).click();
  await page.getByPlaceholder("Enter any login").fill(person);
  await page.getByPlaceholder("and password").fill("any");
  await page.getByRole("button", { name: "Sign-in" }).click();
  await page.getByRole("button", { name: "Continue" }).click();
}

/** The same for a person that the provider knows; it may ask again whether the controller may know the person. */
async function atProviderAgain(page: Page, then: Locator): Promise<void> {
  await page.getByRole("button", { name: /^Sign in with localhost/ }).click();
  const consent = page.getByRole("button", { name: "Continue" });
  await consent.or(then).first().waitFor();
  if (await consent.isVisible()) await consent.click();
  await then.waitFor();
}

/** A write of the page, as its scripts send one. */
const sent = (page: Page, method: string, path: string, body: unknown) =>
  page.evaluate(async ([m, to, text]) => {
    const answer = await fetch(to, { method: m, headers: { "content-type": "application/json" }, body: text });
    return { status: answer.status, text: await answer.text() };
  }, [method, path, JSON.stringify(body)] as const);

const scenarios: Record<string, (page: Page) => Promise<void>> = {
  ...books,
  ...lab,
  ...writing,

  /** Catches a page that shows no problem while an agent is away, other words than the API's, and a button that leads nowhere. */
  async lostAgent(page) {
    await page.goto(url);
    await noProblem(page);
    await live(page).getByText("live", { exact: true }).waitFor();
    await outside("disconnect n2");
    const problem = page.getByRole("article", { name: "critical: node n2 has no connection to its agent" });
    await problem.waitFor();
    const listed = (await (await fetch(`${url}/api/v1/problems?root=true`)).json()) as { items: { remedy: string }[] };
    await problem.getByText(listed.items[0]?.remedy.replaceAll("`", "") ?? "?").waitFor();
    check((await page.title()).startsWith("1 problem"), `the title is ${await page.title()}`);
    await problem.getByRole("link", { name: "Cause and effects" }).click();
    await page.getByRole("heading", { name: "node n2 has no connection to its agent" }).waitFor();
    await page.getByText("No other open problem explains it").waitFor();
    await page.getByRole("link", { name: "Overview" }).click();
    await page.getByRole("link", { name: "Open node n2" }).click();
    await page.getByRole("heading", { level: 1, name: "n2" }).waitFor();
    await page.getByText("not connected", { exact: true }).first().waitFor();
    await page.getByText("no agent of this node is connected to the controller").first().waitFor();
    await outside("connect n2");
    await page.getByText("in sync", { exact: true }).waitFor();
    await page.getByRole("link", { name: "Overview" }).click();
    await noProblem(page);
    // What was noted of it stays, and leads back to the others.
    await page.getByRole("link", { name: "Incidents", exact: true }).click();
    await page.getByRole("table", { name: "Incidents" }).getByRole("link", { name: "node n2 has no connection to its agent" }).first().click();
    await page.getByText("canopyctl chart --incident").first().waitFor();
    await page.getByRole("navigation", { name: "Breadcrumbs" }).getByRole("link", { name: "Incidents" }).click();
    await page.waitForURL(`${url}/incidents`);
  },

  /** Catches a list that needs a reload, and one that is read again for every change. */
  async changes(page) {
    await page.goto(`${url}/groups`);
    const row = (of: string) => page.getByRole("row").filter({ has: page.getByRole("link", { name: of, exact: true }) });
    await row("g1").getByText("Ready").waitFor();
    await put("/api/v1/groups/g2", group("g2"));
    await row("g2").getByText("Pending").waitFor();
    // What is not reported is not 0.
    await row("g2").getByText("–", { exact: true }).waitFor();
    await fetch(`${url}/api/v1/groups/g2`, { method: "DELETE" });
    await row("g2").waitFor({ state: "detached" });
    // A page of one group, by its link; its telemetry is missing, and shown to be.
    await row("g1").getByRole("link").click();
    await page.getByRole("heading", { level: 1, name: "g1" }).waitFor();
    await page.getByRole("img", { name: "r1 receiver: works" }).waitFor();
    await page.getByText("No edge has reported positions of receivers yet.").waitFor();
    let lists = 0;
    page.on("request", (request) => {
      if (new URL(request.url()).pathname === "/api/v1/groups/g1") lists += 1;
    });
    await put("/api/v1/groups/g1/members/r2", { apiVersion: "canopy/v1", kind: "Member", metadata: {}, spec: { host: "r2", role: "receiver", qpn: 19 } });
    await page.getByRole("table", { name: "Members" }).getByText("r2", { exact: true }).waitFor();
    await page.getByRole("img", { name: /^r2 receiver: / }).waitFor();
    check(lists === 0, `the group was read ${lists} times although the stream had it`);
    await page.goto(`${url}/events`);
    await page.getByRole("table", { name: "Events" }).getByText("AgentConnected").first().waitFor();
    // A range of the time line by keyboard, and back to all; a node leads to its page.
    const over = page.getByRole("application", { name: /^Events over time, 1 min per bar/ });
    await over.press("End");
    await over.press("Enter");
    await page.waitForURL(/from=\d+&to=\d+/);
    await over.press("Escape");
    await page.waitForURL((to) => !to.search.includes("from="));
    await page.getByRole("combobox", { name: "About" }).selectOption("nodes");
    check((await page.getByRole("table", { name: "Events" }).getByRole("link", { name: "n1" }).first().getAttribute("href")) === "/nodes/n1", "a node leads elsewhere");
    await page.getByRole("combobox", { name: "About" }).selectOption("about anything");
    await page.getByRole("searchbox", { name: "Filter events" }).fill("no event has this");
    await page.getByText("No event passes the filter.").waitFor();
    check(page.url().includes("q=no"), "the filter is not in the URL");
    // A refusal has the id by which the controller's log has it, to copy.
    const refused = page.waitForResponse((answer) => new URL(answer.url()).pathname === "/api/v1/hosts/nothing");
    await page.goto(`${url}/hosts/nothing`);
    const id = (await refused).headers()["canopy-request-id"] ?? "";
    check(/^[0-9a-f]{32}$/.test(id), `the answer has the id ${id}`);
    await page.getByRole("alert").getByText(id, { exact: true }).waitFor();
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await press(page.getByRole("alert").getByRole("button", { name: `Copy the id of request ${id}` }));
    await page.getByRole("alert").getByText("Copied").waitFor();
    check((await page.evaluate(() => navigator.clipboard.readText())) === id, "another text was copied");
    const found = await violations(page);
    check(found.length === 0, found.join("\n"));
  },

  /** Catches a host whose groups or port are not shown, and a page that leads nowhere. */
  async hosts(page) {
    await page.goto(`${url}/hosts`);
    const table = page.getByRole("table", { name: "Hosts" });
    await table.getByRole("link", { name: "r1", exact: true }).waitFor();
    await page.getByRole("searchbox", { name: "Filter by name, node or state" }).fill("s1");
    await table.getByRole("link", { name: "r1", exact: true }).waitFor({ state: "detached" });
    await table.getByRole("link", { name: "s1", exact: true }).click();
    await page.getByRole("heading", { name: "s1", level: 1 }).waitFor();
    await page.getByText("canopyctl describe host s1").waitFor();
    await page.getByText("that of node", { exact: false }).waitFor();
    await page.getByText(/^[\d\u202f]+ bytes$/).waitFor();
    await page.getByRole("region", { name: "Over time" }).getByRole("link", { name: "n1/eth2" }).waitFor();
    await page.getByRole("table", { name: "Groups" }).getByRole("link", { name: "g1", exact: true }).click();
    await page.waitForURL(`${url}/groups/g1`);
  },

  /** Catches a word that is explained to the mouse alone, an explanation that becomes a part of a heading's name or stays, and a column that its word keeps from being sorted. */
  async glossary(page) {
    await page.goto(`${url}/links`);
    const heading = page.getByRole("columnheader", { name: "K_max", exact: true });
    const word = heading.getByRole("button", { name: "K_max", exact: true });
    const tip = page.getByRole("tooltip");
    await word.hover();
    await tip.getByText(/^K_max: queue depth above which a node sends Long-haul CNPs/).waitFor();
    const found = await violations(page);
    check(found.length === 0, found.join("\n"));
    check((await page.getByRole("columnheader", { name: "K_max", exact: true }).count()) === 1, "the explanation is a part of the heading's name");
    await page.keyboard.press("Escape");
    await tip.waitFor({ state: "detached" });
    await page.mouse.move(5, 5);
    await page.getByRole("button", { name: "Peak queue" }).focus();
    await page.keyboard.press("Tab");
    await tip.getByText(/^K_max: /).waitFor();
    check(await word.evaluate((button) => document.getElementById(button.getAttribute("aria-describedby") ?? "")?.getAttribute("role") === "tooltip"), "the word is not described by its explanation");
    await page.keyboard.press("Enter");
    await page.getByRole("columnheader", { name: "K_max" }).and(page.locator("[aria-sort=ascending]")).waitFor();
    await page.keyboard.press("Tab");
    await tip.getByText(/^CE: Congestion Experienced/).waitFor();
    check((await tip.count()) === 1, "the explanation of another word stays");
    check((await word.getAttribute("aria-describedby")) === null, "the word is described by what is not there");
  },

  /** Catches a search that needs a mouse, and one that opens another thing than is marked. */
  async search(page) {
    await page.goto(url);
    await live(page).getByText("live", { exact: true }).waitFor();
    await page.keyboard.press("Control+k");
    const field = page.getByRole("combobox", { name: /^Name of a page/ });
    await field.waitFor();
    await page.keyboard.type("n2");
    const found = page.getByRole("listbox", { name: "Found" });
    await found.getByRole("option", { name: "node n2", selected: true }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "n2" }).waitFor();
    await field.waitFor({ state: "detached" });
    await press(page.getByRole("button", { name: /^Search/ }));
    await field.waitFor();
    await page.keyboard.type("g");
    await found.getByRole("option", { name: "group g1" }).waitFor();
    await found.getByRole("option", { name: "page Groups", selected: true }).waitFor();
    // Round the list's beginning to its end.
    await page.keyboard.press("ArrowUp");
    check((await found.getByRole("option", { selected: true }).count()) === 1, "not one choice is marked");
    await field.fill("n1/eth1");
    await found.getByRole("option", { name: "link n1/eth1", selected: true }).waitFor();
    await field.fill("nothing has this name");
    await page.getByText("Nothing has this name.").waitFor();
    await page.keyboard.press("Escape");
    await field.waitFor({ state: "detached" });
    check(new URL(page.url()).pathname === "/nodes/n2", "a search without a choice has gone elsewhere");

    // What can be done, from whatever page: a dialog of its own, or at once.
    const choose = async (text: string, option: string) => {
      await page.keyboard.press("Control+k");
      await field.waitFor();
      await page.keyboard.type(text);
      await found.getByRole("option", { name: option, selected: true }).waitFor();
      await page.keyboard.press("Enter");
      await field.waitFor({ state: "detached" });
    };
    const opens = async (dialog: string) => {
      await page.getByRole("dialog", { name: dialog }).waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
    };
    await choose("create group", "action Create group");
    await opens("Create a group");
    await choose("drain n2", "action Drain node n2");
    await opens("Drain node n2");
    await put("/api/v1/drains/d1", { apiVersion: "canopy/v1", kind: "Drain", metadata: { name: "d1" }, spec: { link: "n1/eth1", reason: "optics" } });
    await choose("put back", "action Put back link n1/eth1--n2/eth1");
    await opens("Put d1 back into service");
    await choose("theme light", "action Theme: light");
    check((await page.locator("html").getAttribute("data-theme")) === "light", "the theme is another one");
    await choose("local time", "action Times in local time");
    await page.getByRole("button", { name: "Times are in local time; change" }).waitFor();
    await choose("incid", "page Incidents");
    await page.getByRole("heading", { level: 1, name: "Incidents" }).waitFor();
    await choose("change s", "page Change sets");
    await page.getByRole("heading", { level: 1, name: "Change sets" }).waitFor();
    // A network that is there is not declared.
    await page.keyboard.press("Control+k");
    await field.fill("declare");
    await page.getByText("Nothing has this name.").waitFor();
    await page.keyboard.press("Escape");
    await choose("sign out", "action Sign out");
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
  },

  /** Catches a capture without its changes, a place that is not chosen by keyboard, and a file that is read without the session. */
  async packet(page) {
    await outside("capture");
    await page.goto(`${url}/groups/g1`);
    const section = page.getByRole("region", { name: "Packet", exact: true });
    // As the programs have it, without a packet.
    await section.getByText("canopyctl packet g1 --expected").first().waitFor();
    const expected = section.getByRole("table", { name: "Packet to r1" });
    await expected.getByRole("row", { name: /^Outer Traffic Class/ }).getByText(/^headend: outer IPv6 header/).waitFor();
    await expected.getByRole("row", { name: /^DestQP/ }).getByText("0x000011").waitFor();
    await expected.getByRole("row", { name: /^Destination Address/ }).getByText("End.MT: TLV entry 1, r1").waitFor();
    await expected.getByRole("row", { name: /^Hop Limit/ }).getByText("2 less than sent").waitFor();
    await press(section.getByRole("button", { name: "n1/eth1 out" }));
    const dump = section.getByRole("figure", { name: "Octets at n1/eth1 out" });
    await dump.getByTitle("SRH").first().waitFor();
    // Field and octets are marked together, by mouse and by keyboard, with who changed them and why.
    const about = dump.getByRole("status");
    const marked = dump.locator(".run.marked");
    await dump.getByRole("option", { name: /^Outer Hop Limit, octet 21 / }).hover();
    await expected.locator("tr.marked").filter({ has: page.getByRole("rowheader", { name: "Outer Hop Limit" }) }).waitFor();
    await about.getByText("Changed by n1, headend: outer IPv6 header").waitFor();
    await expected.getByRole("row", { name: /^DestQP/ }).hover();
    check(/^DestQP, octets \d+ to \d+(\s+[0-9a-f]{2}){1,3}$/.test((await marked.first().innerText()).trim()), `the octets of DestQP are ${await marked.allInnerTexts()}`);
    await expected.getByRole("button", { name: "Outer Traffic Class" }).focus();
    await page.mouse.move(5, 5);
    await page.keyboard.press("ArrowDown");
    check(await expected.getByRole("button", { name: "Outer Flow Label" }).evaluate((field) => field === document.activeElement), "an arrow key does not go to the next field");
    await about.getByText("Outer Flow Label, octets 16 to 17").waitFor();
    await dump.getByRole("listbox").focus();
    await page.keyboard.press("ArrowRight");
    await dump.getByRole("option", { name: /^Outer Payload Length/, selected: true }).waitFor();
    await expected.locator("tr.marked").filter({ hasText: "Outer Payload Length" }).waitFor();
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await press(section.getByRole("button", { name: "Copy as scapy" }));
    await section.getByRole("button", { name: "Copied" }).waitFor();
    const python = await page.evaluate(() => navigator.clipboard.readText());
    check(/Ether\(\) \/ IPv6\(src=.*nh=43.*\) \/ Raw\(bytes.fromhex\("29[0-9a-f]+"\)\) \/ IPv6\(.*BTH\(dqpn=\d+\)$/.test(python), `copied ${python}`);
    await press(section.getByRole("button", { name: "Capture a packet" }));
    await section.getByRole("status").getByText("Waiting for a packet").waitFor();
    // The simulated nodes see it everywhere but behind n1.
    await section.getByRole("status").getByText("seen at 3 of 4 places, not as expected at 2.").waitFor({ timeout: 15_000 });
    // Their frames are plain between the nodes, and lose no Hop Limit.
    await section.getByText("n2/eth1 in: expected an outer header and an SRH").waitFor();
    await section.getByText("expected Hop Limit: 61").waitFor();
    const table = section.getByRole("table", { name: "Packet to r1" });
    const destination = table.getByRole("row", { name: /^Destination Address/ });
    await destination.getByText("End.MT: TLV entry 1, r1").waitFor();
    await table.getByRole("row", { name: /^DestQP/ }).getByText("0x000011").waitFor();
    check((await destination.getByText("not seen").count()) === 1, "a place without the packet is not named");
    const octets = section.getByRole("figure", { name: "Octets at n2/eth2 out" });
    check((await octets.locator("mark").count()) > 0, "no octet is marked");
    await press(section.getByRole("button", { name: "n1/eth2 in" }));
    await section.getByRole("figure", { name: "Octets at n1/eth2 in" }).waitFor();
    const saved = page.waitForEvent("download");
    await press(section.getByRole("button", { name: "Save pcapng" }));
    const file = await (await saved).createReadStream();
    const [first] = (await file.toArray()) as Buffer[];
    check(first?.subarray(0, 4).toString("hex") === "0a0d0d0a", "the file is no pcapng");
    // The capture is in the list, where it is found again behind the other mode.
    await press(section.getByRole("button", { name: "As expected" }));
    await section.getByText("2 less than sent").waitFor();
    await section.getByText("1 capture", { exact: true }).press("Enter");
    await press(section.getByRole("list", { name: "Captures" }).getByRole("button", { name: /^PSN \d+$/ }));
    await section.getByRole("status").getByText("seen at 3 of 4 places").waitFor();
    const found = await violations(page);
    check(found.length === 0, found.join("\n"));
  },

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

  /** Catches a page that trusts what is old, a counter that is not read, and a controller that is away and seems well. */
  async controller(page) {
    await page.goto(`${url}/controller`);
    await page.getByText(/complete and of now: .* 2 agents of 2 connected and in sync/).waitFor();
    await page.getByRole("table", { name: "Checks of the controller" }).getByText(/^revision \d+$/).waitFor();
    await page.getByText(/^\d+ changes?: half within .+, 99\s% within/).waitFor();
    await page.getByText(/^[\d.]+ [kM]?B of 268 MB, \d+ series$/).waitFor();
    await page.getByRole("region", { name: "Store" }).getByText(/^half within .+, 99\s% within .+, of the last \d+ commits?$/).waitFor();
    await outside("disconnect n2");
    await page.getByText("1 agent of 2 not connected: what is shown of its node is old").waitFor();
    await page.getByRole("table", { name: "Nodes that are not in sync" }).getByRole("row", { name: /n2 not connected/ }).waitFor();
    await outside("connect n2");
    await page.getByText("complete and of now").waitFor();
    await outside("stop");
    await page.getByText("this browser receives no changes: what it shows is of before").waitFor();
    check(await page.getByText("complete and of now").isHidden(), "a controller that is away is trusted");
    await page.getByText(/^What is shown below was read \d+ s ago\.$/).first().waitFor();
    await outside(`start ${new URL(url).port}`);
    // Sessions end with the controller.
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await page.getByRole("textbox").fill(await outside("sign in"));
    await page.keyboard.press("Enter");
    await page.getByText("complete and of now").waitFor();
  },

  /** Catches a page that is blank while the controller is away, one that still shows itself as live, and one that has to be reloaded. */
  async restart(page) {
    await page.goto(`${url}/groups`);
    const loaded = await page.evaluate(() => performance.timeOrigin);
    await page.getByRole("link", { name: "g1" }).waitFor();
    await live(page).getByText("live", { exact: true }).waitFor();
    await outside("stop");
    await live(page).getByText(/^reconnecting/).waitFor();
    check(await page.getByRole("link", { name: "g1" }).isVisible(), "what was read is gone");
    await outside(`start ${new URL(url).port}`);
    await put("/api/v1/groups/g2", group("g2"));
    // Sessions end with the controller: another code is all that it takes.
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await page.getByRole("textbox").fill(await outside("sign in"));
    await page.keyboard.press("Enter");
    await live(page).getByText("live", { exact: true }).waitFor();
    await page.getByRole("link", { name: "g2" }).waitFor();
    check(page.url() === `${url}/groups`, `it came back to ${page.url()}`);
    check((await page.evaluate(() => performance.timeOrigin)) === loaded, "the page was loaded again");
  },

  /** Catches a browser without a network that shows itself as live, or its controller as away for good, and a page that has to be reloaded. */
  async networkCut(page) {
    // The network of the browser: connections that can be cut, and are refused then.
    const sockets = new Set<Socket>();
    let isCut = false;
    const network = createConnections((socket) => {
      if (isCut) return void socket.destroy();
      const on = connect(Number(new URL(url).port), "127.0.0.1");
      for (const [one, other] of [[socket, on], [on, socket]] as const) {
        sockets.add(one);
        one.on("error", () => other.destroy()).on("close", () => other.destroy()).pipe(other);
      }
    });
    await new Promise<void>((resolve) => network.listen(0, "127.0.0.1", resolve));
    const address = network.address();
    const near = `http://127.0.0.1:${typeof address === "object" && address ? address.port : 0}`;
    await signIn(page, `${near}/${new URL(await outside("sign in")).hash}`);
    await page.goto(`${near}/groups`);
    const loaded = await page.evaluate(() => performance.timeOrigin);
    await page.getByRole("link", { name: "g1" }).waitFor();
    await live(page).getByText("live", { exact: true }).waitFor();
    isCut = true;
    for (const socket of sockets) socket.destroy();
    await live(page).getByText(/^(reconnecting|stale)/).waitFor();
    await put("/api/v1/groups/g2", group("g2"));
    check(await page.getByRole("link", { name: "g1" }).isVisible(), "what was read is gone");
    check((await page.getByRole("link", { name: "g2" }).count()) === 0, "the browser is not cut off");
    isCut = false;
    await live(page).getByText("live", { exact: true }).waitFor();
    await page.getByRole("link", { name: "g2" }).waitFor();
    check((await page.evaluate(() => performance.timeOrigin)) === loaded, "the page was loaded again");
    // The session is the same: no second code is needed.
    check((await page.getByRole("heading", { name: "Sign in" }).count()) === 0, "the session has ended");
    await page.goto("about:blank");
    network.close();
  },

  /** Catches text of an operator that becomes markup, in a page or in a command. */
  async markup(page) {
    const text = `<img src=x onerror="document.title='owned';window.owned=1"><script>document.title='owned';window.owned=1</script>`;
    /** On the page that is shown, nothing of a text was run or became an element, and the policy had nothing to refuse. */
    const harmless = async (where: string) => {
      check((await page.title()) !== "owned", `${where}: markup ran`);
      check(!(await page.evaluate(() => "owned" in window)), `${where}: markup ran, and set the flag`);
      check((await page.locator("img[src=x], #root script, body > script:not([src])").count()) === 0, `${where}: markup became an element`);
      check(reported.length === 0, `${where}: the browser reported:\n${reported.join("\n")}`);
    };
    await put("/api/v1/drains/d1", { apiVersion: "canopy/v1", kind: "Drain", metadata: { name: "d1" }, spec: { link: "n1/eth1", reason: text } });
    await page.goto(`${url}/drains`);
    await page.getByRole("table", { name: "Drains" }).getByText(text).waitFor();
    await harmless("the reason of a drain");
    const silence = (name: string, spec: object) => put(`/api/v1/silences/${name}`, { apiVersion: "canopy/v1", kind: "Silence", metadata: { name }, spec: { ...spec, note: text, until: new Date(Date.now() + 3_600_000).toISOString() } });
    await silence("s1", { node: "n2" });
    await page.goto(`${url}/nodes/n2`);
    await page.getByRole("note").getByText(text).waitFor();
    await harmless("the note of a silence, at a node");
    await outside("disconnect n2");
    await page.goto(url);
    await page.getByRole("article", { name: /node n2 has no connection/ }).getByText(text).waitFor();
    await harmless("the note of a silence, on Overview");
    await outside("connect n2");
    await page.goto(`${url}/audit`);
    await page.getByRole("button", { name: "create drain/d1: open" }).press("Enter");
    await page.getByRole("dialog").getByText("<img src=x onerror=").first().waitFor();
    await harmless("a write of the audit");
    await page.goto(`${url}/events?q=${encodeURIComponent(text)}`);
    await page.getByText("No event passes the filter.").waitFor();
    check((await page.getByRole("searchbox").inputValue()) === text, "the filter is not the one of the URL");
    await harmless("the filter of events");
    // Every page whose address has a name or a filter.
    const markup = encodeURIComponent(text);
    for (const path of ["groups/NAME", "nodes/NAME", "hosts/NAME", "links/NAME/eth1", "links/n1/NAME", "problems/NAME", "incidents/NAME", "change-sets/NAME", "NAME", "groups?q=NAME&phase=NAME", "events?code=NAME&node=NAME&group=NAME", "audit?by=NAME&name=NAME&request=NAME", "topology?links=NAME", "links/n1/eth1?range=NAME&at=NAME"]) {
      await page.goto(`${url}/${path.replaceAll("NAME", markup)}`);
      await page.getByRole("heading", { level: 1 }).first().waitFor();
      await page.getByText("Reading…").first().waitFor({ state: "detached" });
      await harmless(path);
    }
    await page.goto(`${url}/nodes/${markup}`);
    check((await page.getByRole("heading", { level: 1 }).innerText()) === text, "a name is not shown as it is");

    // Names and labels are of few characters: others are refused by field, by REST and so by the form.
    const refuse = async (path: string, body: unknown, field: string) => {
      const answer = await fetch(url + path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
      const { errors = [] } = (await answer.json()) as { errors?: { field: string }[] };
      check((answer.status === 422 || answer.status === 400) && errors.some((error) => error.field.startsWith(field)), `${path}, ${field}: ${answer.status} ${JSON.stringify(errors)}`);
    };
    await refuse("/api/v1/groups", { ...group("g9"), metadata: { name: "g9", labels: { job: text } } }, "metadata.labels");
    await refuse("/api/v1/groups", { ...group("g9"), metadata: { name: "g9", labels: { [text]: "llm" } } }, "metadata.labels");
    await refuse("/api/v1/groups", group(text), "metadata.name");
    await refuse("/api/v1/drains", { apiVersion: "canopy/v1", kind: "Drain", metadata: { name: text }, spec: { link: "n1/eth1", reason: "optics" } }, "metadata.name");
    const topology = (await (await fetch(`${url}/api/v1/topology`)).json()) as { spec: { nodes: object[] } };
    const [node, ...others] = topology.spec.nodes;
    for (const [of, field] of [[{ labels: { rack: text } }, "spec.nodes"], [{ name: text }, "spec"]] as const) {
      const answer = await fetch(`${url}/api/v1/topology`, { method: "PUT", headers: { "content-type": "application/json" }, body: JSON.stringify({ ...topology, spec: { ...topology.spec, nodes: [{ ...node, ...of }, ...others] } }) });
      const { errors = [] } = (await answer.json()) as { errors?: { field: string }[] };
      check((answer.status === 422 || answer.status === 400) && errors.some((error) => error.field.startsWith(field)), `a node with ${JSON.stringify(of)}: ${answer.status} ${JSON.stringify(errors)}`);
    }
    await page.goto(`${url}/groups`);
    await press(page.getByRole("button", { name: "Create…" }));
    const create = page.getByRole("dialog", { name: "Create a group" });
    await page.keyboard.type("g9");
    const labels = create.getByRole("textbox", { name: "Labels" });
    await labels.fill("job=<img/src=x/onerror=window.owned=1>");
    await labels.press("Enter");
    const alert = create.getByRole("alert");
    await alert.getByText("metadata.labels").first().waitFor();
    await harmless("a label of a form");
    // Nor does a page of another origin write here, not even one of the same machine: the browser asks first. Requests that it sends without
    // asking are refused by the controller, which its own tests show.
    const other = createServer((_, response) => response.end("<title>other</title>"));
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const address = other.address();
    await page.goto(`http://127.0.0.1:${typeof address === "object" && address ? address.port : 0}/`);
    const refused = await page.evaluate((to) => fetch(to, { method: "DELETE" }).then(() => false, () => true), `${url}/api/v1/drains/d1`);
    check(refused, "another origin sent a DELETE");
    check((await fetch(`${url}/api/v1/drains/d1`)).ok, "another origin deleted a drain");
    const cors = reported.splice(0);
    check(cors.length > 0 && cors.every((text) => text.includes("CORS policy")), `not refused as of another origin:\n${cors.join("\n")}`);
    await page.goto(url);
    // The page reaches no server but its own, though this one answers: the policy refuses it, and the browser reports that.
    check(reported.length === 0, `the browser reported:\n${reported.join("\n")}`);
    const there = `http://127.0.0.1:${typeof address === "object" && address ? address.port : 0}/`;
    const foreign = await page.evaluate((to) => fetch(to, { mode: "no-cors" }).then(() => "sent", () => "refused"), there);
    other.close();
    check(foreign === "refused", "a request to another origin was sent");
    const policy = reported.splice(0);
    check(policy.some((text) => text.includes("connect-src")) && policy.every((text) => text.includes("Content Security Policy")), `not refused by the policy:\n${policy.join("\n")}`);
  },

  /** Catches a page of the API that its own policy breaks, that asks another origin or asks without a session, and a request that is not sent. */
  async docs(page) {
    const foreign: string[] = [];
    page.on("request", (request) => {
      if (!request.url().startsWith(`${url}/`) && !request.url().startsWith("data:")) foreign.push(request.url());
    });
    await page.goto(`${url}/docs`);
    await page.getByRole("status").getByText("Signed in as").waitFor();
    const operation = page.locator("#operations-groups-listGroups");
    await operation.locator(".opblock-summary-control").first().click();
    await operation.getByRole("button", { name: "Execute" }).click();
    await operation.locator(".live-responses-table").getByText('"GroupList"').first().waitFor();
    await operation.locator(".live-responses-table").getByText("200", { exact: true }).first().waitFor();
    const refused = page.locator("#operations-groups-getGroup");
    await refused.locator(".opblock-summary-control").first().click();
    await refused.getByRole("textbox").first().fill("nothing");
    await refused.getByRole("button", { name: "Execute" }).click();
    await refused.locator(".live-responses-table").getByText("404", { exact: true }).first().waitFor();
    check((await page.locator(".opblock").count()) > 50, "operations are missing");
    check(foreign.length === 0, `asked for ${foreign.join(", ")}`);

    const stranger = await browser.newContext();
    const other = await stranger.newPage();
    other.setDefaultTimeout(DEADLINE);
    const asked: string[] = [];
    other.on("request", (request) => asked.push(new URL(request.url()).pathname));
    await other.goto(`${url}/docs`);
    await other.getByRole("status").getByText("Sign in first").waitFor();
    check(!asked.some((path) => path.startsWith("/api/")), `asked for ${asked.join(", ")} without a session`);
    await signInAt(other, await outside("sign in"));
    await other.locator("#operations-groups-listGroups").waitFor();
    await stranger.close();
  },

  /** Catches a code that works twice or stays where others read it, a page that is shown without a session, and one that is lost by it. */
  // Catches a page that does not work through the proxy of canopyctl: its scripts, its stream of changes, and its writes.
  async proxied(page) {
    const address = await outside("proxy");
    const own = new URL(address).origin;
    check(own !== url, `${address} is the controller's own`);
    const tab = await page.context().newPage();
    tab.setDefaultTimeout(DEADLINE);
    tab.on("pageerror", (error) => reported.push(error.message));
    await signIn(tab, address);
    await live(tab).getByText("live", { exact: true }).waitFor();
    await outside("disconnect n2");
    await tab.getByRole("article", { name: "critical: node n2 has no connection to its agent" }).waitFor();
    const written = await tab.evaluate(async () => {
      const body = JSON.stringify({ apiVersion: "canopy/v1", kind: "Group", metadata: { name: "by-proxy" }, spec: {} });
      const headers = { "content-type": "application/json", Authorization: `Bearer ${sessionStorage.getItem("bearer") ?? ""}` };
      return (await fetch("/api/v1/groups/by-proxy", { method: "PUT", headers, body })).status;
    });
    check(written === 201, `a write was answered ${written}`);
    check((await tab.evaluate(() => fetch("/metrics").then((answer) => answer.status))) === 401, "the proxy lends the rights of its user");
    await tab.goto(`${own}/groups`);
    await tab.getByRole("link", { name: "by-proxy" }).waitFor();
  },
  async signIn(page) {
    const api: string[] = [];
    page.on("request", (request) => {
      const { pathname } = new URL(request.url());
      if (pathname.startsWith("/api/")) api.push(`${request.method()} ${pathname}`);
    });
    await page.goto(`${url}/groups?phase=Ready`);
    const field = page.getByRole("textbox");
    const button = page.getByRole("button", { name: "Sign in" });
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await page.getByText("A code has 22 characters.").waitFor();
    check(await button.isDisabled(), "nothing can be exchanged");
    check(api.length === 0, `asked for ${api.join(", ")} without a session`);
    const found = await violations(page);
    check(found.length === 0, found.join("\n"));
    await field.fill("A".repeat(22));
    await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("CodeNotValid").waitFor();
    const address = await outside("sign in");
    const code = new URL(address).hash.slice(1);
    check(/^[A-Za-z0-9_-]{22}$/.test(code), `${address} has no code`);
    await field.fill(code);
    await button.click();
    await page.getByRole("heading", { level: 1, name: "Groups" }).waitFor();
    await page.getByRole("link", { name: "g1" }).waitFor();
    check(page.url() === `${url}/groups?phase=Ready`, `it came back to ${page.url()}`);
    await live(page).getByText("live", { exact: true }).waitFor();
    const stored = () => page.evaluate(() => ({ cookie: document.cookie, local: localStorage.length, bearer: sessionStorage.getItem("bearer") ?? "" }));
    const { cookie, local, bearer } = await stored();
    check(cookie === "" && local === 0 && bearer.length === 43, "the bearer is not in sessionStorage alone");
    check((await page.context().cookies()).length === 0, "there is a cookie");

    // A link that opens another tab takes the session along.
    const [linked] = await Promise.all([page.context().waitForEvent("page"), page.getByRole("link", { name: "Nodes", exact: true }).click({ modifiers: ["Control"] })]);
    linked.setDefaultTimeout(DEADLINE);
    await linked.getByRole("heading", { level: 1, name: "Nodes" }).waitFor();
    await linked.getByRole("link", { name: "n1" }).waitFor();

    // Without its bearer this origin has no rights either, nor has a session the right to make a code.
    const from = (method: string, path: string, headers: Record<string, string>) =>
      page.evaluate(([m, to, h]) => fetch(to, { method: m, headers: h }).then((answer) => answer.status), [method, path, headers] as const);
    check((await from("GET", "/api/v1/groups", {})) === 401, "a read without a bearer");
    check((await from("DELETE", "/api/v1/groups/g1", {})) === 401, "a write without a bearer");
    check((await from("POST", "/api/v1/sign-in-codes", {})) === 401, "a page made a code");
    check((await from("POST", "/api/v1/sign-in-codes", { Authorization: `Bearer ${bearer}` })) === 403, "a session made a code");

    // The address of canopyctl in another tab: the code is gone from the address bar, and works in no third one.
    const opened = await outside("sign in");
    const second = await page.context().newPage();
    second.setDefaultTimeout(DEADLINE);
    await signIn(second, opened);
    check(second.url() === `${url}/`, `the code is in ${second.url()}`);
    check((await second.evaluate(() => history.length)) <= 2, "the code is an entry of the history");
    await second.goBack();
    await second.goForward();
    check(second.url() === `${url}/`, `the code came back with ${second.url()}`);
    // Another profile of the browser has no tab to get a session from.
    const stranger = await browser.newContext();
    const third = await stranger.newPage();
    third.setDefaultTimeout(DEADLINE);
    await third.goto(opened);
    await third.getByRole("alert").getByText("CodeNotValid").waitFor();
    check(third.url() === `${url}/`, `the used code is in ${third.url()}`);
    // In a tab that has the page already, nothing is loaded.
    await third.goto(await outside("sign in"));
    await third.getByRole("navigation", { name: "Pages" }).waitFor();
    check(third.url() === `${url}/`, `the code is in ${third.url()}`);
    await stranger.close();

    await page.goto(`${url}/links/n1/eth1`);
    await page.getByRole("button", { name: "Drain…" }).click();
    await page.keyboard.type("optics");
    await press(page.getByRole("button", { name: "Check" }));
    await press(page.getByRole("button", { name: "Drain it" }));
    await page.getByRole("heading", { level: 1, name: "Drains" }).waitFor();
    const written = (await (await fetch(`${url}/api/v1/audit?kind=Drain`)).json()) as { items: { by: { kind: string; via?: string } }[] };
    check(written.items[0]?.by.kind === "operator" && written.items[0].by.via === "ui", `the audit has ${JSON.stringify(written.items[0]?.by)}`);
    await page.getByRole("link", { name: "Audit" }).click();
    await page.getByRole("table", { name: "Audit" }).getByText(/\(UI\)$/).first().waitFor();

    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    check((await stored()).bearer === "", "the bearer is still there");
    const ended = await fetch(`${url}/api/v1/groups`, { headers: { authorization: `Bearer ${bearer}` } });
    check(ended.status === 401, `the session is still valid: ${ended.status}`);
    // The tab asks for something, unless the end of its stream came first.
    await linked.evaluate(() => document.querySelector<HTMLElement>('a[href="/links"]')?.click());
    await linked.getByRole("heading", { name: "Sign in" }).waitFor();
    // The other tab has a session of its own.
    await second.getByRole("link", { name: "Nodes" }).click();
    await second.getByRole("heading", { level: 1, name: "Nodes" }).waitFor();
    await second.getByRole("link", { name: "n1" }).waitFor();
    check(api.every((request) => !request.includes(code)), "the code is in a path");
  },

  /**
   * Catches a sign-in by the identity provider that a page of another browser, a used code or another provider's answer passes for, a session
   * that scripts can read or that outlives the role of its group, and a person without a group who gets in.
   */
  async singleSignOn(page) {
    const site = await outside("site");
    await outside("groups alice ops");
    const signInPage = page.getByRole("heading", { name: "Sign in" });
    await page.goto(`${site}/groups?phase=Ready`);
    await signInPage.waitFor();
    await page.getByRole("button", { name: /^Sign in with localhost/ }).waitFor();
    const found = await violations(page);
    check(found.length === 0, found.join("\n"));

    // The page's own answer does not arrive: the test sends others with the same cookie first.
    const path = "/api/v1/single-sign-on/answer";
    let own: Record<string, string> = {};
    await page.route(`**${path}`, async (route) => {
      own = route.request().postDataJSON() as Record<string, string>;
      await route.abort();
    });
    await atProvider(page, "alice");
    await page.getByRole("alert").waitFor();
    check(page.url() === `${site}/groups?phase=Ready`, `the answer is in ${page.url()}`);
    await page.unroute(`**${path}`);
    const of = async (name: string) => (await page.context().cookies(site)).filter((cookie) => cookie.name === name);
    const [begun] = await of("__Host-canopy-sign-in");
    check(begun !== undefined && begun.httpOnly && begun.secure, "the sign-in has no cookie that scripts cannot read");
    for (const changed of [{ state: "A".repeat(43) }, { issuer: "https://other.example" }, { code: "A".repeat(43) }]) {
      const refused = await sent(page, "POST", path, { ...own, ...changed });
      check(refused.status === 401 && refused.text.includes("SignInRefused"), `${JSON.stringify(changed)}: ${refused.status} ${refused.text}`);
    }
    check((await of("__Host-canopy")).length === 0, "a refused sign-in begins a session");
    const accepted = await sent(page, "POST", path, own);
    check(accepted.status === 200 && !accepted.text.includes("bearer"), `${accepted.status} ${accepted.text}`);
    check((await of("__Host-canopy-sign-in")).length === 0, "the cookie of the sign-in stays");
    check((await sent(page, "POST", path, own)).status === 401, "an answer works without its cookie");
    await page.context().addCookies([begun]);
    const replayed = await sent(page, "POST", path, own);
    check(replayed.status === 401 && replayed.text.includes("invalid_grant"), `a used code: ${replayed.status} ${replayed.text}`);

    // The session of the cookie, and its writes.
    await page.reload();
    await page.getByRole("heading", { level: 1, name: "Groups" }).waitFor();
    await live(page).getByText("live", { exact: true }).waitFor();
    const [cookie] = await of("__Host-canopy");
    check(cookie !== undefined && cookie.httpOnly && cookie.secure && cookie.sameSite === "Lax" && cookie.path === "/" && cookie.expires === -1, JSON.stringify(cookie));
    const readable = await page.evaluate(() => `${document.cookie} ${JSON.stringify(sessionStorage)} ${JSON.stringify(localStorage)}`);
    check(!readable.includes(cookie.value) && !readable.includes(own["code"] ?? "?"), "a script can read a secret");
    const written = await sent(page, "PUT", "/api/v1/groups/by-alice", group("by-alice"));
    check(written.status === 201 && written.text.includes("oidc:alice"), `${written.status} ${written.text}`);
    check((await sent(page, "POST", "/api/v1/revocations", { subject: "node/n1" })).status === 403, "an operator revokes");
    const [tab] = await Promise.all([page.context().waitForEvent("page"), page.getByRole("link", { name: "Nodes", exact: true }).click({ modifiers: ["Control"] })]);
    tab.setDefaultTimeout(DEADLINE);
    await tab.getByRole("link", { name: "n1" }).waitFor();
    await tab.close();

    // The group loses its role while the page is open.
    await outside("roles nothing");
    await signInPage.waitFor();
    check((await sent(page, "PUT", "/api/v1/groups/by-alice", group("by-alice"))).status === 401, "the session continues");
    await outside("roles ops");
    check((await sent(page, "PUT", "/api/v1/groups/by-alice", group("by-alice"))).status === 401, "the session came back");
    await atProviderAgain(page, page.getByRole("heading", { level: 1, name: "Groups" }));
    await page.getByRole("button", { name: "Sign out" }).click();
    await signInPage.waitFor();
    check((await of("__Host-canopy")).length === 0, "the cookie stays behind the sign-out");

    // Without a group with a role.
    await outside("groups alice others");
    await atProviderAgain(page, page.getByRole("alert"));
    await page.getByRole("alert").getByText("none of your groups has a role on this controller").waitFor();

    // Without the provider: it is named, and the controller's machine is the way in, which the audit shows.
    await outside("provider stops");
    const named = page.getByRole("alert").getByText(/the identity provider https:\/\/localhost:\d+ cannot be used/);
    const until = Date.now() + DEADLINE;
    do {
      // For 5 s the controller keeps where the provider was, and the browser is sent to an address that does not answer.
      await page.goto(`${site}/groups`);
      await page.getByRole("button", { name: /^Sign in with localhost/ }).click();
    } while (!(await named.waitFor({ timeout: 1000 }).then(() => true, () => false)) && Date.now() < until);
    await named.waitFor();
    await page.getByRole("textbox").fill(await outside("sign in"));
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "Groups" }).waitFor();
    const audit = await page.evaluate(() => fetch("/api/v1/audit?limit=20").then((answer) => answer.text()));
    check(audit.includes("break-glass-session/"), audit);
  },

  /** Catches controls without a name, text without contrast and tables without roles, as axe finds them, on every page in both themes; and what takes a click and has no stop of Tab. */
  async accessible(page) {
    await put("/api/v1/drains/d1", { apiVersion: "canopy/v1", kind: "Drain", metadata: { name: "d1" }, spec: { link: "n1/eth1", reason: "optics" } });
    await outside("disconnect n2");
    await outside("congest");
    const until = Date.now() + DEADLINE;
    const first = async (path: string) => {
      for (;;) {
        const { items } = (await (await fetch(`${url}${path}`)).json()) as { items: { id: string }[] };
        if (items[0]) return items[0].id;
        check(Date.now() < until, `${path} stays empty`);
        await page.waitForTimeout(100);
      }
    };
    const id = await first("/api/v1/problems");
    // It is noted a moment later.
    const incident = await first("/api/v1/incidents");
    const paths = ["/", "/groups", "/groups/g1", "/topology", "/topology?links=queue", "/links", "/links/n1/eth1", "/congestion", "/nodes", "/nodes/n2", "/hosts", "/hosts/r1", "/drains", "/controller", "/events", "/audit", "/audit?hosts=true", "/change-sets", `/problems/${id}`, "/incidents", `/incidents/${incident}`, "/no/such/page"];
    for (const colorScheme of ["dark", "light"] as const) {
      await page.emulateMedia({ colorScheme });
      for (const path of paths) {
        await page.goto(url + path);
        await page.getByRole("heading", { level: 1 }).waitFor();
        await live(page).getByText("live", { exact: true }).waitFor();
        const found = await violations(page);
        check(found.length === 0, `${path}, ${colorScheme}: ${found.join("\n")}`);
        if (colorScheme === "light") continue;
        const without = await unreached(page);
        check(without.length === 0, `${path}: Tab does not come to ${without.join("; ")}`);
      }
    }
  },
};

const run = scenarios[name];
if (!run) throw new Error(`no scenario ${name}`);
// Chromium's own sandbox needs user namespaces, which root in a container does not have.
const browser = await chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] });
try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ignoreHTTPSErrors: name === "singleSignOn" });
  const page = await context.newPage();
  page.setDefaultTimeout(DEADLINE);
  page.on("pageerror", (error) => reported.push(error.message));
  page.on("console", (message) => {
    // A request that fails while the controller is away, or that is refused, is part of scenarios.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) reported.push(message.text());
  });
  try {
    if (name !== "signIn" && name !== "singleSignOn") await signIn(page, await outside("sign in"));
    await run(page);
  } catch (error) {
    console.log(await page.locator("body").innerText().catch(() => ""));
    throw error;
  }
  check(reported.length === 0, `the browser reported:\n${reported.join("\n")}`);
} finally {
  await browser.close();
  process.stdin.destroy();
}
