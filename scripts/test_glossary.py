#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What glossary.py makes of the document: python3 scripts/test_glossary.py"""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ in the sources
sys.path.insert(0, str(Path(__file__).resolve().parent))
import glossary  # noqa: E402

HEAD = "# Glossary\n\n| term | meaning | defined in |\n|---|---|---|\n"


class Entries(unittest.TestCase):
    def test_every_word_of_a_row_is_a_key(self):
        found = glossary.entries(HEAD + "| uN, uA | two forms of [End](paths.md#a) | RFC 9800 |\n| uSID (NEXT-CSID) | one | |\n")
        self.assertEqual(found["uN"], {"name": "uN, uA", "meaning": "two forms of End", "from": "RFC 9800"})
        self.assertEqual(found["uA"], found["uN"])
        self.assertEqual(found["uSID"], {"name": "uSID (NEXT-CSID)", "meaning": "one"})
        self.assertEqual(list(found), ["uN", "uA", "uSID"])

    def test_references_to_documents_are_left_out(self):
        found = glossary.entries(HEAD + "| a | b | RFC 1; [x.md](x.md) |\n| c | d | [x.md](x.md) |\n")
        self.assertEqual(found["a"]["from"], "RFC 1")
        self.assertNotIn("from", found["c"])

    def test_what_cannot_be_shown_is_refused(self):
        for text, reason in (("| a | b | c |\n| a | d | e |\n", "explained twice"), ("| a | b |\n", "not three cells")):
            with self.assertRaisesRegex(ValueError, reason):
                glossary.entries(HEAD + text)

    def test_the_document_itself(self):
        made = glossary.module(glossary.SOURCE.read_text(encoding="utf-8"))
        self.assertIn('"epoch": {"name": "epoch", "meaning": "version of', made)


if __name__ == "__main__":
    unittest.main()
