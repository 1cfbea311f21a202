#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The words of docs/glossary.md as a TypeScript module, which the web UI shows where a word stands.

    scripts/glossary.py > web/src/ui/glossary.ts

A row of a table of that document is one entry; its first cell may name several words, separated by commas. What a name has in parentheses is
left out of the key. Links become their text, and a reference to another document of Canopy is left out: pages do not have it.
"""

import json
import re
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "docs" / "glossary.md"
HEADER = """// SPDX-License-Identifier: Apache-2.0
// Generated from docs/glossary.md by scripts/glossary.py: change the document, then scripts/web.sh build.

/** What a word means, and the specification that defines it. */
interface Entry {
  /** As the document has it, with the words that are explained together. */
  name: string;
  meaning: string;
  from?: string;
}

"""


def rows(text):
    """Cells of every row of the document's tables, without their headings."""
    for line in text.splitlines():
        if not line.startswith("| ") or line.startswith("| term |"):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split(" |")]
        if len(cells) != 3:
            raise ValueError(f"not three cells: {line}")
        yield cells


def plain(text):
    """Without the addresses of links."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def reference(cell):
    """The specifications of a cell; documents of Canopy are left out."""
    return "; ".join(part for part in cell.split("; ") if part and "](" not in part)


def keys(name):
    """The words that a name has: "PSP, USD" two, "uSID (NEXT-CSID)" one."""
    return [" ".join(word.split()) for word in re.sub(r"\([^)]*\)", "", name).split(",")]


def entries(text):
    """Each word with its name, meaning and reference; a word that is explained twice is an error."""
    found = {}
    for name, meaning, source in rows(text):
        entry = {"name": name, "meaning": plain(meaning)} | ({"from": reference(source)} if reference(source) else {})
        for key in keys(name):
            if key in found:
                raise ValueError(f"explained twice: {key}")
            found[key] = entry
    return found


def module(text):
    """The TypeScript module."""
    lines = [f"  {json.dumps(key)}: {json.dumps(entry, ensure_ascii=False)}," for key, entry in entries(text).items()]
    return f"{HEADER}export const GLOSSARY = {{\n" + "\n".join(lines) + "\n} as const satisfies Record<string, Entry>;\n\nexport type Word = keyof typeof GLOSSARY;\n"


if __name__ == "__main__":
    sys.stdout.write(module(SOURCE.read_text(encoding="utf-8")))
