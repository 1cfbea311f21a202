// SPDX-License-Identifier: Apache-2.0
// What the UI does in Chromium with a real controller: `npm run scenario -- NAME URL`, started by controller/runtime/tests/ui.rs. The line
// `do: ...` asks for something outside of the browser; the answer is a line.
import { createServer } from "node:http";
import { connect, createServer as createConnections, type Socket } from "node:net";
import { chromium, type Page } from "playwright-core";
import { signIn } from "./signIn";
import { check, DEADLINE, group, live, name, noProblem, outside, press, put, reported, url, violations } from "./steps";
import { access } from "./access";
import { books } from "./books";
import { unreached } from "./keys";
import { lab } from "./lab";
import { measuring } from "./measuring";
import { writing } from "./writing";

const scenarios: Record<string, (page: Page) => Promise<void>> = {
  ...access,
  ...books,
  ...lab,
  ...measuring,
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
