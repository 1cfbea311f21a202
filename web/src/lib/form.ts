// SPDX-License-Identifier: Apache-2.0
// What people type into forms, as values of the API; what a value means is for the controller to check.

/** What is wrong, by the names that the API gives to fields, such as `spec.qpn`. */
export type Wrong = Readonly<Record<string, string>>;

/** A whole number, also as 0x11; `null` if it is none. */
export function whole(text: string): number | null {
  const value = /^(\d+|0x[0-9a-f]+)$/i.test(text.trim()) ? Number(text.trim()) : NaN;
  return Number.isSafeInteger(value) ? value : null;
}

export const NOT_WHOLE = "A whole number is needed, such as 17 or 0x11.";

/** Labels from "team=storage, job=llm"; a text if one is not written so. */
export function labels(text: string): Record<string, string> | string {
  const found: Record<string, string> = {};
  for (const one of text.split(/[\s,]+/).filter(Boolean)) {
    const at = one.indexOf("=");
    if (at < 1) return `A label is written key=value; ${one} is not.`;
    if (one.slice(0, at) in found) return `${one.slice(0, at)} is there twice.`;
    found[one.slice(0, at)] = one.slice(at + 1);
  }
  return found;
}

export const labelsText = (of: Readonly<Record<string, string>> | undefined): string =>
  Object.entries(of ?? {})
    .map(([key, value]) => `${key}=${value}`)
    .join(" ");

/** A command that applies a resource, for a shell. JSON has no line that ends it. */
export const applyCommand = (resource: unknown): string => `canopyctl apply -f - <<'END'\n${JSON.stringify(resource)}\nEND`;

/** A resource from JSON: of the whole resource, or of its spec alone. A text if it is neither. */
export function resource(kind: string, name: string, text: string): object | string {
  if (!text.trim()) return "It is empty.";
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch (error) {
    return `It is no JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
  if (typeof found !== "object" || found === null || Array.isArray(found)) return "It is no object.";
  return "spec" in found || "kind" in found ? found : { apiVersion: "canopy/v1", kind, metadata: { name }, spec: found };
}
