// SPDX-License-Identifier: Apache-2.0
// The field that is marked in the table and in the octets at once.
import { createContext, useContext, useMemo, useState } from "react";

export interface ChosenField {
  /** What is pointed at, or else what was chosen last; empty before. */
  field: string;
  point: (field: string) => void;
  choose: (field: string) => void;
}

export const ChosenField = createContext<ChosenField>({ field: "", point: () => undefined, choose: () => undefined });
export const useChosenField = (): ChosenField => useContext(ChosenField);

export function useFieldState(): ChosenField {
  const [pointed, point] = useState("");
  const [chosen, choose] = useState("");
  return useMemo(() => ({ field: pointed || chosen, point, choose }), [pointed, chosen]);
}
