// SPDX-License-Identifier: Apache-2.0
import { MutationCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import { ApiError } from "./api/client";
import { LiveStream } from "./api/live";
import { RETRY } from "./api/retry";
import { onSession, takeCode, takeProviderAnswer, useSignedInAs } from "./api/session";
import { setOwnCommit } from "./api/tab";
import { shareSession } from "./api/tabs";
import { LiveContext } from "./api/useLive";
import { startClock } from "./lib/clock";
import { makeRouter } from "./router";
import { SignIn } from "./SignIn";
import "./style.css";

// Before anything else, so that no other code sees it.
const answer = takeProviderAnswer();
const first = takeCode();

// What is in the cache follows the stream, so it does not become stale by itself. A browser without a network still reaches the controller.
const queries: QueryClient = new QueryClient({
  mutationCache: new MutationCache({
    onError: (error) => {
      // A write was refused for a commit that this tab has not seen yet, or that has ended: the strip shows it.
      const code = error instanceof ApiError ? error.document?.code : undefined;
      if (code === "CommitEnded") setOwnCommit(null);
      if (code === "CommitPending" || code === "CommitEnded") void queries.invalidateQueries({ queryKey: ["status"] });
    },
  }),
  defaultOptions: {
    queries: { staleTime: Infinity, ...RETRY, refetchOnWindowFocus: false, networkMode: "always" },
    mutations: { networkMode: "always" },
  },
});
const live = new LiveStream(queries);
const router = makeRouter(queries);
startClock();
live.start();
shareSession(first === null);
// What was read goes with the session that read it.
onSession(() => queries.getQueryCache().clear());

function App() {
  const [code, setCode] = useState(first);
  const signedInAs = useSignedInAs();
  // An address with a code, opened in this tab, loads nothing anew.
  useEffect(() => {
    const take = () => setCode((old) => takeCode() ?? old);
    window.addEventListener("hashchange", take);
    return () => window.removeEventListener("hashchange", take);
  }, []);
  return signedInAs === null ? <SignIn code={code} answer={answer} /> : <RouterProvider router={router} />;
}

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <LiveContext value={live}>
          <App />
        </LiveContext>
      </QueryClientProvider>
    </StrictMode>,
  );
}
