// SPDX-License-Identifier: Apache-2.0
import { useSyncExternalStore, type ReactNode } from "react";
import { controllerNow, everySecond } from "../lib/clock";
import { age, instant } from "../lib/format";
import { isLate } from "../lib/late";
import { useUtc } from "./settings";

/** How long ago an instant was, and the instant on hover. */
export function Age({ since }: { since: number }) {
  const now = useSyncExternalStore(everySecond, controllerNow);
  const utc = useUtc();
  return (
    <time className="num" title={instant(since, utc)}>
      {age(now - since)}
    </time>
  );
}

/** An instant. In a table of a narrow screen it is without year and zone, which the top bar has. */
export function Instant({ at }: { at: number }) {
  const utc = useUtc();
  const text = instant(at, utc);
  const [, year = "", middle = text, zone = ""] = /^(\d{4}-)?(.*?)( UTC)?$/.exec(text) ?? [];
  return (
    <time className="num" title={text}>
      <span className="spare">{year}</span>
      {middle}
      <span className="spare">{zone}</span>
    </time>
  );
}

/** An age that the API gave; grey once it is old. */
export function ReportedAgo({ ns }: { ns: number | null | undefined }) {
  if (ns === null || ns === undefined) return <span className="faint">never reported</span>;
  return <span className={isLate(ns) ? "num stale" : "num"}>{age(ns)} ago</span>;
}

/** A value that an agent reported; grey once that is old, with its age in the title. */
export function Reported({ ns, children }: { ns: number | null | undefined; children: ReactNode }) {
  if (ns === null || ns === undefined || !isLate(ns)) return <>{children}</>;
  return <span className="stale" title={`reported ${age(ns)} ago`}>{children}</span>;
}
