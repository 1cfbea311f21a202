// SPDX-License-Identifier: Apache-2.0
import { createContext, useContext, useSyncExternalStore } from "react";
import type { Live, LiveStream } from "./live";

export const LiveContext = createContext<LiveStream | null>(null);

const none: Live = { phase: "connecting", lastAt: 0 };
const never = () => () => undefined;

/** Whether this browser receives from the controller. */
export function useLive(): Live {
  const stream = useContext(LiveContext);
  return useSyncExternalStore(stream?.subscribe ?? never, stream?.snapshot ?? (() => none));
}
