// SPDX-License-Identifier: Apache-2.0
// Scenarios in which an operator writes: forms, drains, silences, confirmed commits, undo.
import type { Page } from "playwright-core";
import { enter, tabTo } from "./keys";
import { check, group, live, noProblem, outside, press, put, url, violations } from "./steps";

export const writing: Record<string, (page: Page) => Promise<void>> = {

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
    await page.getByRole("combobox", { name: "Lasts" }).selectOption("1 hour");
    await page.getByText(`--reason 'it'\\''s optics' --for 1h`).first().waitFor();
    await page.getByText(/^Until \d{4}-.*Z; then the controller puts it back\.$/).waitFor();
    await page.getByRole("combobox", { name: "Lasts" }).selectOption("until an operator puts it back");
    await page.getByRole("textbox", { name: /^Reason/ }).focus();
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
    // On its own page the link is put back, too, and its node is not drained.
    await page.goto(`${url}/links/n2/eth1`);
    await page.getByText("drained: it's optics").waitFor();
    await page.getByRole("button", { name: "Put back…" }).waitFor();
    await page.goto(`${url}/nodes/n1`);
    await drain.click({ trial: true });
    await page.goto(`${url}/links/n1/eth1`);
    await press(page.getByRole("button", { name: "Put back…" }));
    const end = page.getByRole("dialog", { name: "Put n1-eth1 back into service" });
    await end.getByText("drain/n1-eth1 would be deleted").waitFor();
    await end.getByRole("button", { name: "Put it back" }).focus();
    await page.keyboard.press("Enter");
    await end.waitFor({ state: "detached" });
    await drain.click({ trial: true });
    check((await drains()).length === 0, "the drain is still there");
    await page.goto(`${url}/drains`);
    await page.getByText("Everything is in service.").waitFor();
    await page.goto(`${url}/links/n1/eth2`);
    check(await drain.isDisabled(), "a link to a host can be drained");
    await page.getByText("A link to a host cannot be drained").waitFor();
  },

  /** Catches a control that Tab does not reach, a stop without a ring or outside of the screen, and a dialog that cannot be left by keys. Every step is a key. */
  async keyboard(page) {
    await page.goto(url);
    await live(page).getByText("live", { exact: true }).waitFor();
    const heading = (name: string) => page.getByRole("heading", { level: 1, name, exact: true });
    await enter(page, /^Groups$/);
    await heading("Groups").waitFor();
    await page.getByRole("link", { name: "g1", exact: true }).waitFor();
    await enter(page, /^Create…$/);
    const create = page.getByRole("dialog", { name: "Create a group" });
    await create.waitFor();
    await page.keyboard.type("keys");
    await tabTo(page, /^Stall policy$/);
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await enter(page, /^Check$/);
    await create.getByText("group/keys would be created").waitFor();
    await enter(page, /^Create it$/);
    await heading("keys").waitFor();
    check((await fetch(`${url}/api/v1/groups/keys`)).ok, "the group is not there");
    const { spec } = (await (await fetch(`${url}/api/v1/groups/keys`)).json()) as { spec: { stallPolicy: string } };
    check(spec.stallPolicy === "evict", `the arrows chose ${spec.stallPolicy}`);

    // Its page, from the list; the rail is passed over.
    await enter(page, /^Groups$/);
    await heading("Groups").waitFor();
    await page.getByRole("link", { name: "keys", exact: true }).waitFor();
    await enter(page, /^keys$/);
    await heading("keys").waitFor();
    await page.getByText("No host has joined yet").waitFor();

    await enter(page, /^Nodes$/);
    await heading("Nodes").waitFor();
    await page.getByRole("link", { name: "n2", exact: true }).waitFor();
    await enter(page, /^n2$/);
    await heading("n2").waitFor();
    await enter(page, /^Drain…$/);
    const drain = page.getByRole("dialog", { name: "Drain node n2" });
    await drain.waitFor();
    await page.keyboard.type("kernel");
    await page.keyboard.press("Enter");
    await drain.getByRole("checkbox").waitFor();
    await tabTo(page, /^Drain it although hosts behind it lose their groups$/);
    await page.keyboard.press("Space");
    await enter(page, /^Check$/);
    await drain.getByRole("button", { name: "Drain it" }).waitFor();
    await enter(page, /^Drain it$/);
    await heading("Drains").waitFor();
    await page.getByRole("row", { name: /^n2 / }).getByText("kernel").waitFor();
    await enter(page, /^Put back…$/);
    const end = page.getByRole("dialog", { name: "Put n2 back into service" });
    await end.getByText("drain/n2 would be deleted").waitFor();
    await enter(page, /^Put it back$/);
    await page.getByText("Everything is in service.").waitFor();

    // A search is begun and left by keys from anywhere.
    await page.keyboard.press("Control+k");
    await page.getByRole("dialog", { name: "Search" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  },

  /** Catches an error that is not at its field, a form that writes what was not checked, one that takes the write of another operator back, and a step that needs a mouse. */
  async groupForms(page) {
    const read = async (path: string) => (await fetch(`${url}/api/v1/groups${path}`)).json() as Promise<{ metadata: { labels: Record<string, string> }; spec: Record<string, unknown>; items: { spec: { host: string } }[] }>;
    const members = async () => (await read("/g3/members")).items.map((member) => member.spec.host).join();
    await page.goto(`${url}/groups`);
    await press(page.getByRole("button", { name: "Create…" }));
    const create = page.getByRole("dialog", { name: "Create a group" });
    await create.getByText("A name is needed.").waitFor();
    check(await create.getByRole("button", { name: "Check" }).isDisabled(), "a group without a name can be checked");
    await page.keyboard.type("G3");
    await create.getByRole("textbox", { name: "Receivers to begin with" }).fill("0");
    await page.keyboard.press("Enter");
    const name = create.getByRole("textbox", { name: "Name" });
    await create.getByText(/^"G3" is not a name/).waitFor();
    check((await name.getAttribute("aria-invalid")) === "true" && (await name.evaluate((field) => field === document.activeElement)), "the refused field is not marked, or not chosen");
    check((await create.getByRole("textbox", { name: "Receivers to begin with" }).getAttribute("aria-invalid")) === "true", "the other refused field is not marked");
    await name.fill("g3");
    await create.getByRole("textbox", { name: "Receivers to begin with" }).fill("1");
    await create.getByRole("combobox", { name: "Path MTU" }).selectOption("1024");
    await create.getByText('{"apiVersion":"canopy/v1","kind":"Group","metadata":{"name":"g3"},"spec":{"pathMtu":1024,"minReceivers":1}}').waitFor();
    const found = await violations(page);
    check(found.length === 0, found.join("\n"));
    await name.press("Enter");
    await create.getByText("group/g3 would be created; no node or tree changes.").waitFor();
    check((await fetch(`${url}/api/v1/groups/g3`)).status === 404, "the check created it");
    // What was checked is not what would be sent: it is checked again.
    await create.getByRole("textbox", { name: "Labels" }).fill("job=llm");
    await press(create.getByRole("button", { name: "Check" }));
    await press(create.getByRole("button", { name: "Create it" }));
    await page.getByRole("heading", { level: 1, name: "g3" }).waitFor();
    check((await read("/g3")).metadata.labels["job"] === "llm", "the group has no label");

    const join = page.getByRole("dialog", { name: "Join group g3" });
    const joins = async (host: string, qpn: string, sentence: RegExp) => {
      await press(page.getByRole("button", { name: "Join…" }));
      await page.keyboard.type(host);
      await join.getByRole("textbox", { name: "QPN" }).fill(qpn);
      await page.keyboard.press("Enter");
      await join.getByText(sentence).waitFor();
    };
    await joins("r9", "17", /^unknown host "r9"/);
    check((await join.getByRole("combobox", { name: "Role" }).inputValue()) === "source", "the first member is not the source");
    const host = join.getByRole("combobox", { name: "Host" });
    check((await host.getAttribute("aria-invalid")) === "true", "the host is not marked");
    await host.fill("s1");
    await press(join.getByRole("button", { name: "Check" }));
    await press(join.getByRole("button", { name: "Join", exact: true }));
    await join.waitFor({ state: "detached" });
    await page.getByRole("table", { name: "Members" }).getByText("s1", { exact: true }).waitFor();
    await joins("r1", "0x12", /^group g3: its tree starts over /);
    await press(join.getByRole("button", { name: "Join", exact: true }));
    await page.getByRole("img", { name: /^r1 receiver: / }).waitFor();
    check((await members()) === "r1,s1", `the members are ${await members()}`);

    await press(page.getByRole("button", { name: "Edit…" }));
    const edit = page.getByRole("dialog", { name: "Edit group g3" });
    // Queue pairs have been set up with it.
    await edit.getByRole("combobox", { name: "Path MTU" }).selectOption("2048");
    await press(edit.getByRole("button", { name: "Check" }));
    await edit.getByText(/^2048 is not 1024, and members have set up their QPs/).waitFor();
    await edit.getByRole("combobox", { name: "Path MTU" }).selectOption("1024");
    await press(edit.getByRole("button", { name: "Check" }));
    await edit.getByText("Nothing would change.").waitFor();
    check(await edit.getByRole("button", { name: "Save" }).isDisabled(), "nothing can be saved");
    await edit.getByRole("combobox", { name: "Stall policy" }).selectOption("evict");
    await press(edit.getByRole("button", { name: "Check" }));
    await edit.getByRole("row", { name: /\/spec\/stallPolicy/ }).getByText("evict").waitFor();
    await put("/api/v1/groups/g3", { ...group("g3"), spec: { pathMtu: 1024, maxFlight: 1000 } });
    await press(edit.getByRole("button", { name: "Save" }));
    await edit.getByRole("alert").getByText(/read it again/).waitFor();
    check((await read("/g3")).spec["maxFlight"] === 1000, "the write of another operator was taken back");
    await press(edit.getByRole("button", { name: "Cancel" }));
    await press(page.getByRole("button", { name: "Edit…" }));
    check((await edit.getByRole("textbox", { name: "Packets in flight" }).inputValue()) === "1000", "the form has an old value");
    await edit.getByRole("combobox", { name: "Stall policy" }).selectOption("evict");
    await press(edit.getByRole("button", { name: "Check" }));
    await press(edit.getByRole("button", { name: "Save" }));
    await edit.waitFor({ state: "detached" });
    check((await read("/g3")).spec["stallPolicy"] === "evict", "the policy was not saved");

    await press(page.getByRole("button", { name: "Remove r1…" }));
    const remove = page.getByRole("dialog", { name: "Remove r1 from group g3" });
    await remove.getByText("canopyctl delete member r1 -g g3").first().waitFor();
    await remove.getByText(/^group g3: /).first().waitFor();
    check((await members()) === "r1,s1", "the check removed it");
    await press(remove.getByRole("button", { name: "Remove it" }));
    await remove.waitFor({ state: "detached" });
    check((await members()) === "s1", `the members are ${await members()}`);
    await press(page.getByRole("button", { name: "Delete…" }));
    const away = page.getByRole("dialog", { name: "Delete group g3" });
    await away.getByText("group/g3 would be deleted").waitFor();
    await press(away.getByRole("button", { name: "Delete it" }));
    await page.waitForURL(`${url}/groups`);
    await page.getByRole("link", { name: "g3", exact: true }).waitFor({ state: "detached" });
    check((await fetch(`${url}/api/v1/groups/g3`)).status === 404, "the group is still there");
  },

  /** Catches an empty domain that leaves its operator alone, a topology that is written without a check, and an absence that is not noticed. */
  async firstSteps(page) {
    const topology = (await (await fetch(`${url}/api/v1/topology`)).json()) as { spec: unknown };
    for (const path of ["/api/v1/groups/g1", "/api/v1/topology"]) {
      const answer = await fetch(url + path, { method: "DELETE" });
      check(answer.ok, `DELETE ${path}: ${answer.status} ${await answer.text()}`);
    }
    await page.goto(url);
    const steps = page.getByRole("region", { name: "First steps" });
    await steps.getByText("to do").nth(3).waitFor();
    check((await steps.getByText("done", { exact: true }).count()) === 0, "a step is done in an empty domain");
    const declare = page.getByRole("dialog", { name: "Declare the network" });
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: /^Name of a page/ }).fill("declare");
    await page.getByRole("option", { name: "action Declare topology", selected: true }).waitFor();
    await page.keyboard.press("Enter");
    await declare.waitFor();
    await page.keyboard.press("Escape");
    await declare.waitFor({ state: "detached" });
    await press(steps.getByRole("button", { name: "Declare…" }));
    await declare.getByText("It is empty.").waitFor();
    const text = declare.getByRole("textbox", { name: "Topology, JSON" });
    await text.fill("nodes:");
    await declare.getByText(/^It is no JSON: /).waitFor();
    await text.fill('{"nodes": [{"name": "n1", "id": 0}], "hosts": [], "links": []}');
    await press(declare.getByRole("button", { name: "Check" }));
    await declare.getByRole("alert").getByText("spec.nodes[0]").first().waitFor();
    await text.fill(JSON.stringify(topology.spec));
    await press(declare.getByRole("button", { name: "Check" }));
    await declare.getByText("node n1 is added").waitFor();
    check((await fetch(`${url}/api/v1/topology`)).status === 404, "the check declared it");
    const found = await violations(page);
    check(found.length === 0, found.join("\n"));
    await press(declare.getByRole("button", { name: "Declare it" }));
    await declare.waitFor({ state: "detached" });
    await steps.getByText("2 nodes, ").waitFor();
    await press(steps.getByRole("button", { name: "Create…" }));
    await page.getByRole("dialog", { name: "Create a group" }).waitFor();
    await page.keyboard.type("first");
    await page.keyboard.press("Enter");
    await page.getByText("group/first would be created").waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "first" }).waitFor();
    await page.evaluate(() => localStorage.setItem("visit", String((Date.now() - 600_000) * 1e6)));
    await page.goto(url);
    await page.getByText(/^Since your last visit, 1\d min ago: /).waitFor();
    await page.getByRole("link", { name: /^\d+ writes$/ }).waitFor();
    // This is a visit now.
    await page.getByRole("link", { name: "Nodes", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "Nodes" }).waitFor();
    await page.getByRole("link", { name: "Overview" }).click();
    await noProblem(page);
    check(await page.getByText(/^Since your last visit/).isHidden(), "an absence of seconds is one");
  },

  /** Catches an acknowledgement that needs a reload to be seen, and one that can be written without a note. */
  async acknowledge(page) {
    await outside("disconnect n2");
    await page.goto(url);
    const problem = page.getByRole("article", { name: /critical: node n2/ });
    await problem.getByRole("button", { name: "Acknowledge…" }).focus();
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog", { name: "Acknowledge a problem" });
    check(await dialog.getByRole("button", { name: "Acknowledge" }).isDisabled(), "it can be acknowledged without a note");
    await page.keyboard.type("it's the fans");
    await dialog.getByText(`--note 'it'\\''s the fans'`).first().waitFor();
    await page.keyboard.press("Enter");
    await dialog.waitFor({ state: "detached" });
    await problem.getByText("it's the fans, until it ends").waitFor();
    await page.getByRole("status").getByText("1 root problem, all known to operators", { exact: true }).waitFor();
    const status = (await (await fetch(`${url}/api/v1/status`)).json()) as { silenced: number };
    check(status.silenced === 1, "the controller does not know it");
    await press(problem.getByRole("button", { name: "Unsilence…" }));
    const end = page.getByRole("dialog", { name: /^End silence problem-/ });
    await press(end.getByRole("button", { name: "End it" }));
    await problem.getByRole("button", { name: "Acknowledge…" }).waitFor();
    await page.getByRole("status").getByText("1 root problem", { exact: true }).waitFor();
    // All problems of an object, from its page.
    await page.goto(`${url}/nodes/n2`);
    await press(page.getByRole("button", { name: "Silence…" }));
    const silence = page.getByRole("dialog", { name: "Silence node n2" });
    await page.keyboard.type("new kernel");
    await silence.getByRole("combobox", { name: "Lasts" }).selectOption("1 hour");
    await silence.getByText("canopyctl silence node n2 --note 'new kernel' --for 1h").waitFor();
    check((await silence.getByRole("combobox", { name: "Lasts" }).getByRole("option", { name: "until the problem ends" }).count()) === 0, "a silence of an object without an end");
    await press(silence.getByRole("button", { name: "Silence it" }));
    const noted = page.getByRole("note").filter({ hasText: "new kernel, until" });
    await noted.waitFor();
    check(((await (await fetch(`${url}/api/v1/status`)).json()) as { silenced: number }).silenced === 1, "the controller does not know it");
    const found = await violations(page);
    check(found.length === 0, found.join("\n"));
    await press(noted.getByRole("button", { name: "Unsilence…" }));
    await press(page.getByRole("dialog", { name: "End silence node-n2" }).getByRole("button", { name: "End it" }));
    await noted.waitFor({ state: "detached" });
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
    await press(dialog.getByRole("button", { name: "Drain it" }));
    await dialog.getByRole("alert").getByText(id).first().waitFor();
    check((await drains()) === 0, "a write beside the pending commit was made");
    await press(dialog.getByRole("button", { name: "Make this a part of it" }));
    await dialog.getByRole("alert").waitFor({ state: "detached" });
    await press(dialog.getByRole("button", { name: "Drain it" }));
    await page.getByRole("heading", { level: 1, name: "Drains" }).waitFor();
    await strip.getByText("1 change", { exact: true }).click();
    await strip.getByText("drain/n1-eth1, which is new").waitFor();
    await strip.getByText("Writes of this tab are a part of it.").waitFor();
    check(await strip.getByRole("button", { name: "10 min from now" }).isDisabled(), "a commit with an hour left gets ten minutes");
    await strip.getByText("It has 10 minutes or more.").waitFor();
    await press(strip.getByRole("button", { name: "Cancel it…" }));
    const cancel = page.getByRole("dialog", { name: `Take commit ${id} back` });
    await cancel.getByText("drain/n1-eth1 is deleted").waitFor();
    check((await drains()) === 1, "showing the rollback rolled it back");
    await press(cancel.getByRole("button", { name: "Take it back" }));
    await page.getByText("Everything is in service.").waitFor();
    check((await drains()) === 0, "the drain is still there");
    const ended = page.getByRole("region", { name: "Ended commit" });
    await ended.getByText("was cancelled: its changes are taken back").waitFor();
    await press(ended.getByRole("button", { name: "Dismiss" }));
    await ended.waitFor({ state: "detached" });

    // One that this tab begins, gets more time for, and confirms.
    await page.getByRole("link", { name: "Links" }).click();
    await page.getByRole("link", { name: "n1/eth1", exact: true }).click();
    await page.getByRole("button", { name: "Drain…" }).click();
    await page.keyboard.type("optics");
    await press(page.getByRole("button", { name: "Begin a commit" }));
    await dialog.getByText(/^This becomes a part of commit/).waitFor();
    await press(dialog.getByRole("button", { name: "Check" }));
    await press(dialog.getByRole("button", { name: "Drain it" }));
    await strip.getByText("1 change", { exact: true }).waitFor();
    const own = ((await (await fetch(`${url}/api/v1/commit`)).json()) as { id: string }).id;
    await post("/extend", { id: own, timeoutSeconds: 40 });
    // A key that is pressed on a disabled button is lost; the age of the commit is also a number of seconds.
    await strip.getByText("It has 10 minutes or more.").waitFor({ state: "detached" });
    await press(strip.getByRole("button", { name: "10 min from now" }));
    await strip.getByText(/^(10 min|9 min \d+ s)$/).waitFor();
    await press(strip.getByRole("button", { name: "Confirm" }));
    await ended.getByText("was confirmed: its changes stay").waitFor();
    check((await drains()) === 1, "the drain is gone");
    // The ended commit is not named any more.
    await press(page.getByRole("button", { name: "Put back…" }));
    await press(page.getByRole("button", { name: "Put it back" }));
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
    await press(shown.getByRole("button", { name: "Undo…" }));
    const undo = page.getByRole("dialog", { name: "Undo update of group/g1" });
    await undo.getByText("canopyctl undo group g1 --to 1").first().waitFor();
    await undo.getByRole("row", { name: /\/metadata\/labels\/job/ }).getByText("llm").waitFor();
    // Another operator is faster.
    await label({ job: "hpc" });
    await press(undo.getByRole("button", { name: "Put it back" }));
    await undo.getByRole("alert").getByText(/read it again/).waitFor();
    check((await labels())["job"] === "hpc", "the write of another operator was taken back");
    await press(undo.getByRole("button", { name: "Cancel" }));
    await undo.waitFor({ state: "detached" });
    await open.last().press("Enter");
    await press(shown.getByRole("button", { name: "Undo…" }));
    await undo.getByText("This also takes back 1 later write.").waitFor();
    await press(undo.getByRole("button", { name: "Put it back" }));
    await undo.waitFor({ state: "detached" });
    check((await labels())["job"] === undefined, "the label is still there");
    check((await open.count()) >= 2, "entries are gone");
    await page.goto(`${url}/audit?kind=Group&action=create`);
    await press(page.getByRole("button", { name: "create group/g1: open" }));
    await page.getByText("there is nothing before it").waitFor();
    check(await page.getByRole("button", { name: "Undo…" }).isDisabled(), "a creation has an undo");
  },
};
