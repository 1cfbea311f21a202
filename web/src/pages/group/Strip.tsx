// SPDX-License-Identifier: Apache-2.0
// A cell per second of the last 5 minutes: the darker, the more the source waited for this receiver. Drawn as samples come, past React.
import { useEffect, useRef } from "react";
import type { ChartFeed } from "../../api/charts";
import { inWords, type Shares } from "../../lib/strip";
import { colours, onTheme } from "../../ui/tokens";

interface Props {
  host: string;
  feed: ChartFeed;
}

export function Strip({ host, feed }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    let shares: Shares | undefined;
    const show = () => {
      if (!canvas.current) return;
      draw(canvas.current, shares ?? []);
      canvas.current.setAttribute("aria-label", inWords(host, shares));
    };
    const ends = [
      feed.subscribe((data) => {
        shares = data.series.find((series) => series.name === host)?.points.map((point) => point?.[0] ?? null);
        show();
      }),
      onTheme(show),
    ];
    return () => ends.forEach((end) => end());
  }, [host, feed]);
  return <canvas ref={canvas} role="img" aria-label={`${host}: reading`} className="seconds" />;
}

function draw(canvas: HTMLCanvasElement, shares: Shares): void {
  const context = canvas.getContext("2d");
  if (!context) return;
  const ratio = window.devicePixelRatio;
  [canvas.width, canvas.height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
  context.fillStyle = colours()("--accent");
  const width = canvas.width / Math.max(1, shares.length);
  shares.forEach((share, at) => {
    if (!share) return;
    context.globalAlpha = share;
    context.fillRect(at * width, 0, Math.max(1, width), canvas.height);
  });
}
