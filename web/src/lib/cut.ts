// SPDX-License-Identifier: Apache-2.0
// What a cell has in its title.

/** The whole text of an element that shows only the beginning of it; `null` if all of it is seen, or if a part has a title of its own. */
export function cutText(of: Pick<Element, "scrollWidth" | "clientWidth" | "textContent" | "querySelector">): string | null {
  return of.scrollWidth > of.clientWidth && !of.querySelector("[title]") ? (of.textContent ?? "").trim() : null;
}
