// SPDX-License-Identifier: Apache-2.0
import { ApiError } from "./client";
import { authorized } from "./session";

/** Reads a file with the session of this tab, and has the browser save it: a link would not have the bearer. */
export async function save(path: string, name: string): Promise<void> {
  const answer = await fetch(authorized(new Request(location.origin + path)));
  if (!answer.ok) throw new ApiError(answer.status, undefined, answer.headers);
  const url = URL.createObjectURL(await answer.blob());
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
