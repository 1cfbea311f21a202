// SPDX-License-Identifier: Apache-2.0
// The button for a remedy that names a drain.
import { lazy, Suspense, useState } from "react";
import type { Problem } from "../../api/types";
import { drainOf } from "../../lib/drain";

// Not part of the first view.
const DrainDialog = lazy(() => import("../drains/DrainDialog").then((module) => ({ default: module.DrainDialog })));

export function DrainNow({ problem }: { problem: Problem }) {
  const [isOpen, setOpen] = useState(false);
  const target = drainOf(problem);
  if (!target) return null;
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>Drain…</button>
      {isOpen && (
        <Suspense fallback={null}>
          <DrainDialog target={target} onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  );
}
