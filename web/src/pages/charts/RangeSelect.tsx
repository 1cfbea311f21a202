// SPDX-License-Identifier: Apache-2.0
// How far back the charts of a page go; part of its URL.
import type { RangeName } from "../../api/charts";

interface Props {
  range: RangeName | undefined;
  onChange: (range: RangeName | undefined) => void;
}

export function RangeSelect({ range, onChange }: Props) {
  return (
    <select aria-label="Time range of the charts" value={range ?? "5m"} onChange={(event) => onChange(event.target.value === "1h" ? "1h" : undefined)}>
      <option value="5m">last 5 min, by 1 s</option>
      <option value="1h">last hour, by 10 s</option>
    </select>
  );
}
