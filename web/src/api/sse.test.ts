// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { parser, type Message } from "./sse";

// Catches events that are lost or joined where the network cuts them.
it("finds the same events however the text is cut", () => {
  const text = 'event: groups.added\ndata: {"a":"x: y"}\n\n: comment\nevent: heartbeat\r\ndata: {}\r\n\r\ndata: 1\ndata: 2\n\nevent: cut\n';
  const whole: Message[] = [{ event: "groups.added", data: '{"a":"x: y"}' }, { event: "heartbeat", data: "{}" }, { event: "message", data: "1\n2" }];
  for (let size = 1; size <= text.length; size += 1) {
    const got: Message[] = [];
    const feed = parser((message) => got.push(message));
    for (let at = 0; at < text.length; at += size) feed(text.slice(at, at + size));
    expect(got).toEqual(whole);
  }
});
