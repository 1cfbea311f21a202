// SPDX-License-Identifier: Apache-2.0
// What operators know of a problem: who, what and until when.
import type { SilenceRef } from "../api/types";
import { known } from "../lib/silence";
import { Instant } from "./Age";

export function Known({ silence }: { silence: SilenceRef }) {
  return (
    <>
      {known(silence)}, {silence.untilUnixNs ? <>until <Instant at={silence.untilUnixNs} /></> : "until it ends"}
    </>
  );
}
