// SPDX-License-Identifier: Apache-2.0
// A label selector: what is entered is a chip, which a click takes away. The controller finds the groups.
import { useState, type FormEvent } from "react";

interface Props {
  selector: string | undefined;
  /** Labels that groups have, to choose from. */
  known: readonly string[];
  onChange: (selector: string | undefined) => void;
}

export function LabelFilter({ selector, known, onChange }: Props) {
  const [text, setText] = useState("");
  if (selector) {
    return (
      <button type="button" aria-label={`Remove the filter label ${selector}`} onClick={() => onChange(undefined)}>
        label {selector} ×
      </button>
    );
  }
  const enter = (event: FormEvent) => {
    event.preventDefault();
    if (text.trim()) onChange(text.trim());
    setText("");
  };
  return (
    <form onSubmit={enter}>
      <input type="search" aria-label="Label selector; Enter applies it" title="Such as team=storage, or job in (a,b); Enter applies it." placeholder="label=value" list="labels" value={text} onChange={(event) => setText(event.target.value)} />
      <datalist id="labels">
        {known.map((label) => (
          <option key={label} value={label} />
        ))}
      </datalist>
    </form>
  );
}
