// SPDX-License-Identifier: Apache-2.0
import { useCallback, useMemo } from "react";
import { useTelemetry } from "../../api/useTelemetry";
import type { Group, GroupSample } from "../../api/types";
import { controllerNow } from "../../lib/clock";
import { GroupFlow } from "../../lib/groupFlow";

/** The samples of a group's nodes, read while the page shows it. Parts of the page subscribe; React's state has none of them. */
export function useGroupFlow({ metadata, status }: Group): GroupFlow {
  const { tree } = status;
  const flow = useMemo(() => new GroupFlow(tree), [tree]);
  const onSamples = useCallback((samples: GroupSample[]) => flow.update(samples, controllerNow()), [flow]);
  useTelemetry(metadata.name, onSamples);
  return flow;
}
