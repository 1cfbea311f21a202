// SPDX-License-Identifier: Apache-2.0
// What the UI does in Chromium with a real controller: `npm run scenario -- NAME URL`, started by controller/runtime/tests/ui.rs. The line
// `do: ...` asks for something outside of the browser; the answer is a line.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { chromium, type Page } from "playwright-core";

const [name = "", url = ""] = process.argv.slice(2);
const DEADLINE = 30_000;
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function outside(what: string): Promise<void> {
  console.log(`do: ${what}`);
  const { done } = await answers.next();
  if (done) throw new Error(`${what}: no answer`);
}

function check(ok: boolean, what: string): asserts ok {
  if (!ok) throw new Error(what);
}

/** What no scenario may end with: errors of the page, and what the content security policy refused. */
const reported: string[] = [];

async function noProblem(page: Page): Promise<void> {
  await page.getByText("No problem is open.").waitFor();
}

const live = (page: Page) => page.getByRole("status", { name: "Connection to the controller" });

const put = async (path: string, body: unknown) => {
  const answer = await fetch(url + path, { method: "PUT", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  check(answer.ok, `PUT ${path}: ${answer.status} ${await answer.text()}`);
};
const group = (of: string) => ({ apiVersion: "canopy/v1", kind: "Group", metadata: { name: of }, spec: {} });

const scenarios: Record<string, (page: Page) => Promise<void>> = {
  /** Catches a page that shows no problem while an agent is away, other words than the API's, and a button that leads nowhere. */
  async lostAgent(page) {
    await page.goto(url);
    await noProblem(page);
    await live(page).getByText("live", { exact: true }).waitFor();
    await outside("disconnect n2");
    const problem = page.getByRole("article", { name: "critical: node n2 has no connection to its agent" });
    await problem.waitFor();
    const listed = (await (await fetch(`${url}/api/v1/problems?root=true`)).json()) as { items: { remedy: string }[] };
    await problem.getByText(listed.items[0]?.remedy ?? "?").waitFor();
    check((await page.title()).startsWith("1 problem"), `the title is ${await page.title()}`);
    await problem.getByRole("link", { name: "Cause and effects" }).click();
    await page.getByRole("heading", { name: "node n2 has no connection to its agent" }).waitFor();
    await page.getByText("No other open problem explains it").waitFor();
    await page.getByRole("link", { name: "Overview" }).click();
    await page.getByRole("link", { name: "Open node n2" }).click();
    await page.getByRole("heading", { level: 1, name: "n2" }).waitFor();
    await page.getByText("not connected", { exact: true }).first().waitFor();
    await outside("connect n2");
    await page.getByText("in sync", { exact: true }).waitFor();
    await page.getByRole("link", { name: "Overview" }).click();
    await noProblem(page);
  },

  /** Catches a list that needs a reload, and one that is read again for every change. */
  async changes(page) {
    await page.goto(`${url}/groups`);
    const row = (of: string) => page.getByRole("row").filter({ has: page.getByRole("link", { name: of, exact: true }) });
    await row("g1").getByText("Ready").waitFor();
    await put("/api/v1/groups/g2", group("g2"));
    await row("g2").getByText("Pending").waitFor();
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
    await page.getByRole("searchbox", { name: "Filter events" }).fill("no event has this");
    await page.getByText("No event passes the filter.").waitFor();
    check(page.url().includes("q=no"), "the filter is not in the URL");
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
    await page.getByRole("table", { name: "Groups" }).getByRole("link", { name: "g1", exact: true }).click();
    await page.waitForURL(`${url}/groups/g1`);
  },

  /** Catches a write without a check, a reason that is not asked for, an error that is not shown, and a step that needs a mouse. */
  async drain(page) {
    await page.goto(`${url}/nodes/n2`);
    const drain = page.getByRole("button", { name: "Drain…" });
    await drain.click({ trial: true });
    await drain.focus();
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog", { name: "Drain node n2" });
    const reason = dialog.getByRole("textbox", { name: /^Reason/ });
    check(await dialog.getByRole("button", { name: "Check" }).isDisabled(), "a drain without a reason can be checked");
    await dialog.getByText("A reason is needed.").waitFor();
    await page.keyboard.type("kernel");
    check((await reason.inputValue()) === "kernel", "the dialog does not begin in its field");
    await page.keyboard.press("Enter");
    await dialog.getByRole("alert").getByText("r1").first().waitFor();
    await dialog.getByRole("checkbox").waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });

    await page.goto(`${url}/links/n1/eth1`);
    // Waits until it can be used.
    await drain.click({ trial: true });
    await drain.focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: "Drain link n1/eth1--n2/eth1" }).waitFor();
    await page.keyboard.type("it's optics");
    await page.getByText(`canopyctl drain link n1/eth1--n2/eth1 --reason 'it'\\''s optics'`).first().waitFor();
    await page.keyboard.press("Enter");
    await page.getByText("The controller accepts it.").waitFor();
    const drains = async () => ((await (await fetch(`${url}/api/v1/drains`)).json()) as { items: { metadata: { name: string }; spec: { reason: string } }[] }).items;
    check((await drains()).length === 0, "the check changed something");
    const spec = { link: "n1/eth1--n2/eth1", reason: "it's optics" };
    const body = JSON.stringify({ apiVersion: "canopy/v1", kind: "Drain", metadata: { name: "n1-eth1" }, spec });
    const dry = await fetch(`${url}/api/v1/drains?dryRun=true`, { method: "POST", headers: { "content-type": "application/json" }, body });
    const { summary } = (await dry.json()) as { summary: string };
    await page.getByRole("status").getByText(`drain/n1-eth1 would be ${summary}.`).waitFor();
    // Another operator takes the group away: what was shown is not what would happen.
    await fetch(`${url}/api/v1/groups/g1`, { method: "DELETE" });
    await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("the effects of this change are no longer those of plan").first().waitFor();
    check((await drains()).length === 0, "a drain with other effects was made");
    await page.getByRole("button", { name: "Check" }).focus();
    await page.keyboard.press("Enter");
    await page.getByText("The controller accepts it.").waitFor();
    await page.getByRole("button", { name: "Drain it" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Drains" }).waitFor();
    await page.getByRole("row", { name: /n1-eth1/ }).getByText("it's optics").waitFor();
    check((await drains())[0]?.spec.reason === "it's optics", "the controller has another drain");
    await page.getByRole("button", { name: "Put back…" }).focus();
    await page.keyboard.press("Enter");
    const end = page.getByRole("dialog", { name: "Put n1-eth1 back into service" });
    await end.getByText("drain/n1-eth1 would be deleted").waitFor();
    await end.getByRole("button", { name: "Put it back" }).focus();
    await page.keyboard.press("Enter");
    await page.getByText("Everything is in service.").waitFor();
    check((await drains()).length === 0, "the drain is still there");
    await page.goto(`${url}/links/n1/eth2`);
    check(await drain.isDisabled(), "a link to a host can be drained");
    await page.getByText("A link to a host cannot be drained").waitFor();
  },

  /** Catches a pending commit that is not shown, a write that is refused without its name, and one of the tab that is no part of its own. */
  async commit(page) {
    const post = async (path: string, body: unknown) => {
      const answer = await fetch(`${url}/api/v1/commit${path}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
      check(answer.ok, `POST ${path}: ${answer.status}`);
      return ((await answer.json()) as { id: string }).id;
    };
    const drains = async () => ((await (await fetch(`${url}/api/v1/drains`)).json()) as { items: unknown[] }).items.length;
    await page.goto(`${url}/links/n1/eth1`);
    await live(page).getByText("live", { exact: true }).waitFor();
    const strip = page.getByRole("region", { name: "Pending commit" });
    check((await strip.count()) === 0, "a commit is shown although none is pending");
    const id = await post("", { timeoutSeconds: 3600 });
    await strip.getByText("Other writes are refused until then.").waitFor();
    await strip.getByText("It has changed nothing yet.").waitFor();
    await page.getByRole("button", { name: "Drain…" }).click();
    await page.keyboard.type("optics");
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog", { name: /^Drain link/ });
    await dialog.getByText("The controller accepts it.").waitFor();
    await dialog.getByRole("button", { name: "Drain it" }).press("Enter");
    await dialog.getByRole("alert").getByText(id).first().waitFor();
    check((await drains()) === 0, "a write beside the pending commit was made");
    await dialog.getByRole("button", { name: "Make this a part of it" }).press("Enter");
    await dialog.getByRole("alert").waitFor({ state: "detached" });
    await dialog.getByRole("button", { name: "Drain it" }).press("Enter");
    await page.getByRole("heading", { level: 1, name: "Drains" }).waitFor();
    await strip.getByText("1 change", { exact: true }).click();
    await strip.getByText("drain/n1-eth1, which is new").waitFor();
    await strip.getByText("Writes of this tab are a part of it.").waitFor();
    check(await strip.getByRole("button", { name: "10 min from now" }).isDisabled(), "a commit with an hour left gets ten minutes");
    await strip.getByText("It has 10 minutes or more.").waitFor();
    await strip.getByRole("button", { name: "Cancel it…" }).press("Enter");
    const cancel = page.getByRole("dialog", { name: `Take commit ${id} back` });
    await cancel.getByText("drain/n1-eth1 is deleted").waitFor();
    check((await drains()) === 1, "showing the rollback rolled it back");
    await cancel.getByRole("button", { name: "Take it back" }).press("Enter");
    await page.getByText("Everything is in service.").waitFor();
    check((await drains()) === 0, "the drain is still there");
    const ended = page.getByRole("region", { name: "Ended commit" });
    await ended.getByText("was cancelled: its changes are taken back").waitFor();
    await ended.getByRole("button", { name: "Dismiss" }).press("Enter");
    await ended.waitFor({ state: "detached" });

    // One that this tab begins, gets more time for, and confirms.
    await page.getByRole("link", { name: "Links" }).click();
    await page.getByRole("link", { name: "n1/eth1", exact: true }).click();
    await page.getByRole("button", { name: "Drain…" }).click();
    await page.keyboard.type("optics");
    await page.getByRole("button", { name: "Begin a commit" }).press("Enter");
    await dialog.getByText(/^This becomes a part of commit/).waitFor();
    await dialog.getByRole("button", { name: "Check" }).press("Enter");
    await dialog.getByRole("button", { name: "Drain it" }).press("Enter");
    await strip.getByText("1 change", { exact: true }).waitFor();
    const own = ((await (await fetch(`${url}/api/v1/commit`)).json()) as { id: string }).id;
    await post("/extend", { id: own, timeoutSeconds: 40 });
    await strip.getByText(/^\d+ s$/).waitFor();
    await strip.getByRole("button", { name: "10 min from now" }).press("Enter");
    await strip.getByText(/^(10 min|9 min \d+ s)$/).waitFor();
    await strip.getByRole("button", { name: "Confirm" }).press("Enter");
    await ended.getByText("was confirmed: its changes stay").waitFor();
    check((await drains()) === 1, "the drain is gone");
    // The ended commit is not named any more.
    await page.getByRole("button", { name: "Put back…" }).press("Enter");
    await page.getByRole("button", { name: "Put it back" }).press("Enter");
    await page.getByText("Everything is in service.").waitFor();
  },

  /** Catches a filter that is not in the URL, an entry without its values, and an undo of what another operator has changed meanwhile. */
  async audit(page) {
    const labels = async () => ((await (await fetch(`${url}/api/v1/groups/g1`)).json()) as { metadata: { labels: Record<string, string> } }).metadata.labels;
    const label = (of: Record<string, string>) => put("/api/v1/groups/g1", { ...group("g1"), metadata: { name: "g1", labels: of } });
    await label({ job: "llm" });
    await page.goto(`${url}/audit`);
    const rows = page.getByRole("table", { name: "Audit" }).getByRole("row");
    await rows.filter({ hasText: "topology/default" }).first().waitFor();
    await page.getByRole("combobox", { name: "Action" }).selectOption("update");
    await rows.filter({ hasText: "topology/default" }).first().waitFor({ state: "detached" });
    check(page.url().includes("action=update"), "the filter is not in the URL");
    await page.getByText("canopyctl audit --action update").first().waitFor();
    await page.goto(`${url}/audit?kind=Drain`);
    await page.getByText("No write that is kept passes the filter.").waitFor();
    await page.goto(`${url}/audit?kind=Group&name=g1&within=1h`);
    const open = page.getByRole("button", { name: "update group/g1: open" });
    await open.first().press("Enter");
    const shown = page.getByRole("dialog", { name: "update group/g1" });
    const field = shown.getByRole("row", { name: /\/metadata\/labels\/job/ });
    await field.getByText("llm").waitFor();
    await field.getByText("nothing").waitFor();
    await shown.getByRole("button", { name: "Undo…" }).press("Enter");
    const undo = page.getByRole("dialog", { name: "Undo update of group/g1" });
    await undo.getByText("canopyctl undo group g1 --to 1").first().waitFor();
    await undo.getByRole("row", { name: /\/metadata\/labels\/job/ }).getByText("llm").waitFor();
    // Another operator is faster.
    await label({ job: "hpc" });
    await undo.getByRole("button", { name: "Put it back" }).press("Enter");
    await undo.getByRole("alert").getByText(/read it again/).waitFor();
    check((await labels())["job"] === "hpc", "the write of another operator was taken back");
    await undo.getByRole("button", { name: "Cancel" }).press("Enter");
    await undo.waitFor({ state: "detached" });
    await open.last().press("Enter");
    await shown.getByRole("button", { name: "Undo…" }).press("Enter");
    await undo.getByText("This also takes back 1 later write.").waitFor();
    await undo.getByRole("button", { name: "Put it back" }).press("Enter");
    await undo.waitFor({ state: "detached" });
    check((await labels())["job"] === undefined, "the label is still there");
    check((await open.count()) >= 2, "entries are gone");
    await page.goto(`${url}/audit?kind=Group&action=create`);
    await page.getByRole("button", { name: "create group/g1: open" }).press("Enter");
    await page.getByText("there is nothing before it").waitFor();
    check(await page.getByRole("button", { name: "Undo…" }).isDisabled(), "a creation has an undo");
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
    await live(page).getByText("live", { exact: true }).waitFor();
    await page.getByRole("link", { name: "g2" }).waitFor();
    check((await page.evaluate(() => performance.timeOrigin)) === loaded, "the page was loaded again");
  },

  /** Catches text of an operator that becomes markup, in a page or in a command. */
  async markup(page) {
    const text = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;
    await put("/api/v1/drains/d1", { apiVersion: "canopy/v1", kind: "Drain", metadata: { name: "d1" }, spec: { link: "n1/eth1", reason: text } });
    await page.goto(`${url}/drains`);
    await page.getByRole("table", { name: "Drains" }).getByText(text).waitFor();
    await page.goto(`${url}/events?q=${encodeURIComponent(text)}`);
    await page.getByText("No event passes the filter.").waitFor();
    check((await page.getByRole("searchbox").inputValue()) === text, "the filter is not the one of the URL");
    await page.goto(`${url}/groups/${encodeURIComponent(text)}`);
    await page.getByRole("alert").waitFor();
    check(!(await page.title()).includes("owned"), "markup ran");
    check((await page.locator("img[src=x]").count()) === 0, "markup became an element");
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

  /** Catches controls without a name, text without contrast and tables without roles, as axe finds them, on every page in both themes. */
  async accessible(page) {
    await put("/api/v1/drains/d1", { apiVersion: "canopy/v1", kind: "Drain", metadata: { name: "d1" }, spec: { link: "n1/eth1", reason: "optics" } });
    await outside("disconnect n2");
    const axe = readFileSync("node_modules/axe-core/axe.min.js", "utf8");
    const problems = async () => ((await (await fetch(`${url}/api/v1/problems`)).json()) as { items: { id: string }[] }).items;
    const until = Date.now() + DEADLINE;
    while ((await problems()).length === 0 && Date.now() < until) await page.waitForTimeout(100);
    const id = (await problems())[0]?.id ?? "";
    check(id !== "", "no problem has opened");
    const paths = ["/", "/groups", "/groups/g1", "/topology", "/links", "/links/n1/eth1", "/nodes", "/nodes/n2", "/hosts", "/hosts/r1", "/drains", "/events", "/audit", `/problems/${id}`, "/no/such/page"];
    for (const colorScheme of ["dark", "light"] as const) {
      await page.emulateMedia({ colorScheme });
      for (const path of paths) {
        await page.goto(url + path);
        await page.getByRole("heading", { level: 1 }).waitFor();
        await live(page).getByText("live", { exact: true }).waitFor();
        await page.evaluate(axe);
        const found = await page.evaluate(async () => {
          const { axe: runner } = window as unknown as { axe: { run: () => Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> } };
          return (await runner.run()).violations.map((v) => `${v.id}: ${v.nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`);
        });
        check(found.length === 0, `${path}, ${colorScheme}: ${found.join("\n")}`);
      }
    }
  },
};

const run = scenarios[name];
if (!run) throw new Error(`no scenario ${name}`);
// Chromium's own sandbox needs user namespaces, which root in a container does not have.
const browser = await chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] });
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  page.setDefaultTimeout(DEADLINE);
  page.on("pageerror", (error) => reported.push(error.message));
  page.on("console", (message) => {
    // A request that fails while the controller is away, or that is refused, is part of scenarios.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) reported.push(message.text());
  });
  try {
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
