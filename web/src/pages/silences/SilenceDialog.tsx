// SPDX-License-Identifier: Apache-2.0
// Writes down that an operator knows of a problem, or of those of an object under maintenance. It changes nothing of the network, so there are
// no effects to check first.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { api, ApiError, data } from "../../api/client";
import { useReadOnly } from "../../api/session";
import { sentence } from "../../lib/problem";
import { endsAt, silenceCommand, silenceName, silenceSpec, TIMES, type Silenced } from "../../lib/silence";
import { Command } from "../../ui/Command";
import { Dialog } from "../../ui/Dialog";
import { ErrorNote } from "../../ui/Page";
import { WAITS } from "../../ui/words";
import { FormErrors, SelectField, TextField } from "../../write/Field";

const NOTE_CHARACTERS = 1024;
const FIELDS = ["spec.note", "spec.until"];

export function SilenceDialog({ of, onClose }: { of: Silenced; onClose: () => void }) {
  const isProblem = "problem" in of;
  const [note, setNote] = useState("");
  const [time, setTime] = useState(isProblem ? "" : "4h");
  const cache = useQueryClient();
  const apply = useMutation({
    mutationFn: async () => {
      // By the clock that ends it: the browser's may be another one.
      const now = (await data(api.GET("/api/v1/status"))).timeUnixNs / 1e6;
      const seconds = TIMES.find((one) => one.time === time)?.seconds;
      // One of the forms that the description has, by what it is about.
      const spec = { ...silenceSpec(of), note: note.trim(), ...(seconds && { until: endsAt(now, seconds) }) };
      return data(api.POST("/api/v1/silences", { params: { query: {} }, body: { apiVersion: "canopy/v1", kind: "Silence", metadata: { name: silenceName(of) }, spec: spec as never } }));
    },
    onSuccess: async () => {
      await cache.invalidateQueries({ queryKey: ["problems"] });
      await cache.invalidateQueries({ queryKey: ["silences"] });
      onClose();
    },
  });
  const why = unusable(note);
  const readOnly = useReadOnly();
  const errors = useMemo(() => {
    const found = apply.error instanceof ApiError ? (apply.error.document?.errors ?? []) : [];
    return { missing: why ? { "spec.note": why } : {}, refused: Object.fromEntries(found.map(({ field, detail }) => [field, detail])) };
  }, [apply.error, why]);
  return (
    <Dialog title={isProblem ? "Acknowledge a problem" : `Silence ${of.kind} ${of.name}`} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!why && !readOnly) apply.mutate();
        }}
      >
        {isProblem ? (
          <>
            <p>{sentence(of.problem)}</p>
            <p className="faint">It is listed behind the others and raises no alert. It stays a problem: nothing else changes.</p>
          </>
        ) : (
          <p className="faint">Its problems, also those that open meanwhile, are listed behind the others and raise no alert. They stay problems: nothing else changes.</p>
        )}
        <FormErrors value={errors}>
          <TextField
            name="spec.note"
            label="Note, for other operators"
            first
            value={note}
            onChange={(to) => {
              setNote(to);
              apply.reset();
            }}
          />
          <SelectField name="spec.until" label="Lasts" value={time} onChange={setTime} options={[...(isProblem ? [["", "until the problem ends"] as const] : []), ...TIMES.map((one) => [one.time, one.label] as const)]} />
        </FormErrors>
        <ErrorNote error={apply.error} except={FIELDS} />
        <p>
          <Command line={silenceCommand(of, note.trim(), time)} />
        </p>
        <div className="tools">
          <button type="submit" className="primary" disabled={Boolean(why || readOnly) || apply.isPending} aria-describedby="silence-why">
            {isProblem ? "Acknowledge" : "Silence it"}
          </button>
          <span id="silence-why" className="faint">{readOnly || (why ? "The note is not complete." : apply.isPending && WAITS)}</span>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function unusable(note: string): string {
  if (!note.trim()) return "A note is needed.";
  return [...note.trim()].length > NOTE_CHARACTERS ? `At most ${NOTE_CHARACTERS} characters.` : "";
}
