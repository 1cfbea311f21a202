// SPDX-License-Identifier: Apache-2.0
// The dialog of an action that was found by its name, on whatever page that was.
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import * as queries from "./api/queries";
import type { Action } from "./lib/search";

const GroupDialog = lazy(() => import("./pages/groups/GroupDialog").then((module) => ({ default: module.GroupDialog })));
const TopologyDialog = lazy(() => import("./pages/topology/TopologyDialog").then((module) => ({ default: module.TopologyDialog })));
const DrainDialog = lazy(() => import("./pages/drains/DrainDialog").then((module) => ({ default: module.DrainDialog })));
const PutBackDialog = lazy(() => import("./pages/drains/PutBackDialog").then((module) => ({ default: module.PutBackDialog })));

interface Props {
  action: Action;
  onClose: () => void;
}

export function Acting({ action, onClose }: Props) {
  return (
    <Suspense fallback={null}>
      {action.do === "createGroup" && <GroupDialog onClose={onClose} />}
      {action.do === "declareTopology" && <TopologyDialog onClose={onClose} />}
      {action.do === "drainNode" && <DrainDialog target={{ node: action.node }} onClose={onClose} />}
      {action.do === "putBack" && <PutBack name={action.drain} onClose={onClose} />}
    </Suspense>
  );
}

function PutBack({ name, onClose }: { name: string; onClose: () => void }) {
  const drain = useQuery(queries.drains).data?.find(({ metadata }) => metadata.name === name);
  return drain ? <PutBackDialog drain={drain} onClose={onClose} /> : null;
}
