// SPDX-License-Identifier: Apache-2.0
import { useEffect } from "react";
import { groupTelemetry } from "./queries";
import type { GroupSample } from "./types";

/** Nodes send a sample a second. */
const EVERY = 1000;

/** Reads a group's samples once a second while the tab is visible and passes them on before the next frame, not through React's state. */
export function useTelemetry(group: string, onSamples: (samples: GroupSample[]) => void): void {
  useEffect(() => {
    let ended = false;
    let timer: number | undefined;
    const read = async () => {
      if (document.visibilityState === "visible") {
        try {
          const samples = await groupTelemetry(group);
          requestAnimationFrame(() => {
            if (!ended) onSamples(samples);
          });
        } catch {
          // Nothing new: the values are drawn again with their age.
          if (!ended) onSamples([]);
        }
      }
      if (!ended) timer = window.setTimeout(() => void read(), EVERY);
    };
    void read();
    return () => {
      ended = true;
      window.clearTimeout(timer);
    };
  }, [group, onSamples]);
}
