// SPDX-License-Identifier: Apache-2.0
// Groups and members as their forms have them, and the resources that are sent.
import type { Group, GroupSpec, MemberSpec } from "../api/types";
import { labels, labelsText, NOT_WHOLE, whole, type Wrong } from "./form";

interface SpecField {
  name: keyof GroupSpec;
  label: string;
  hint: string;
  /** The values that there are; otherwise, it is a number. */
  choices?: readonly string[];
}

/** The settings of a group, those that are changed most first. One that is left empty is the controller's default. */
export const SPEC: readonly SpecField[] = [
  { name: "pathMtu", label: "Path MTU", hint: "Bytes of payload per packet.", choices: ["256", "512", "1024", "2048", "4096"] },
  { name: "minReceivers", label: "Receivers to begin with", hint: "So many have joined before the headend takes data." },
  { name: "stallPolicy", label: "Stall policy", hint: "What becomes of a receiver that stops acknowledging.", choices: ["wait", "evict", "fail"] },
  { name: "stallAfterMs", label: "Stalled after, ms", hint: "Without progress." },
  { name: "replication", label: "Replication", hint: "Between nodes.", choices: ["srv6", "multicast"] },
  { name: "encoding", label: "Receiver lists", hint: "How they get to the edges.", choices: ["auto", "inBand", "provisioned"] },
  { name: "maxFlight", label: "Packets in flight", hint: "Of the source, at most." },
  { name: "cnpWindowUs", label: "CNP window, µs", hint: "CNPs within it are one." },
  { name: "startPsn", label: "Start PSN", hint: "Left empty, the controller chooses it." },
];

/** Fields of a group's form, by their names in the API. */
export const GROUP_FIELDS = ["metadata.name", "metadata.labels", ...SPEC.map(({ name }) => `spec.${name}`)];

export interface GroupForm {
  name: string;
  labels: string;
  spec: Partial<Record<keyof GroupSpec, string>>;
}

/** The form of a group, or of one that is to be created. */
export function groupForm(of?: Group): GroupForm {
  if (!of) return { name: "", labels: "", spec: {} };
  const spec = SPEC.map(({ name }) => [name, String(of.spec[name] ?? "")] as const);
  return { name: of.metadata.name, labels: labelsText(of.metadata.labels), spec: Object.fromEntries(spec) };
}

/** What is sent, and what is missing for it. Settings of `old` that the form does not have stay. */
export function groupResource(form: GroupForm, old?: Group): { resource: unknown; missing: Wrong } {
  const missing: Record<string, string> = {};
  const name = form.name.trim();
  if (!name) missing["metadata.name"] = "A name is needed.";
  const found = labels(form.labels);
  if (typeof found === "string") missing["metadata.labels"] = found;
  const known = SPEC.map(({ name: field }) => field as string);
  const spec: Record<string, unknown> = Object.fromEntries(Object.entries(old?.spec ?? {}).filter(([field]) => !known.includes(field)));
  for (const { name: field, choices } of SPEC) {
    const text = form.spec[field]?.trim() ?? "";
    if (text === "") continue;
    const isText = choices !== undefined && whole(text) === null;
    const value = isText ? text : whole(text);
    if (value === null) missing[`spec.${field}`] = NOT_WHOLE;
    else spec[field] = value;
  }
  const metadata = { name, ...(typeof found === "object" && Object.keys(found).length > 0 && { labels: found }) };
  return { resource: { apiVersion: "canopy/v1", kind: "Group", metadata, spec }, missing };
}

export interface MemberForm {
  host: string;
  role: MemberSpec["role"];
  qpn: string;
  address: string;
  startPsn: string;
  va: string;
  rkey: string;
  length: string;
}

export const MEMBER: MemberForm = { host: "", role: "receiver", qpn: "", address: "", startPsn: "", va: "", rkey: "", length: "" };
const MEMORY = ["va", "rkey", "length"] as const;
export const MEMBER_FIELDS = ["spec.host", "spec.role", "spec.qpn", "spec.address", "spec.startPsn", ...MEMORY.map((name) => `spec.memory.${name}`)];

/** What is sent for a host to join, and what is missing for it. A source has no memory region, and only it has a start PSN. */
export function memberResource(group: string, form: MemberForm): { resource: unknown; missing: Wrong } {
  const missing: Record<string, string> = {};
  const number = (field: string, text: string): number | undefined => {
    const value = whole(text) ?? undefined;
    if (value === undefined) missing[field] = NOT_WHOLE;
    return value;
  };
  const host = form.host.trim();
  if (!host) missing["spec.host"] = "The name of a host is needed.";
  const spec: Record<string, unknown> = { host, role: form.role, qpn: number("spec.qpn", form.qpn) };
  if (form.address.trim()) spec["address"] = form.address.trim();
  if (form.role === "source" && form.startPsn.trim()) spec["startPsn"] = number("spec.startPsn", form.startPsn);
  if (form.role === "receiver" && MEMORY.some((name) => form[name].trim())) {
    spec["memory"] = Object.fromEntries(MEMORY.map((name) => [name, number(`spec.memory.${name}`, form[name])]));
  }
  return { resource: { apiVersion: "canopy/v1", kind: "Member", metadata: { group }, spec }, missing };
}
