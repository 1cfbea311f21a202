// SPDX-License-Identifier: Apache-2.0
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { GLOSSARY } from "./glossary";

const sources = readdirSync("src", { recursive: true, encoding: "utf8" }).filter((path) => /\.tsx?$/.test(path) && !path.endsWith(".test.ts"));
/** Words that pages explain: of the element, and of the properties of columns, charts and lines. */
const used = sources.flatMap((path) => [...readFileSync(join("src", path), "utf8").matchAll(/<Term of="([^"]+)"|\bterm: "([^"]+)"/g)].map(([, element, property]) => ({ path, word: element ?? property ?? "" })));

it("has every word that a page explains", () => {
  expect(used.length).toBeGreaterThan(30);
  expect(used.filter(({ word }) => !(word in GLOSSARY))).toEqual([]);
});

it("has the words of the document one by one, without addresses", () => {
  expect(GLOSSARY.PSP).toEqual(GLOSSARY.USD);
  expect(GLOSSARY["transit node"].name).toBe("transit (replication) node");
  expect(Object.values<{ meaning: string }>(GLOSSARY).filter(({ meaning }) => !meaning || meaning.includes("]("))).toEqual([]);
});
