#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What check-resources.py must find, by mutations of a small page and of the real one: python3 scripts/test_check_resources.py"""

import copy
import importlib.util
import json
import re
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ in the sources
SPEC = importlib.util.spec_from_file_location("resources", Path(__file__).with_name("check-resources.py"))
resources = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(resources)

REF = "#/components/schemas/"
API = {
    "paths": {
        "/v1/things/{name}": {
            "get": {"parameters": [{"name": "name", "in": "path"}, {"name": "limit", "in": "query"}]},
            "put": {"requestBody": {"content": {"json": {"schema": {"$ref": REF + "Input_ThingSpec"}}}}},
        }
    },
    "components": {
        "schemas": {
            "Input_ThingSpec": {"required": ["spec"], "properties": {"spec": {"type": "object", "properties": {}}}},
            "ThingSpec": {
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "mode": {"$ref": REF + "Mode", "default": "fast"},
                    "size": {"type": "integer", "default": 4096},
                    "peers": {"type": "array", "items": {"$ref": REF + "Number"}},
                    "note": {"oneOf": [{"$ref": REF + "Note"}, {"type": "null"}], "default": None},
                },
            },
            "Mode": {"type": "string", "enum": ["fast", "slow"]},
            "Number": {"type": "integer"},
            "Note": {"properties": {"labels": {"type": "object", "additionalProperties": {"type": "string"}}}},
            "Status": {
                "allOf": [{"$ref": REF + "Note"}, {"properties": {"since": {"type": ["integer", "null"]}}}],
            },
            "Bound": {"oneOf": [{"properties": {"wantedBytes": {"type": "integer"}}}, {"properties": {"by": {"type": "string"}}}]},
        }
    },
}
PAGE = """# Things

| method | path | parameters | meaning |
|---|---|---|---|
| GET | `/v1/things/{name}` | `limit` | reads one |
| PUT | `/v1/things/{name}` | — | writes one |

## Input (`Input`)

| field | type | range | default | meaning |
|---|---|---|---|---|
| `spec` | object | — | required | x |

## Thing spec (`ThingSpec`)

Some text.

| field | type | range | default | meaning |
|---|---|---|---|---|
| `name` | string | — | required | x |
| `mode` | [`Mode`](#types) | — | `fast` | x |
| `size` | integer | 1..=9 | `4096` | x |
| `peers` | array of `Number` | — | empty | x |
| `note` | [`Note`](#note-note) or null | — | `null`: none | x |

## Note (`Note`)

| field | type | default | meaning |
|---|---|---|---|
| `labels` | map of string | empty | x |

## Status (`Status`)

| field | type | meaning |
|---|---|---|
| all fields of [`Note`](#note-note) | — | x |
| `since` | integer or null | x |

## Bound (`Bound`)

| field | type | meaning |
|---|---|---|
| `by` | string | x |
| `wantedBytes` | integer | x |

## Types

| enumeration | values | meaning |
|---|---|---|
| `Mode` | `fast`, `slow` | x |

| scalar | type | range | meaning |
|---|---|---|---|
| `Number` | integer | — | x |
"""


