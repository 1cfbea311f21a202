// SPDX-License-Identifier: Apache-2.0
// The colour tokens for what is drawn on a canvas.

/** Tokens as colours of the scheme in force. A canvas does not read `light-dark()`, so the one of the scheme is taken out of it. */
export function colours(): (token: string) => string {
  const style = getComputedStyle(document.documentElement);
  const forced = document.documentElement.dataset["theme"];
  const isDark = forced ? forced === "dark" : DARK.matches;
  return (token) => {
    const value = style.getPropertyValue(token).trim();
    const both = /^light-dark\(([^,]+),([^)]+)\)$/.exec(value);
    return both ? ((isDark ? both[2] : both[1])?.trim() ?? "") : value;
  };
}

/** Calls back when another scheme is in force. Returns what ends that. */
export function onTheme(listener: () => void): () => void {
  DARK.addEventListener("change", listener);
  const attribute = new MutationObserver(listener);
  attribute.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  return () => {
    DARK.removeEventListener("change", listener);
    attribute.disconnect();
  };
}

const DARK = window.matchMedia("(prefers-color-scheme: dark)");
