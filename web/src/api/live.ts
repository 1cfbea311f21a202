// SPDX-License-Identifier: Apache-2.0
// One stream of changes per tab. What it brings goes into the query cache; whether it is alive goes into the top bar.
//
//   connecting --synced--> live --nothing for 15 s, or the connection ends--> reconnecting --> connecting
//        ^                  |
//        +-- visible, signed in -- paused <-- hidden for 10 s, signed out
import type { QueryClient } from "@tanstack/react-query";
import { note as noteTime } from "../lib/clock";
import { parser, type Message } from "./sse";
import { authorization, held, isOfDomain, noteAnswer, onSession } from "./session";
import { applyChanges, type Change } from "./changes";

export type Phase = "connecting" | "live" | "reconnecting" | "paused";

export interface Live {
  phase: Phase;
  /** When the controller was last received from, by this browser's clock, milliseconds; 0 = never. */
  lastAt: number;
}

const OF_TENANTS = "groups,problems,events,audit";
const path = () => `/api/v1/watch?topics=${OF_TENANTS}${isOfDomain() ? ",nodes,topology,drains,commits" : ""}&timeoutSeconds=3600`;
/** The controller sends a heartbeat every 5 s. */
const SILENT_AFTER = 15_000;
const HIDDEN_AFTER = 10_000;
/** Values change at most four times a second. */
const FLUSH_EVERY = 250;
const BACK_OFF = [500, 1000, 2000, 5000] as const;

export class LiveStream {
  private live: Live = { phase: "connecting", lastAt: 0 };
  private readonly listeners = new Set<() => void>();
  private waiting: Change[] = [];
  private flush: number | undefined;
  private timer: number | undefined;
  private silence: number | undefined;
  private abort: AbortController | undefined;
  private failures = 0;

  constructor(private readonly queries: QueryClient) {}

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly snapshot = (): Live => this.live;

  /** Connects, and follows the visibility of the tab and its session. */
  start(): void {
    document.addEventListener("visibilitychange", () => {
      window.clearTimeout(this.timer);
      if (document.visibilityState === "hidden") this.timer = window.setTimeout(() => this.pause(), HIDDEN_AFTER);
      // Paused, or waiting to try again: the timer of that was just cleared.
      else if (!this.abort) void this.connect();
    });
    onSession(() => {
      window.clearTimeout(this.timer);
      this.failures = 0;
      void this.connect();
    });
    void this.connect();
  }

  private pause(): void {
    this.set("paused");
    this.close();
  }

  private close(): void {
    this.abort?.abort();
    this.abort = undefined;
    window.clearTimeout(this.silence);
  }

  private async connect(): Promise<void> {
    const bearer = authorization();
    if (!held()) {
      this.pause();
      return;
    }
    this.close();
    const abort = new AbortController();
    this.abort = abort;
    if (this.live.phase !== "reconnecting") this.set("connecting");
    this.expect(abort);
    try {
      const answer = await fetch(path(), { signal: abort.signal, headers: { Accept: "text/event-stream", ...(bearer ? { Authorization: bearer } : {}) } });
      noteAnswer(answer.status, bearer);
      if (!answer.ok || !answer.body) throw new Error(`status ${answer.status}`);
      const feed = parser((message) => this.receive(message));
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        this.expect(abort);
        this.touch();
        feed(value);
      }
    } catch {
      // The reason is the browser's; what matters is that nothing is received.
    }
    // A connection that was replaced or paused has nothing to do here.
    if (this.abort === abort) this.retry();
  }

  private retry(): void {
    this.close();
    this.set("reconnecting");
    const wait = BACK_OFF[Math.min(this.failures, BACK_OFF.length - 1)];
    this.failures += 1;
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      if (document.visibilityState === "hidden") this.pause();
      else void this.connect();
    }, wait);
  }

  private expect(abort: AbortController): void {
    window.clearTimeout(this.silence);
    this.silence = window.setTimeout(() => {
      if (this.abort === abort) this.retry();
    }, SILENT_AFTER);
  }

  private receive({ event, data }: Message): void {
    if (event === "synced") {
      this.failures = 0;
      this.set("live");
      // Changes before this moment are in the lists, those after it in the stream; see applyChanges for lists that are being read.
      void this.queries.invalidateQueries();
      return;
    }
    if (event === "heartbeat") {
      noteTime((JSON.parse(data) as { timeUnixNs: number }).timeUnixNs);
      return;
    }
    const [topic, kind] = event.split(".");
    if (topic && kind) {
      this.waiting.push({ topic, kind, data: JSON.parse(data) as unknown } as Change);
      this.flush ??= window.setTimeout(() => {
        this.flush = undefined;
        applyChanges(this.queries, this.waiting.splice(0));
      }, FLUSH_EVERY);
    }
  }

  private touch(): void {
    this.live = { ...this.live, lastAt: Date.now() };
    this.notify();
  }

  private set(phase: Phase): void {
    this.live = { phase, lastAt: phase === "live" ? Date.now() : this.live.lastAt };
    this.notify();
  }

  private notify(): void {
    for (const listener of this.listeners) listener();
  }
}
