#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How test.py counts, and how it refuses a disk without room for a build: python3 scripts/test_test.py"""

import importlib.util
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ in the sources
SPEC = importlib.util.spec_from_file_location("test_stages", Path(__file__).with_name("test.py"))
test = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(test)


class Room(unittest.TestCase):
    def test_a_disk_that_does_not_hold_a_build_is_named_before_a_linker_fails_on_it(self):
        with tempfile.TemporaryDirectory() as directory:
            target = Path(directory, "target")
            needed = test.NEEDED_GIB << 30
            self.assertIsNone(test.lacking_room(target, free=needed))
            self.assertIn("Free 1.5 GiB", test.lacking_room(target, free=needed - (3 << 29)))
            # What is built already needs no room.
            (target / "built").write_bytes(b"x" * (1 << 21))
            self.assertIsNone(test.lacking_room(target, free=needed - (1 << 21)))


class Counts(unittest.TestCase):
    def test_the_lines_of_each_test_runner_are_counted(self):
        stage = test.Stage("x")
        for line in ["test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured\n", "      Tests  1 failed | 4 passed (5)\n", "Ran 7 tests in 0.1s\n", "FAILED (failures=1, errors=1)\n"]:
            stage.count(line)
        self.assertEqual((stage.passed, stage.failed, stage.skipped), (12, 4, 2))


if __name__ == "__main__":
    unittest.main()
