#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What fuzz.py makes of the output of a target, and the seeds: python3 scripts/test_fuzz.py"""

import contextlib
import importlib.util
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ in the sources
SPEC = importlib.util.spec_from_file_location("fuzz", Path(__file__).with_name("fuzz.py"))
fuzz = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(fuzz)

GOOD = "#2\tINITED cov: 90 ft: 91\n#4096\tNEW    cov: 130 ft: 200\nDone 250000 runs in 16 second(s)\n"


class Fuzz(unittest.TestCase):
    def test_a_run_is_judged_by_its_end_its_coverage_and_its_inputs(self):
        self.assertEqual(fuzz.verdict(GOOD, 0), (None, 250000))
        self.assertEqual(fuzz.verdict(GOOD, 77)[0], "failed")
        self.assertEqual(fuzz.verdict("==1== ERROR: libFuzzer: deadly signal\n", 0)[0], "failed")
        self.assertIn("not instrumented", fuzz.verdict("#2 INITED\nDone 250000 runs in 16 second(s)\n", 0)[0])
        self.assertIn("tried 9 inputs", fuzz.verdict(GOOD.replace("250000", "9"), 0)[0])

    def test_a_failed_target_fails_the_run_and_is_counted(self):
        crash = "panicked\nTest unit written to /x/target/corpus/srh-crash-1\n"
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = fuzz.report({"frame": (None, 5, GOOD), "srh": ("failed", 0, crash)})
        self.assertEqual(code, 1)
        self.assertIn("repeat with: /x/target/*/release/srh /x/target/corpus/srh-crash-1", out.getvalue())
        self.assertTrue(out.getvalue().endswith("test result: FAILED. 1 passed; 1 failed; 0 ignored;\n"))
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(fuzz.report({"frame": (None, 5, GOOD)}), 0)

    def test_seeds_are_the_captured_packets(self):
        with tempfile.TemporaryDirectory() as directory:
            fuzz.seed(Path(directory))
            seeds = [path.read_bytes() for path in Path(directory).glob("*-14")]
        self.assertGreater(len(seeds), 50)
        self.assertEqual({octets[0] >> 4 for octets in seeds}, {6}, "all begin with an IPv6 header")

    def test_every_file_is_a_target(self):
        files = sorted(path.stem for path in (fuzz.FUZZ / "fuzz_targets").glob("*.rs"))
        self.assertEqual(sorted(fuzz.targets()), files)


if __name__ == "__main__":
    unittest.main()
