// SPDX-License-Identifier: Apache-2.0
/** The pages of the rail, with their paths. */
export const PAGES = [
  ["/", "Overview"],
  ["/groups", "Groups"],
  ["/topology", "Topology"],
  ["/links", "Links"],
  ["/congestion", "Congestion"],
  ["/nodes", "Nodes"],
  ["/hosts", "Hosts"],
  ["/drains", "Drains"],
  ["/controller", "Controller"],
  ["/incidents", "Incidents"],
  ["/events", "Events"],
  ["/audit", "Audit"],
  ["/change-sets", "Change sets"],
] as const;

/** Those that a session with roles in tenants alone has. */
export const OF_TENANTS: readonly string[] = ["/groups", "/events", "/audit", "/change-sets"];
