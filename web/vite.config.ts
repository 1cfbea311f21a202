// SPDX-License-Identifier: Apache-2.0
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// A development server takes the API from a controller that runs elsewhere on this machine.
const controller = process.env["CANOPY_SERVER"] ?? "http://127.0.0.1:8640";

export default defineConfig({
  plugins: [react()],
  build: {
    // The controller embeds this directory; it is checked in, and `make web` compares it with the sources.
    outDir: "dist",
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    // A data: URL would need an exception in the content security policy.
    assetsInlineLimit: 0,
    rolldownOptions: {
      output: {
        // Libraries change seldom, so that their file stays in the browser's cache, and in git.
        // What draws charts is read with the first chart.
        codeSplitting: { groups: [{ name: "vendor", test: /node_modules\/(?!uplot\/)/ }] },
      },
    },
  },
  worker: { format: "es" },
  server: { proxy: { "/api": controller, "/readyz": controller, "/version": controller, "/metrics": controller } },
  test: { include: ["src/**/*.test.ts"] },
});
