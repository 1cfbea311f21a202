// SPDX-License-Identifier: Apache-2.0
// Scenarios of the two books: change sets, which operators send, and the joins and leaves of hosts.
import type { Page } from "playwright-core";
import { check, group, outside, press, url, violations } from "./steps";

export const books: Record<string, (page: Page) => Promise<void>> = {
  /** Catches a change set that needs a reload to be seen, one without its resources, and an undo that hides what it left. */
  async changeSet(page) {
    await page.goto(`${url}/change-sets`);
    await page.getByText("No change set is kept.").waitFor();
    await page.getByText("canopyctl apply -f groups.yaml").first().waitFor();
    const items = Array.from({ length: 40 }, (_, at) => group(`m${at}`));
    const sent = await fetch(`${url}/api/v1/change-sets`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ items }) });
    const answer = await sent.text();
    check(sent.status === 202, `${sent.status} ${answer}`);
    const { id } = JSON.parse(answer) as { id: string };
    const row = page.getByRole("table", { name: "Change sets" }).getByRole("row").filter({ hasText: id });
    await row.getByText("Applied").waitFor();
    await row.getByText("40/40").waitFor();
    await press(row.getByRole("link", { name: id }));
    await page.getByText("40 of 40 resources, 40 created, 0 updated").waitFor();
    await page.getByText(`canopyctl change-set show ${id}`).first().waitFor();
    const written = page.getByRole("table", { name: "Audit" });
    await written.getByRole("button", { name: "create group/m39: open" }).waitFor();
    // The entries of the set and no others: those of the lab's own topology are older.
    await page.getByText("41 writes, the newest first").waitFor();
    const found = await violations(page);
    check(found.length === 0, found.join("\n"));

    await fetch(`${url}/api/v1/groups/m5`, { method: "DELETE" });
    await press(page.getByRole("button", { name: "Undo…" }));
    const undo = page.getByRole("dialog", { name: `Take change set ${id} back` });
    await undo.getByText("40 resources that it created are deleted, the last one first.").waitFor();
    await undo.getByText(`canopyctl change-set undo ${id}`).first().waitFor();
    check((await fetch(`${url}/api/v1/groups/m7`)).ok, "showing the undo carried it out");
    await press(undo.getByRole("button", { name: "Take it back" }));
    await undo.waitFor({ state: "detached" });
    await page.getByText(/: 39 of 40 resources put back$/).waitFor();
    await page.getByRole("list", { name: "Refused" }).getByText(/^group\/m5 was not put back: /).waitFor();
    check(await page.getByRole("button", { name: "Undo…" }).isDisabled(), "what was taken back is taken back again");
    await page.getByText("It was taken back.").waitFor();
    check((await fetch(`${url}/api/v1/groups/m7`)).status === 404, "a resource of it is still there");
    // From the entry of the audit that began it.
    await page.goto(`${url}/audit?kind=ChangeSet&action=begin`);
    await page.getByText("canopyctl audit --kind change-set --action begin").first().waitFor();
    await press(page.getByRole("button", { name: `begin changeset/${id}: open` }));
    await press(page.getByRole("link", { name: /^The change set/ }));
    await page.getByRole("heading", { level: 1, name: id }).waitFor();
  },

  /** Catches joins that are missing, that are shown as writes of operators, and a filter of one book that stays in the other. */
  async joins(page) {
    await page.goto(`${url}/audit?kind=Group`);
    const rows = page.getByRole("table", { name: "Audit" });
    await rows.getByRole("button", { name: "create group/g1: open" }).waitFor();
    await page.getByRole("combobox", { name: "Whose writes" }).selectOption("joins and leaves of hosts");
    await page.getByText("No host has joined or left a group yet.").waitFor();
    await page.waitForURL(`${url}/audit?hosts=true`);
    await page.getByText("canopyctl audit --hosts", { exact: true }).first().waitFor();
    await outside("join r2 20");
    await page.reload();
    await rows.getByRole("button", { name: "join member/g1/r2: open" }).waitFor();
    await rows.getByRole("row", { name: /member\/g1\/r2/ }).getByText("1", { exact: true }).waitFor();
    await press(rows.getByRole("button", { name: "join member/g1/r2: open" }));
    const entry = page.getByRole("dialog", { name: "join member/g1/r2" });
    await entry.getByText(/host r2/).waitFor();
    const found = await violations(page);
    check(found.length === 0, found.join("\n"));
    await press(entry.getByRole("button", { name: "Close" }));
    await page.getByRole("combobox", { name: "Action" }).selectOption("leave");
    await page.getByText("No write that is kept passes the filter.").waitFor();
    // From the page of one host.
    await page.goto(`${url}/hosts/r2`);
    await press(page.getByRole("link", { name: "Joins and leaves of this host" }));
    await rows.getByRole("button", { name: "join member/g1/r2: open" }).waitFor();
    await page.getByRole("combobox", { name: "Whose writes" }).selectOption("of operators");
    await page.waitForURL(`${url}/audit?by=r2`);
  },
};
