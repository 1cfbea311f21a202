// SPDX-License-Identifier: Apache-2.0
// Where the explanation of a word stands on the screen.

interface Size {
  width: number;
  height: number;
}

interface Box extends Size {
  left: number;
  top: number;
}

/** From the edges of the screen. */
const EDGE = 8;
const GAP = 4;

/** Left and top of a box below a word, or above it where there is no room below; never over the edge of the screen while it fits. */
export function below(word: Box, box: Size, screen: Size): [left: number, top: number] {
  const left = Math.max(EDGE, Math.min(word.left, screen.width - box.width - EDGE));
  const under = word.top + word.height + GAP;
  const over = word.top - box.height - GAP;
  return [left, under + box.height + EDGE > screen.height && over >= EDGE ? over : under];
}
