// SPDX-License-Identifier: Apache-2.0
// Server-sent events (HTML Standard, section 9.2) from a fetch body. EventSource cannot send a bearer.

export interface Message {
  event: string;
  data: string;
}

/** Feeds text in pieces, calls back for each complete event. */
export function parser(onMessage: (message: Message) => void): (piece: string) => void {
  let rest = "";
  let event = "";
  let data: string[] = [];
  return (piece) => {
    rest += piece;
    const lines = rest.split("\n");
    rest = lines.pop() ?? "";
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") {
        if (data.length) onMessage({ event: event || "message", data: data.join("\n") });
        event = "";
        data = [];
        continue;
      }
      const colon = line.indexOf(":");
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "event") event = value;
      else if (field === "data") data.push(value);
    }
  };
}
