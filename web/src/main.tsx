// SPDX-License-Identifier: Apache-2.0
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { LiveStream } from "./api/live";
import { LiveContext } from "./api/useLive";
import { startClock } from "./lib/clock";
import { makeRouter } from "./router";
import "./style.css";

// What is in the cache follows the stream, so it does not become stale by itself. A browser without a network still reaches the controller.
const queries = new QueryClient({
  defaultOptions: {
    queries: { staleTime: Infinity, retry: 1, refetchOnWindowFocus: false, networkMode: "always" },
    mutations: { networkMode: "always" },
  },
});
const live = new LiveStream(queries);
const router = makeRouter(queries);
startClock();
live.start();

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <LiveContext value={live}>
          <RouterProvider router={router} />
        </LiveContext>
      </QueryClientProvider>
    </StrictMode>,
  );
}
