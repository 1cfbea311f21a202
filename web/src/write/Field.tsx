// SPDX-License-Identifier: Apache-2.0
// One field of a form: its label, its control, and what is wrong with it, as the form or the controller has found.
import { createContext, useContext, useId, type ReactNode } from "react";
import type { Wrong } from "../lib/form";

/** What the form itself misses, and what the controller refused. */
export const FormErrors = createContext<{ missing: Wrong; refused: Wrong }>({ missing: {}, refused: {} });

export interface ControlProps {
  id: string;
  "aria-describedby": string;
  "aria-invalid": boolean;
}

interface Props {
  name: string;
  label: string;
  hint?: string | undefined;
  children: (props: ControlProps) => ReactNode;
}

export function Field({ name, label, hint, children }: Props) {
  const id = useId();
  const { missing, refused } = useContext(FormErrors);
  const wrong = refused[name];
  const note = missing[name] ?? hint;
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({ id, "aria-describedby": `${id}-why`, "aria-invalid": wrong !== undefined })}
      <span id={`${id}-why`}>
        {wrong !== undefined && <span className="error">{wrong}</span>}
        {wrong === undefined && note !== undefined && <span className="faint">{note}</span>}
      </span>
    </div>
  );
}

interface TextProps extends Omit<Props, "children"> {
  value: string;
  onChange: (value: string) => void;
  placeholder?: string;
  first?: boolean;
  /** Id of a list of values to choose from. */
  list?: string;
}

export function TextField({ value, onChange, placeholder, first, list, ...field }: TextProps) {
  return (
    <Field {...field}>
      {(props) => (
        // eslint-disable-next-line jsx-a11y/no-autofocus -- the dialog was opened to fill it
        <input {...props} list={list} autoFocus={first} autoComplete="off" spellCheck={false} placeholder={placeholder} value={value} onChange={(event) => onChange(event.target.value)} />
      )}
    </Field>
  );
}

export function AreaField({ value, onChange, ...field }: Omit<TextProps, "first" | "list" | "placeholder">) {
  return (
    <Field {...field}>
      {/* eslint-disable-next-line jsx-a11y/no-autofocus -- the dialog was opened to fill it */}
      {(props) => <textarea {...props} className="wide" rows={10} autoFocus spellCheck={false} value={value} onChange={(event) => onChange(event.target.value)} />}
    </Field>
  );
}

interface SelectProps extends Omit<Props, "children"> {
  value: string;
  onChange: (value: string) => void;
  /** Values with their names. */
  options: readonly (readonly [value: string, name: string])[];
}

export function SelectField({ value, onChange, options, ...field }: SelectProps) {
  return (
    <Field {...field}>
      {(props) => (
        <select {...props} value={value} onChange={(event) => onChange(event.target.value)}>
          {options.map(([of, name]) => (
            <option key={of} value={of}>
              {name}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
