// SPDX-License-Identifier: Apache-2.0
// Starts the worker that lays the map out and draws it. The policy of the page wants a trusted URL for a script; this one is of the build.
import address from "./mapWorker?worker&url";
import { TabWorker } from "./TabWorker";

interface TrustedTypes {
  createPolicy: (name: string, rules: { createScriptURL: (url: string) => string }) => { createScriptURL: (url: string) => string };
}

const { trustedTypes } = globalThis as unknown as { trustedTypes?: TrustedTypes };
const policy = trustedTypes?.createPolicy("canopy-map", {
  createScriptURL: (url) => {
    if (url !== address) throw new TypeError(`${url} is no script of the map`);
    return url;
  },
});

export const tabWorker = new TabWorker(() => new Worker(policy ? policy.createScriptURL(address) : address, { type: "module" }));
