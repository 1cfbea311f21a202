// SPDX-License-Identifier: Apache-2.0
import { quoted } from "../lib/problem";

/** A text of the controller; commands in backticks look like commands. */
export function Prose({ text }: { text: string }) {
  return <>{quoted(text).map((part, at) => (at % 2 ? <code key={at}>{part}</code> : part))}</>;
}
