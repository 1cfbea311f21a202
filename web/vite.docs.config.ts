// SPDX-License-Identifier: Apache-2.0
// The page /docs, which has nothing in common with the web UI: no page of that loads a file of this.
import { defineConfig } from "vite";

export default defineConfig({
  root: "docs",
  base: "/docs/",
  publicDir: false,
  build: { outDir: "../dist/docs", emptyOutDir: true, modulePreload: { polyfill: false }, assetsInlineLimit: 0, chunkSizeWarningLimit: 2000 },
});
