// SPDX-License-Identifier: Apache-2.0
// An identity provider for tests, which others have written: node e2e/provider.mjs CERTIFICATE KEY REDIRECT... prints its issuer, and takes lines
// `NAME GROUP...`, which give a person groups.
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import { createInterface } from "node:readline";
import Provider from "oidc-provider";

const [certificate, key, ...redirects] = process.argv.slice(2);
const groups = new Map();
const server = createServer({ cert: readFileSync(certificate), key: readFileSync(key) });
server.listen(0, "127.0.0.1", () => {
  const issuer = `https://localhost:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{ client_id: "canopy", client_secret: "a secret of the test", redirect_uris: redirects, response_types: ["code"], grant_types: ["authorization_code"] }],
    // The name and the groups are in the ID token.
    claims: { openid: ["sub", "groups"], profile: ["preferred_username"] },
    conformIdTokenClaims: false,
    pkce: { required: () => true },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, preferred_username: id, groups: groups.get(id) ?? [] }) }),
  });
  server.on("request", provider.callback());
  console.log(issuer);
});
createInterface({ input: process.stdin }).on("line", (line) => {
  const [name, ...of] = line.split(" ");
  groups.set(name, of);
  console.log("done");
});
