// SPDX-License-Identifier: Apache-2.0
import createClient from "openapi-fetch";
import type { paths } from "./schema";
import { authorized, noteAnswer } from "./session";
import { prepared } from "./tab";
import type { ErrorDocument } from "./types";

/** Requests of the description's paths, with its types; the page's own origin. */
export const api = createClient<paths>({ baseUrl: location.origin });
api.use({
  onRequest: ({ request }) => authorized(prepared(request)),
  onResponse: ({ request, response }) => noteAnswer(response.status, request.headers.get("Authorization")),
});

/** A refusal of the controller, or of the way to it. */
export class ApiError extends Error {
  readonly document: ErrorDocument | undefined;
  readonly status: number;
  /** Time after which the controller wants to be asked again, ms. */
  readonly retryAfter: number | undefined;
  /** Id of the request, by which the controller's log has it; of an answer without a document, that of its header. */
  readonly requestId: string | undefined;

  constructor(status: number, document: ErrorDocument | undefined, headers?: Headers) {
    super(document?.detail ?? (status ? `The controller answered ${status}.` : "The controller cannot be reached."));
    this.status = status;
    this.document = document;
    this.retryAfter = headers && retryAfter(headers);
    this.requestId = document?.requestId ?? headers?.get("Canopy-Request-Id") ?? undefined;
  }
}

interface Result<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The data of an answer. Throws an [`ApiError`] otherwise. */
export async function data<T>(request: Promise<Result<T>>): Promise<T> {
  let result: Result<T>;
  try {
    result = await request;
  } catch {
    throw new ApiError(0, undefined);
  }
  if (!result.response.ok) throw new ApiError(result.response.status, asDocument(result.error), result.response.headers);
  return result.data as T;
}

/** The controller names whole seconds. */
function retryAfter(headers: Headers): number | undefined {
  const seconds = Number(headers.get("Retry-After") ?? Number.NaN);
  return seconds > 0 ? seconds * 1000 : undefined;
}

function asDocument(error: unknown): ErrorDocument | undefined {
  return typeof error === "object" && error !== null && "detail" in error ? (error as ErrorDocument) : undefined;
}
