// SPDX-License-Identifier: Apache-2.0
// Acknowledges a problem. It changes nothing of the network, so there are no effects to check first.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../../api/client";
import type { Problem } from "../../api/types";
import { sentence } from "../../lib/problem";
import { ackCommand, ackName, endsAt, TIMES } from "../../lib/silence";
import { Command } from "../../ui/Command";
import { Dialog } from "../../ui/Dialog";
import { ErrorNote } from "../../ui/Page";

const NOTE_CHARACTERS = 1024;

export function AckDialog({ problem, onClose }: { problem: Problem; onClose: () => void }) {
  const [note, setNote] = useState("");
  const [time, setTime] = useState("");
  const cache = useQueryClient();
  const seconds = TIMES.find((one) => one.time === time)?.seconds;
  const apply = useMutation({
    mutationFn: async () => {
      // By the clock that ends it: the browser's may be another one.
      const now = (await data(api.GET("/api/v1/status"))).timeUnixNs / 1e6;
      return data(
        api.POST("/api/v1/silences", {
          params: { query: {} },
          body: {
            apiVersion: "canopy/v1",
            kind: "Silence",
            metadata: { name: ackName(problem) },
            spec: { problem: problem.id, note: note.trim(), ...(seconds && { until: endsAt(now, seconds) }) },
          },
        }),
      );
    },
    onSuccess: async () => {
      await cache.invalidateQueries({ queryKey: ["problems"] });
      onClose();
    },
  });
  const why = unusable(note);
  return (
    <Dialog title="Acknowledge a problem" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!why) apply.mutate();
        }}
      >
        <p>{sentence(problem)}</p>
        <p className="faint">It is listed behind the others and raises no alert. It stays a problem: nothing else changes.</p>
        <label className="field">
          Note, for other operators
          <input
            // eslint-disable-next-line jsx-a11y/no-autofocus -- the dialog was opened to fill this field
            autoFocus
            value={note}
            aria-describedby="ack-why"
            onChange={(event) => {
              setNote(event.target.value);
              apply.reset();
            }}
          />
          <span id="ack-why" className="faint">{why}</span>
        </label>
        <label className="field">
          Lasts
          <select value={time} onChange={(event) => setTime(event.target.value)}>
            <option value="">until the problem ends</option>
            {TIMES.map((one) => (
              <option key={one.time} value={one.time}>
                {one.label}
              </option>
            ))}
          </select>
        </label>
        <ErrorNote error={apply.error} />
        <p>
          <Command line={ackCommand(problem, note.trim(), time)} />
        </p>
        <div className="tools">
          <button type="submit" className="primary" disabled={Boolean(why) || apply.isPending} aria-describedby="ack-why">
            Acknowledge
          </button>
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
