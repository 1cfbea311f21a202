// SPDX-License-Identifier: Apache-2.0
import { useState } from "react";

/** Copies a text; whether it was copied just now. */
function useCopy(text: string | (() => string)): [boolean, () => Promise<void>] {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(typeof text === "string" ? text : text());
    setCopied(true);
    window.setTimeout(() => setCopied(false), 1500);
  };
  return [copied, copy];
}

/** Copies a text that is too long to be shown, or is made when it is copied. */
export function CopyButton({ text, label, name, quiet = false }: { text: string | (() => string); label: string; name?: string; quiet?: boolean }) {
  const [copied, copy] = useCopy(text);
  return (
    <button type="button" className={quiet ? "quiet" : undefined} aria-label={copied ? undefined : name} onClick={() => void copy()}>
      {copied ? "Copied" : label}
    </button>
  );
}

/** A command that does the same as what is shown, to copy. */
export function Command({ line }: { line: string }) {
  const [copied, copy] = useCopy(line);
  return (
    <span className="command">
      <code>{line}</code>
      <button type="button" className="quiet" onClick={() => void copy()} aria-label={`Copy ${line}`}>
        {copied ? "copied" : "copy"}
      </button>
    </span>
  );
}

/** An address, SID or number in monospace; a click copies it. */
export function Mono({ children }: { children: string | number }) {
  const text = String(children);
  return (
    <button type="button" className="mono" title={`${text} – click to copy`} onClick={() => void navigator.clipboard.writeText(text)}>
      {text}
    </button>
  );
}
