#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What check-clocks.py must find, each in a small tree of its own: python3 scripts/test_check_clocks.py"""

import importlib.util
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ in the sources
SPEC = importlib.util.spec_from_file_location("clocks", Path(__file__).with_name("check-clocks.py"))
clocks = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(clocks)


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def check(self, sources, allowed=()):
        for path, text in sources.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        return clocks.check(self.root, list(sources), allowed)

    def test_a_source_that_reads_the_wall_clock_is_found(self):
        for text in ["let now = SystemTime::now();\n", "let t = UnixTime::now();\n", "f(UnixTime::now)\n", "ClockId::CLOCK_REALTIME\n"]:
            [line] = self.check({"a/src/x.rs": text})
            self.assertTrue(line.startswith("a/src/x.rs: reads the wall clock"), line)
        for text in ["return bpf_ktime_get_tai_ns();\n", "clock_gettime(CLOCK_REALTIME, &t);\n"]:
            self.assertEqual(len(self.check({"bpf/c/x.h": text})), 1, text)

    def test_the_monotonic_clock_and_the_type_are_not(self):
        text = "fn f(now: Monotonic, at: UnixTime) { Instant::now(); UnixTime::from_nanos(1); }\n"
        self.assertEqual(self.check({"a/src/y.rs": "/// Not `SystemTime`.\nfn f() {}\n"}), [])
        self.assertEqual(self.check({"a/src/x.rs": text, "bpf/c/x.h": "bpf_ktime_get_ns();\n"}), [])

    def test_tests_and_instruments_may_read_it(self):
        use = "SystemTime::now();\n"
        tail = "fn f() {}\n#[cfg(test)]\nmod tests {\n    fn t() { SystemTime::now(); }\n}\n"
        self.assertEqual(self.check({"a/tests/x.rs": use, "a/src/x/tests.rs": use, "e2e/lab/src/x.rs": use, "a/src/y.rs": tail}), [])
        # A module of tests in a file of its own hides nothing of this file.
        declared = "#[cfg(test)]\nmod tests;\nfn f() { SystemTime::now(); }\n"
        self.assertEqual(len(self.check({"a/src/z.rs": declared})), 1)

    def test_a_file_of_the_list_reads_it_or_leaves_the_list(self):
        self.assertEqual(self.check({"a/src/x.rs": "SystemTime::now();\n"}, {"a/src/x.rs": "why"}), [])
        [line] = self.check({"a/src/x.rs": "Instant::now();\n"}, {"a/src/x.rs": "why"})
        self.assertIn("remove it", line)

    def test_every_file_of_the_list_has_a_reason(self):
        self.assertTrue(all(len(reason) > 10 for reason in clocks.ALLOWED.values()))


if __name__ == "__main__":
    unittest.main()
