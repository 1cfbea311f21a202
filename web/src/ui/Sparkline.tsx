// SPDX-License-Identifier: Apache-2.0
// A small line without axes: what a number was over the last minutes. Its shape is written as data comes, past React.
import { useEffect, useRef } from "react";
import { spark, type ChartData } from "../lib/chart";
import type { Feed } from "./Chart";

interface Props {
  data: Feed;
  series: string;
  /** Writes the number next to the line, from what is known. */
  write: (data: ChartData) => string;
}

export const SPARK = { width: 160, height: 28 };

export function Sparkline({ data, series, write }: Props) {
  const line = useRef<SVGPathElement>(null);
  const number = useRef<HTMLSpanElement>(null);
  useEffect(
    () =>
      data.subscribe((shown) => {
        const points = shown.series.find((one) => one.name === series)?.points ?? [];
        line.current?.setAttribute("d", spark(points, SPARK.width, SPARK.height));
        if (number.current) number.current.textContent = write(shown);
      }),
    [data, series, write],
  );
  return (
    <span className="spark">
      <span ref={number} className="num">–</span>
      <svg {...SPARK} aria-hidden="true">
        <path ref={line} />
      </svg>
    </span>
  );
}
