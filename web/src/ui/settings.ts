// SPDX-License-Identifier: Apache-2.0
// Choices of this browser: theme, zone.
import { useSyncExternalStore } from "react";

type Theme = "system" | "dark" | "light";
const listeners = new Set<() => void>();
const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

function write(key: string, value: string): void {
  localStorage.setItem(key, value);
  for (const listener of listeners) listener();
}

export function setTheme(theme: Theme): void {
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
  write("theme", theme);
}

export const useTheme = (): Theme =>
  useSyncExternalStore(subscribe, () => {
    const kept = localStorage.getItem("theme");
    return kept === "dark" || kept === "light" ? kept : "system";
  });

export const setUtc = (utc: boolean): void => write("zone", utc ? "utc" : "local");
export const useUtc = (): boolean => useSyncExternalStore(subscribe, () => localStorage.getItem("zone") !== "local");
