// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { cutText } from "./cut";

const cell = (scrollWidth: number, titled: boolean) => ({ scrollWidth, clientWidth: 80, textContent: " spine101/eth25 ", querySelector: () => (titled ? ({} as Element) : null) }) as unknown as Element;

// Catches a name that cannot be read to its end.
it("has the whole text of what is cut, and nothing of what is seen or has a title", () => {
  expect(cutText(cell(81, false))).toBe("spine101/eth25");
  expect(cutText(cell(80, false))).toBe(null);
  expect(cutText(cell(81, true))).toBe(null);
});
