// SPDX-License-Identifier: Apache-2.0
// Pages of this UI, as the router has them: a name with any character is a parameter, never a part of a text.
import type { PAGES } from "../pages";

export type Place =
  | { to: (typeof PAGES)[number][0] }
  | { to: "/groups/$group"; params: { group: string } }
  | { to: "/nodes/$node"; params: { node: string } }
  | { to: "/hosts/$host"; params: { host: string } }
  | { to: "/links/$node/$port"; params: { node: string; port: string } }
  | { to: "/problems/$id"; params: { id: string } }
  | { to: "/incidents/$incident"; params: { incident: string } }
  | { to: "/change-sets/$set"; params: { set: string } };