class Small(unittest.TestCase):
    def check(self, page=PAGE, change=None):
        api = copy.deepcopy(API)
        if change:
            change(api["components"]["schemas"], api["paths"])
        return resources.check(page, api)[0]

    def finds(self, problems, *words):
        self.assertEqual(len(problems), 1, problems)
        for word in words:
            self.assertIn(word, problems[0])

    def replaced(self, old, new):
        self.assertEqual(PAGE.count(old), 1, old)
        return self.check(PAGE.replace(old, new))

    def test_a_page_that_agrees_passes(self):
        self.assertEqual(self.check(), [])
        summary = resources.check(PAGE, API)[1]
        self.assertEqual(summary, "check-resources: 10 fields of 5 schemas, 1 enumerations, 2 operations")

    def test_a_missing_field_is_named(self):
        self.finds(self.replaced("| `size` | integer | 1..=9 | `4096` | x |\n", ""), "ThingSpec.size", "add it")

    def test_a_field_that_the_api_does_not_have_is_named(self):
        problems = self.replaced("| `since` |", "| `until` | string | x |\n| `since` |")
        self.finds(problems, "Status.until", "remove it")

    def test_a_new_field_of_the_api_is_named(self):
        problems = self.check(change=lambda s, _: s["Note"]["properties"].update(extra={"type": "string"}))
        self.finds(problems, "Note.extra", "add it")

    def test_a_wrong_type_is_named(self):
        self.finds(self.replaced("| array of `Number` |", "| `Number` |"), "ThingSpec.peers", "array of Number")
        self.finds(self.replaced("| integer or null |", "| integer |"), "Status.since", "integer or null")

    def test_a_wrong_default_is_named(self):
        self.finds(self.replaced("`4096`", "`1024`"), "ThingSpec.size", "4096")
        self.finds(self.replaced("| `fast` |", "| `slow` |"), "ThingSpec.mode", "fast")
        self.finds(self.replaced("`null`: none", "none"), "ThingSpec.note", "null")

    def test_required_and_optional_fields_are_distinguished(self):
        problems = self.replaced("| `name` | string | — | required |", "| `name` | string | — | empty |")
        self.finds(problems, "ThingSpec.name: is required")
        self.finds(self.replaced("| empty | x |\n| `note`", "| required | x |\n| `note`"), "ThingSpec.peers: is not required")

    def test_a_table_of_what_clients_send_has_defaults(self):
        header = "| field | type |{} meaning |\n|---|---|{}---|"
        page = PAGE.replace(header.format(" default |", "---|"), header.format("", ""))
        problems = self.check(page.replace("| `labels` | map of string | empty | x |", "| `labels` | map of string | x |"))
        self.finds(problems, "Note.labels", "column default")

    def test_a_schema_without_a_table_and_a_table_without_a_schema(self):
        self.finds(self.replaced("## Status (`Status`)", "## Status"), "schema Status", "add it")
        self.finds(self.check(change=lambda s, _: s.pop("Status")), "schema Status", "remove it")

    def test_included_fields_are_compared(self):
        self.finds(self.replaced("| all fields of [`Note`](#note-note) | — | x |\n", ""), "Status: all fields of Note", "add it")

    def test_enumerations_and_scalars_are_compared(self):
        self.finds(self.replaced("`fast`, `slow`", "`fast`"), "Mode value slow", "add it")
        self.finds(self.check(change=lambda s, _: s["Mode"].update(enum=["fast"])), "Mode value slow", "remove it")
        self.finds(self.replaced("| `Number` | integer |", "| `Number` | string |"), "scalar Number")

    def test_paths_and_parameters_are_compared(self):
        self.finds(self.replaced("| PUT | `/v1/things/{name}` | — | writes one |\n", ""), "path PUT /v1/things/{name}", "add it")
        self.finds(self.replaced("| `limit` | reads", "| — | reads"), "GET /v1/things/{name} parameter limit", "add it")
        self.finds(self.check(change=lambda _, p: p["/v1/things/{name}"].pop("get")), "path GET", "remove it")

    def test_a_row_with_an_empty_cell_or_twice_fails(self):
        self.finds(self.replaced("| `by` | string | x |", "| `by` | string | |"), "Bound.by", "fill every cell")
        self.finds(self.replaced("| `by` | string | x |", "| `by` | string | x |\n| `by` | string | x |"), "Bound.by", "twice")


class Real(unittest.TestCase):
    """The page and the description of this tree."""

    def setUp(self):
        self.page = (resources.ROOT / resources.PAGE).read_text()
        self.api = json.loads((resources.ROOT / resources.API).read_text())

    def test_they_agree(self):
        self.assertEqual(resources.check(self.page, self.api)[0], [])

    def test_no_row_of_a_field_can_be_left_out(self):
        lines, schema = self.page.splitlines(), None
        for at, line in enumerate(lines):
            if line.startswith("#"):
                heading = re.search(r"\(`(\w+)`\)$", line)
                schema = heading[1] if heading else None
            if schema is None or not re.match(r"\| (`|all fields of)", line):
                continue
            problems = resources.check("\n".join(lines[:at] + lines[at + 1 :]), self.api)[0]
            self.assertTrue(any(p.startswith(schema) or p.startswith(f"schema {schema}") for p in problems), line)


if __name__ == "__main__":
    unittest.main()
