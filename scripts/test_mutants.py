#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What mutants.py finds wrong with a list of faults, and makes of the output of tests: python3 scripts/test_mutants.py"""

import importlib.util
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ in the sources
SPEC = importlib.util.spec_from_file_location("mutants", Path(__file__).with_name("mutants.py"))
mutants = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(mutants)

FAULT = {"name": "a sum is a difference", "file": "a.h", "old": "a + b", "new": "a - b", "tests": ["sum"]}
SOURCE = "return a + b;\nreturn a * b;\n"


def read(name):
    """The only source there is."""
    if name != "a.h":
        raise FileNotFoundError(name)
    return SOURCE


class Check(unittest.TestCase):
    def finds(self, words, **change):
        wrong = mutants.check([{k: v for k, v in {**FAULT, **change}.items() if v is not None}], read)
        self.assertEqual(len(wrong), 1, wrong)
        self.assertIn(words, wrong[0])

    def test_a_fault_that_applies_is_right(self):
        self.assertEqual(mutants.check([FAULT, {**FAULT, "name": "another", "survives": "it cannot be reached"}], read), [])

    def test_a_fault_must_apply_once_and_change_something(self):
        self.finds("0 times", old="a / b")
        self.finds("2 times", old="return a")
        self.finds("changes nothing", new="a + b")
        self.finds("b.h", file="b.h")

    def test_every_key_is_known_and_none_is_missing(self):
        self.finds("['old']", old="")
        self.finds("['tests']", tests=None)
        self.finds("['because']", because="of that")
        self.finds("no reason", survives=" ")
        self.assertIn("twice", mutants.check([FAULT, FAULT], read)[0])


class Crate(unittest.TestCase):
    def test_a_fault_is_found_by_the_crate_that_loads_the_program(self):
        for file, crate in (("steer/probe.h", "canopy-steer"), ("steer.bpf.c", "canopy-steer"), ("node/path.h", "canopy-datapath")):
            self.assertEqual(mutants.crate_of({**FAULT, "file": file})[0], crate)
        for name, directory in mutants.CRATES.values():
            self.assertIn(f'name = "{name}"', (mutants.ROOT / directory / "Cargo.toml").read_text())


class Verdict(unittest.TestCase):
    def test_a_fault_survives_only_where_every_test_passed(self):
        self.assertIsNone(mutants.verdict("test sum ... ok\n\ntest result: ok. 1 passed; 0 failed\n", 0))
        self.assertEqual(mutants.verdict("test sum ... FAILED\n\ntest result: FAILED. 0 passed\n", 101), "killed by sum")
        self.assertEqual(mutants.verdict("", 139), "killed: the tests did not end")

    def test_a_program_that_the_verifier_refuses_proves_nothing(self):
        refused = "test sum ... FAILED\nlibbpf: prog 'canopy_forward': -- BEGIN PROG LOAD LOG --\ntest result: FAILED. 0 passed\n"
        self.assertEqual(mutants.verdict(refused, 101), "refused by the verifier")


if __name__ == "__main__":
    unittest.main()
