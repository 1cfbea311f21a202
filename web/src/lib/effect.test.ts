// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Effect } from "../api/types";
import { effectSentence } from "./effect";

const of = (type: string, from = "", to = "", lossless = true) => effectSentence({ type, object: "Group", name: "g", from, to, lossless } as Effect);

// Catches a move with a gap that is shown as one without loss, and a sentence with an empty place.
it("has what happens, and whether packets are lost", () => {
  expect(of("treeMoves", "n4/eth1", "n4/eth2")).toBe("group g: its tree moves from n4/eth1 to n4/eth2; no packet is lost");
  expect(of("treeMoves", "n4/eth1", "n4/eth2", false)).toBe("group g: its tree moves from n4/eth1 to n4/eth2; packets are lost until it has moved");
  expect(of("treeMoves", "", "n4/eth2")).toBe("group g: its tree grows over n4/eth2");
  expect(of("treeMoves", "n4/eth1")).toBe("group g: its tree leaves n4/eth1");
  expect(of("treeStays", "", "n4/eth1")).toBe("group g: its tree stays on n4/eth1: there is no other way");
  expect(of("treeStops", "", "no way")).toBe("group g: its tree stops, and its receivers get no data: no way");
  expect(of("later")).toBe("Group g: later");
});
