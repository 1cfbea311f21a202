// SPDX-License-Identifier: Apache-2.0
// Scenarios of who gets in, and how: sessions, an identity provider, the UI behind canopyctl, and /docs.
import type { Locator, Page } from "playwright-core";
import { signIn } from "./signIn";
import { check, DEADLINE, group, live, outside, press, reported, stranger, url, violations } from "./steps";

/** As a code that is opened at /docs itself. */
async function signInAt(page: Page, address: string): Promise<void> {
  await page.goto(`${url}/docs${new URL(address).hash}`);
  await page.reload();
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

export const access: Record<string, (page: Page) => Promise<void>> = {
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

    const profile = await stranger(page);
    const other = await profile.newPage();
    other.setDefaultTimeout(DEADLINE);
    const asked: string[] = [];
    other.on("request", (request) => asked.push(new URL(request.url()).pathname));
    await other.goto(`${url}/docs`);
    await other.getByRole("status").getByText("Sign in first").waitFor();
    check(!asked.some((path) => path.startsWith("/api/")), `asked for ${asked.join(", ")} without a session`);
    await signInAt(other, await outside("sign in"));
    await other.locator("#operations-groups-listGroups").waitFor();
    await profile.close();
  },

  /** Catches a page that does not work through the proxy of canopyctl: its scripts, its stream of changes, and its writes. */
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

  /** Catches a code that works twice or stays where others read it, a page that is shown without a session, and one that is lost by it. */
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
    const profile = await stranger(page);
    const third = await profile.newPage();
    third.setDefaultTimeout(DEADLINE);
    await third.goto(opened);
    await third.getByRole("alert").getByText("CodeNotValid").waitFor();
    check(third.url() === `${url}/`, `the used code is in ${third.url()}`);
    // In a tab that has the page already, nothing is loaded.
    await third.goto(await outside("sign in"));
    await third.getByRole("navigation", { name: "Pages" }).waitFor();
    check(third.url() === `${url}/`, `the code is in ${third.url()}`);
    await profile.close();

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
};
