#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/resources.md against the API description: the same paths, schemas, fields, types, defaults and enumerations.

    scripts/check-resources.py

In the page, a heading that ends in a schema's name in parentheses, such as "Group spec (`GroupSpec`)", belongs to the schema, and
the first table below it lists the schema's fields. The columns `field` and `type` are required; `default` is, where clients send the
schema. Types are written as this script prints them; a default starts with its JSON value, or is `required`. A row "all fields of
`Other`" stands for the fields of another schema.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE, API = "docs/resources.md", "controller/rest/openapi.json"
# Generic types, documented once: Input_GroupSpec is an Input.
GENERIC = re.compile(r"(Input|List)_\w+")
# Identities by kind of resource, documented as one: their restrictions are in the column range.
VARIANT = re.compile(r"(MetadataInput)_\w+")
ALL_OF = "all fields of "
# Schemas that have no name in the page, because their content is a plain JSON type.
PLAIN = {"u64": "integer", "BTreeMap": "map of string"}
METHODS = ("get", "post", "put", "delete", "patch")
CODE = re.compile(r"`([^`]*)`")


def code(cell):
    """The first code span of a cell, or the cell itself."""
    span = CODE.search(cell)
    return span[1] if span else cell.strip()


def plain(cell):
    """A cell without links, code marks and repeated blanks."""
    return " ".join(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell).replace("`", "").split())


def cells_of(line):
    return [c.strip() for c in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def tables(text):
    """Every table of the page as (heading, list of rows), each row a dict by column title in lower case."""
    heading, header, rows = "", None, []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            if header is None:
                header = [c.lower() for c in cells_of(line)]
            elif not re.fullmatch(r"[|:\- ]+", line):
                rows.append(dict(zip(header, cells_of(line))))
            continue
        if header is not None:
            yield heading, header, rows
            header, rows = None, []
        if line.startswith("#"):
            heading = line.lstrip("#").strip()


class Page:
    """What the page documents."""

    def __init__(self, text):
        self.schemas, self.included, self.enums, self.scalars = {}, {}, {}, {}
        self.paths, self.problems = {}, []
        for heading, header, rows in tables(text):
            name = re.search(r"\(`(\w+)`\)$", heading)
            if header[0] == "field" and name:
                self.fields(name[1], header, rows)
            elif header[0] == "enumeration":
                self.enums.update({code(r["enumeration"]): CODE.findall(r["values"]) for r in rows})
            elif header[0] == "scalar":
                self.scalars.update({code(r["scalar"]): plain(r["type"]) for r in rows})
            elif header[:2] == ["method", "path"]:
                for row in rows:
                    self.paths[row["method"].lower(), code(row["path"])] = set(CODE.findall(row["parameters"]))

    def fields(self, name, header, rows):
        if name in self.schemas:
            self.problems.append(f"{name}: has two tables of fields: keep one")
        self.schemas[name], self.included[name] = {}, set()
        for row in rows:
            field = code(row["field"])
            if row["field"].startswith(ALL_OF):
                self.included[name].add(field)
                continue
            if field in self.schemas[name]:
                self.problems.append(f"{name}.{field}: is there twice: remove one row")
            if len(row) != len(header) or not all(row.values()):
                self.problems.append(f"{name}.{field}: fill every cell of its row, with — where there is nothing to write")
            self.schemas[name][field] = row


class Api:
    """What the description contains."""

    def __init__(self, document):
        self.all = document["components"]["schemas"]
        self.paths, bodies = {}, []
        for path, operations in document["paths"].items():
            for method in operations.keys() & set(METHODS):
                parameters = operations[method].get("parameters", [])
                self.paths[method, path] = {p["name"] for p in parameters if p["in"] != "path"}
                bodies.append(operations[method].get("requestBody", {}))
        named = {GENERIC.sub(r"\1", n): s for n, s in self.all.items() if n not in PLAIN and not VARIANT.fullmatch(n)}
        self.enums = {n: s["enum"] for n, s in named.items() if "enum" in s}
        self.objects = {n: self.fields(s) for n, s in named.items() if n not in self.enums and self.fields(s)}
        if "List" in self.objects:
            # Each list has items of its kind.
            self.objects["List"]["items"] = ({"type": "array", "items": {"type": "object"}}, True)
        self.included = {n: {self.name(p) for p in s.get("allOf", []) if "$ref" in p} for n, s in named.items()}
        self.scalars = {n: self.type(s) for n, s in named.items() if n not in self.enums and n not in self.objects}
        self.sent = self.reached(bodies)

    @staticmethod
    def name(reference):
        return VARIANT.sub(r"\1", reference["$ref"].split("/")[-1])

    def fields(self, schema):
        """Own fields as name -> (schema, required), also those of every alternative."""
        found = {}
        for part in schema.get("allOf", []) + schema.get("oneOf", []):
            found.update(self.fields(part))
        for name, field in schema.get("properties", {}).items():
            found[name] = (field, name in schema.get("required", []))
        return found

    def type(self, schema):
        """The type as the page writes it."""
        if "$ref" in schema:
            return PLAIN.get(self.name(schema), self.name(schema))
        if "enum" in schema and "type" not in schema:
            return "string"
        if "oneOf" in schema:
            return " or ".join(self.type(s) for s in schema["oneOf"])
        kind = schema.get("type", "object")
        kinds = kind if isinstance(kind, list) else [kind]
        return " or ".join(self.json_type(k, schema) for k in kinds)

    def json_type(self, kind, schema):
        if kind == "array":
            return f"array of {self.type(schema['items'])}"
        if kind == "object" and "additionalProperties" in schema and schema["additionalProperties"]:
            return f"map of {self.type(schema['additionalProperties'])}"
        return kind

    def reached(self, bodies):
        """Names of the schemas that clients send: everything below a request body."""
        names, todo = set(), bodies
        while todo:
            found = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(todo.pop())))
            # An Input_GroupSpec contains a GroupSpec in full, without its name.
            found |= {part for name in found if GENERIC.fullmatch(name) for part in name.split("_")}
            todo += [self.all[name] for name in found - names if name in self.all]
            names |= found
        return names


