// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { sidesWithMore } from "./sides";

it("has the sides where more follows, and none for a part of a pixel", () => {
  const at = (scrollLeft: number, scrollWidth: number) => sidesWithMore({ scrollLeft, scrollWidth, clientWidth: 1000 });
  expect([at(0, 1000), at(0, 1001), at(0, 1300), at(150, 1300), at(299.5, 1300)]).toEqual(["none", "none", "right", "both", "left"]);
});
