// SPDX-License-Identifier: Apache-2.0
// Filters that this browser keeps: one is chosen by its name, the present one is saved, or forgotten.
import { useState, type FormEvent } from "react";
import { forgetFilter, saveFilter, savedAs, savedFilters, type GroupFilter } from "../../lib/savedFilters";

interface Props {
  filter: GroupFilter;
  onChoose: (filter: GroupFilter) => void;
}

export function SavedFilters({ filter, onChoose }: Props) {
  const [all, setAll] = useState(() => savedFilters());
  const [name, setName] = useState<string | null>(null);
  const chosen = savedAs(filter, all);
  const isSet = Object.values(filter).some(Boolean);
  const save = (event: FormEvent) => {
    event.preventDefault();
    saveFilter(name ?? "", filter);
    setAll(savedFilters());
    setName(null);
  };
  return (
    <>
      {all.length > 0 && (
        <select aria-label="Saved filters" value={chosen?.name ?? ""} onChange={(event) => onChoose(all.find((one) => one.name === event.target.value)?.filter ?? {})}>
          <option value="">{isSet && !chosen ? "not saved" : "saved filters"}</option>
          {all.map((one) => (
            <option key={one.name}>{one.name}</option>
          ))}
        </select>
      )}
      {chosen && isSet && (
        <button
          type="button"
          onClick={() => {
            forgetFilter(chosen.name);
            setAll(savedFilters());
          }}
        >
          Forget {chosen.name}
        </button>
      )}
      {isSet && !chosen && name === null && <button type="button" onClick={() => setName("")}>Save filter…</button>}
      {name !== null && (
        <form className="tools" onSubmit={save}>
          {/* What was asked for by the button before it. */}
          {/* eslint-disable-next-line jsx-a11y/no-autofocus */}
          <input autoFocus aria-label="Name of the filter" placeholder="name" maxLength={40} value={name} onChange={(event) => setName(event.target.value)} />
          <button type="submit" disabled={!name.trim()} title={name.trim() ? undefined : "A name is needed."}>Save</button>
          <button type="button" onClick={() => setName(null)}>Cancel</button>
        </form>
      )}
    </>
  );
}