def missing_and_extra(what, have, want):
    for name in sorted(want - have):
        yield f"{what}{name}: is in {API} and not in {PAGE}: add it"
    for name in sorted(have - want):
        yield f"{what}{name}: is in {PAGE} and not in {API}: remove it"


def check_default(name, row, field, required, sent):
    """What is wrong with the default of a field that clients send."""
    if not sent:
        return
    if "default" not in row:
        yield f"{name}: clients send it, so its table needs the column default"
        return
    if required != (plain(row["default"]) == "required"):
        yield f"{name}: is {'' if required else 'not '}required: correct the column default"
    if "default" in field and code(row["default"]) != json.dumps(field["default"]).strip('"'):
        yield f"{name}: has the default {json.dumps(field['default'])}, the page has {row['default']}: correct the page"


def check(page_text, document):
    """All problems, and a summary."""
    page, api = Page(page_text), Api(document)
    problems = list(page.problems)
    problems += missing_and_extra("schema ", set(page.schemas), set(api.objects))
    problems += missing_and_extra("enumeration ", set(page.enums), set(api.enums))
    problems += missing_and_extra("scalar ", set(page.scalars), set(api.scalars))
    problems += missing_and_extra("path ", *({f"{m.upper()} {p}" for m, p in paths} for paths in (page.paths, api.paths)))
    for (method, path), parameters in api.paths.items():
        if (method, path) in page.paths:
            problems += missing_and_extra(f"{method.upper()} {path} parameter ", page.paths[method, path], parameters)
    for name, values in api.enums.items():
        if name in page.enums:
            problems += missing_and_extra(f"{name} value ", set(page.enums[name]), set(values))
    for name, kind in api.scalars.items():
        if page.scalars.get(name, kind) != kind:
            problems.append(f"scalar {name}: is {kind}, the page has {page.scalars[name]}: correct the page")
    count = 0
    for name, fields in api.objects.items():
        rows = page.schemas.get(name)
        if rows is None:
            continue
        count += len(fields)
        problems += missing_and_extra(f"{name}.", set(rows), set(fields))
        problems += missing_and_extra(f"{name}: {ALL_OF}", page.included[name], api.included[name])
        for field in fields.keys() & rows.keys():
            (schema, required), row, at = fields[field], rows[field], f"{name}.{field}"
            if plain(row.get("type", "")) != api.type(schema):
                problems.append(f"{at}: has the type {api.type(schema)}, the page has {plain(row.get('type', ''))}: correct the page")
            problems += check_default(at, row, schema, required, name in api.sent)
    sizes = f"{count} fields of {len(api.objects)} schemas, {len(api.enums)} enumerations, {len(api.paths)} operations"
    return problems, f"check-resources: {sizes}"


def main():
    problems, summary = check((ROOT / PAGE).read_text(), json.loads((ROOT / API).read_text()))
    for problem in problems:
        print(f"check-resources: {problem}", file=sys.stderr)
    print(f"{summary}, {len(problems)} problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
