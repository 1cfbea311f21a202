// SPDX-License-Identifier: Apache-2.0
import { useEffect, type ReactNode } from "react";
import type { UseQueryResult } from "@tanstack/react-query";
import { ApiError } from "../api/client";
import { clockDifference } from "../lib/clock";
import { Age } from "./Age";
import { Command, CopyButton } from "./Command";

/** Heading and browser title of a page. */
export function Page({ title, tab, aside, children }: { title: ReactNode; tab: string; aside?: ReactNode; children: ReactNode }) {
  useEffect(() => {
    document.title = `${tab} – Canopy`;
  }, [tab]);
  return (
    <>
      <header className="page-head">
        <h1>{title}</h1>
        {aside}
      </header>
      {children}
    </>
  );
}

/** An error with its code and the id of its request, by which the log of the controller has it; what was read before stays on the page, under it. `except`: fields whose errors are shown elsewhere. */
export function ErrorNote({ error, except = [] }: { error: unknown; except?: readonly string[] }) {
  if (!error) return null;
  const document = error instanceof ApiError ? error.document : undefined;
  const requestId = error instanceof ApiError ? error.requestId : undefined;
  const fields = document?.errors?.filter(({ field }) => !except.includes(field));
  return (
    <div role="alert" className="note failed">
      <strong>{document?.title ?? "No answer"}</strong> {error instanceof Error ? error.message : String(error)}
      {document && <code className="faint"> {document.code}</code>}
      {fields?.map((field) => (
        <div key={field.field}>
          <code>{field.field}</code>: {field.detail}
        </div>
      ))}
      {requestId && (
        <div className="request">
          <span className="faint">Request</span> <code>{requestId}</code> <CopyButton text={requestId} label="copy" name={`Copy the id of request ${requestId}`} quiet />
        </div>
      )}
    </div>
  );
}

type Read = Pick<UseQueryResult, "error" | "data" | "dataUpdatedAt">;

/** Why a read failed, and how old what was read before is. */
export function ReadFailed({ query: { error, data, dataUpdatedAt } }: { query: Read }) {
  if (!error) return null;
  return (
    <>
      <ErrorNote error={error} />
      {data !== undefined && (
        <p className="faint">
          What is shown below was read <Age since={dataUpdatedAt * 1e6 + clockDifference()} /> ago.
        </p>
      )}
    </>
  );
}

interface LoadedProps<T> {
  query: UseQueryResult<T>;
  /** Heading as long as there is nothing, where the content has its own. */
  title?: string;
  children: (data: T) => ReactNode;
}

/** What is read, once it is there; until then a word, and an error if there is one. */
export function Loaded<T>({ query, title, children }: LoadedProps<T>) {
  return (
    <>
      {title && query.data === undefined && <h1>{title}</h1>}
      <ReadFailed query={query} />
      {query.data === undefined ? (
        !query.error && <p className="faint" role="status">Reading…</p>
      ) : (
        <div className={query.error ? "stale-block" : undefined}>{children(query.data)}</div>
      )}
    </>
  );
}

/** Nothing is there: why, and the command that makes the first one. */
export function Empty({ children, command }: { children: ReactNode; command?: string }) {
  return (
    <div className="empty">
      <p>{children}</p>
      {command && <Command line={command} />}
    </div>
  );
}
