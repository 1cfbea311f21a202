// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { inWords, own, within } from "./metrics";

const TEXT = `# HELP canopy_controller_term Term that this controller took at its start.
# TYPE canopy_controller_term gauge
canopy_controller_term 3
canopy_groups{phase="Ready"} 12
canopy_problem_active{code="LinkLossy",severity="warning",kind="link",object="a b{c} 7"} 1
canopy_intent_to_kernel_seconds_bucket{le="0.001"} 0
canopy_intent_to_kernel_seconds_bucket{le="0.01"} 98
canopy_intent_to_kernel_seconds_bucket{le="2.5"} 99
canopy_intent_to_kernel_seconds_bucket{le="+Inf"} 100
canopy_intent_to_kernel_seconds_count 100
canopy_charts_series 42
`;

// Catches a comment that is read as a series, and one of a node that becomes one of the controller.
it("has the series of the controller alone", () => {
  expect([...own(TEXT).values]).toEqual([["canopy_controller_term", 3], ["canopy_intent_to_kernel_seconds_count", 100], ["canopy_charts_series", 42]]);
  expect(own("").times).toEqual([]);
});

// Catches a mean of times, and the bound below.
it("has a bound for a share of the changes", () => {
  const { times } = own(TEXT);
  expect([within(times, 0.5), within(times, 0.98), within(times, 0.99), within(times, 1)]).toEqual([0.01, 0.01, 2.5, Infinity]);
  expect([within([], 0.5), within([[1, 0], [Infinity, 0]], 0.5)]).toEqual([null, null]);
});

// Catches "within more than a minute".
it("writes how long a share took", () => {
  expect(inWords("half", 0.01)).toBe("half within 10 ms");
  expect(inWords("half", Infinity)).toBe("half in more than a minute");
  expect(inWords("half", null)).toBe("half –");
});
