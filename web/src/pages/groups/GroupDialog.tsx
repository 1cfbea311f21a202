// SPDX-License-Identifier: Apache-2.0
// Creates a group, or changes the labels and settings of one.
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, data } from "../../api/client";
import type { Group } from "../../api/types";
import { applyCommand } from "../../lib/form";
import { GROUP_FIELDS, groupForm, groupResource, SPEC } from "../../lib/group";
import { SelectField, TextField } from "../../write/Field";
import { WriteDialog } from "../../write/WriteDialog";

/** `of`: the group to change, as it was when the form was opened; without it, one is created. */
export function GroupDialog({ of, onClose }: { of?: Group; onClose: () => void }) {
  const [form, setForm] = useState(() => groupForm(of));
  const navigate = useNavigate();
  const { resource, missing } = groupResource(form, of);
  const name = form.name.trim();
  const send = (dryRun: boolean, plan?: string) => {
    const condition = of?.metadata.uid ? { "If-Match": `"${of.metadata.uid}.${of.metadata.generation}"` } : {};
    const params = { query: { dryRun }, header: { ...condition, ...(plan && { "If-Plan-Match": plan }) } };
    // Settings that are left out are the controller's defaults; the description has them as present.
    const body = resource as never;
    return of ? data(api.PUT("/api/v1/groups/{group}", { params: { ...params, path: { group: of.metadata.name } }, body })) : data(api.POST("/api/v1/groups", { params, body }));
  };
  return (
    <WriteDialog
      title={of ? `Edit group ${of.metadata.name}` : "Create a group"}
      name={`group/${name}`}
      command={applyCommand(resource)}
      action={of ? "Save" : "Create it"}
      content={JSON.stringify(resource)}
      fields={GROUP_FIELDS}
      missing={missing}
      send={send}
      changes={["groups", "group", "versions"]}
      onClose={onClose}
      onDone={of ? undefined : () => navigate({ to: "/groups/$group", params: { group: name } })}
    >
      {() => (
        <div className="fields">
          {!of && <TextField name="metadata.name" label="Name" first value={form.name} onChange={(to) => setForm({ ...form, name: to })} />}
          <TextField name="metadata.labels" label="Labels" first={Boolean(of)} hint="Such as team=storage job=llm." value={form.labels} onChange={(to) => setForm({ ...form, labels: to })} />
          {SPEC.map(({ name: field, label, hint, choices }) => {
            const shared = { name: `spec.${field}`, label, hint, value: form.spec[field] ?? "", onChange: (to: string) => setForm({ ...form, spec: { ...form.spec, [field]: to } }) };
            return choices ? (
              <SelectField key={field} {...shared} options={[["", "default"], ...choices.map((choice) => [choice, choice] as const)]} />
            ) : (
              <TextField key={field} {...shared} placeholder="default" />
            );
          })}
        </div>
      )}
    </WriteDialog>
  );
}
