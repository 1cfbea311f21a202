// SPDX-License-Identifier: Apache-2.0
// "Since your last visit": what has happened while Overview was not on the screen of this browser.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import * as queries from "../../api/queries";
import { controllerNow } from "../../lib/clock";
import { lastVisit, noteVisit, since } from "../../lib/visit";
import { Age } from "../../ui/Age";

const NO_FILTER = {};

export function SinceVisit() {
  // Of when the page was opened: while it is on the screen, this is a visit.
  const [at] = useState(() => lastVisit(controllerNow()));
  useEffect(() => {
    const note = () => noteVisit(controllerNow());
    const hidden = () => {
      if (document.visibilityState === "hidden") note();
    };
    document.addEventListener("visibilitychange", hidden);
    return () => {
      document.removeEventListener("visibilitychange", hidden);
      note();
    };
  }, []);
  return at === null ? null : <Happened at={at} />;
}

function Happened({ at }: { at: number }) {
  const incidents = useQuery(queries.incidents).data;
  const audit = useInfiniteQuery(queries.audit(NO_FILTER));
  const writes = audit.data?.pages.flatMap((page) => page.items);
  if (!incidents || !writes) return null;
  const happened = since(at, incidents, writes, audit.hasNextPage);
  return (
    <p>
      Since your last visit, <Age since={at} /> ago: <Link to="/incidents">{happened.problems}</Link>; <Link to="/audit">{happened.writes}</Link>.
    </p>
  );
}
