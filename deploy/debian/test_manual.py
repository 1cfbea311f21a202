#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pages that manual.py makes, from programs that print what clap prints."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ in the sources
import manual  # noqa: E402

SHORT = """Does things.

Second paragraph, with -x and \\.
.dot first

Usage: thing [OPTIONS] <COMMAND>

Commands:
  run   Runs the thing, and what it needs, for as long as
        it takes
  help  Print this message

Options:
      --file <FILE>  A file [env: THING_FILE=]
  -h, --help         Print help

Exit codes: 0 done;
1 not.
"""
LONG = """Runs

Usage: thing run [OPTIONS]

Options:
      --kind <KIND>
          Which one

          Possible values:
          - a: The first
          - b: The second, which has a text that
            goes over two lines

  -h, --help
          Print help
"""


class Pages(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        top = Path(self.directory.name)
        (top / "short").write_text(SHORT)
        (top / "long").write_text(LONG)
        self.program = top / "thing"
        self.program.write_text(
            f'#!/bin/sh\ncase "$*" in "--version") echo thing 1.2;; "--help") cat {top}/short;; "run --help") cat {top}/long;; *) exit 2;; esac\n'
        )
        self.program.chmod(0o755)
        self.out = top / "man"
        self.out.mkdir()

    def page(self, name):
        return (self.out / name).read_text().splitlines()

    def test_there_is_a_page_for_each_command_but_help(self):
        self.assertEqual(manual.write(str(self.program), 8, self.out), ["thing", "thing-run"])
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["thing-run.8", "thing.8"])
        self.assertIn("\\fBthing\\fR(8)", self.page("thing-run.8"))
        self.assertIn("\\fBthing\\-run\\fR(8)", self.page("thing.8"))

    def test_items_have_their_whole_text_and_nothing_is_a_request_of_troff(self):
        manual.write(str(self.program), 8, self.out)
        page = self.page("thing.8")
        self.assertEqual(page[:3], ['.TH THING 8 "" "Canopy 1.2" "Canopy"', ".SH NAME", "thing \\- Does things"])
        at = page.index("\\fBrun\\fR")
        self.assertEqual(page[at + 1 : at + 3], ["Runs the thing, and what it needs, for as long as", "it takes"])
        self.assertIn("A file [env: THING_FILE]", page)
        self.assertIn("\\&.dot first", page)
        self.assertIn("Second paragraph, with \\-x and \\e.", page)
        self.assertEqual(page[page.index(".SH NOTES") + 1], "Exit codes: 0 done;")

    def test_values_are_lines_of_their_own(self):
        manual.write(str(self.program), 8, self.out)
        page = self.page("thing-run.8")
        at = page.index("\\- a: The first")
        self.assertEqual(page[at - 1], ".br")
        self.assertEqual(page[at + 1 : at + 4], [".br", "\\- b: The second, which has a text that", "goes over two lines"])

    def test_a_program_that_fails_is_an_error(self):
        with self.assertRaisesRegex(SystemExit, "other --help"):
            manual.help_of(str(self.program), ["other"])


if __name__ == "__main__":
    unittest.main()
