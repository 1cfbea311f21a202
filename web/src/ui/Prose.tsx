// SPDX-License-Identifier: Apache-2.0
import { quoted } from "../lib/problem";

/** A text of the controller, with what it has in backticks as code. */
export function Prose({ text }: { text: string }) {
  return <>{quoted(text).map((part, at) => (at % 2 ? <code key={at}>{part}</code> : part))}</>;
}
