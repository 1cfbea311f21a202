// SPDX-License-Identifier: Apache-2.0
// The button for a remedy that is a drain.
import { lazy, Suspense, useState } from "react";
import type { Problem } from "../../api/types";

// Not part of the first view.
const DrainDialog = lazy(() => import("../drains/DrainDialog").then((module) => ({ default: module.DrainDialog })));

export function DrainNow({ problem }: { problem: Problem }) {
  const [isOpen, setOpen] = useState(false);
  const link = problem.drainLink;
  if (!link) return null;
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>Drain…</button>
      {isOpen && (
        <Suspense fallback={null}>
          <DrainDialog target={{ link }} onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  );
}
