#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How rust-mutants.py names mutants, what it finds wrong with a list, and what fails a run: python3 scripts/test_rust_mutants.py"""

import importlib.util
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ in the sources
sys.path.insert(0, str(Path(__file__).parent))
SPEC = importlib.util.spec_from_file_location("rust_mutants", Path(__file__).with_name("rust-mutants.py"))
rust_mutants = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(rust_mutants)

FILE = "a/src/b.rs"
ONE = f"{FILE}: replace + with - in Sum::add"
LIST = {"crate": "canopy-a", "path": "a", "tests": [["--lib"]], "survives": [{"names": [ONE], "reason": "a sum of nothing"}]}
SOURCE = "impl Sum {\n    fn add(self) -> u8 {\n"


def read(name):
    """The only source there is."""
    if name != FILE:
        raise FileNotFoundError(name)
    return SOURCE


def mutant(line, mutation):
    """As `cargo mutants --list --json` has it."""
    return {"file": FILE, "name": f"{FILE}:{line}:7: {mutation}"}


class Names(unittest.TestCase):
    def test_a_name_has_no_line_and_is_numbered_only_where_it_is_not_the_only_one(self):
        found = rust_mutants.labels([mutant(7, "replace + with - in f"), mutant(9, "delete ! in f"), mutant(8, "replace + with - in f")])
        self.assertEqual(
            list(found.values()), [f"{FILE}: replace + with - in f (1 of 2)", f"{FILE}: delete ! in f", f"{FILE}: replace + with - in f (2 of 2)"]
        )

    def test_the_function_is_found_in_every_kind_of_mutation(self):
        for mutation, function in {
            "replace + with - in Sum::add": "add",
            "replace | with ^ in Bth::emit (2 of 4)": "emit",
            "replace <impl Display for Problem>::fmt -> fmt::Result with Ok(Default::default())": "fmt",
            "replace put24 with ()": "put24",
            "replace <impl From<View<'_>> for Hmac>::from -> Self with Default::default()": "from",
            "delete match arm 1 in padding": "padding",
            "replace match guard a > b with true in Map::find": "find",
            "delete field metric from struct Cnp expression in body": "body",
            "replace + with -": None,
            "replace >> with <<": None,
        }.items():
            self.assertEqual(rust_mutants.function_of(f"{FILE}: {mutation}"), function, mutation)


class Check(unittest.TestCase):
    def finds(self, words, **change):
        wrong = rust_mutants.check({k: v for k, v in {**LIST, **change}.items() if v is not None}, read)
        self.assertEqual(len(wrong), 1, wrong)
        self.assertIn(words, wrong[0])

    def entry(self, name, reason="it adds nothing"):
        return [{"names": [name], "reason": reason}]

    def test_a_list_of_mutants_that_exist_is_right(self):
        self.assertEqual(rust_mutants.check(LIST, read), [])
        self.assertEqual(rust_mutants.check({**LIST, "survives": self.entry(f"{FILE}: replace + with -")}, read), [])
        self.assertEqual(rust_mutants.check({k: v for k, v in LIST.items() if k != "survives"}, read), [])

    def test_file_and_function_must_exist(self):
        self.finds("has no function subtract", survives=self.entry(f"{FILE}: replace + with - in Sum::subtract"))
        self.finds("c.rs", survives=self.entry("a/src/c.rs: replace + with - in f"))
        self.finds("is not in a", survives=self.entry("ab/src/b.rs: replace + with - in Sum::add"))

    def test_every_explanation_has_one_reason_and_every_mutant_one_explanation(self):
        self.finds("reason", survives=self.entry(ONE, " "))
        self.finds("reason", survives=[{"names": [], "reason": "it adds nothing"}])
        self.finds("and nothing else", survives=[{"names": [ONE], "reason": "so", "because": "of that"}])
        self.finds("twice", survives=self.entry(ONE) + self.entry(ONE))
        self.finds("['crate']", crate=None)
        self.finds("['file']", file="b.rs")


class After(unittest.TestCase):
    def test_what_one_set_of_tests_has_found_stays_found(self):
        first = rust_mutants.after({"a": "was not tested", "b": "was not tested"}, {"a": "CaughtMutant", "b": "MissedMutant"}, [])
        second = rust_mutants.after(first, {"a": "MissedMutant", "b": "CaughtMutant"}, ["b"])
        self.assertEqual(second, {"a": "CaughtMutant", "b": "CaughtMutant"})


class Judge(unittest.TestCase):
    def judge(self, **results):
        return rust_mutants.judge({ONE: "MissedMutant", **results}, LIST)

    def test_found_and_explained_mutants_are_right_and_counted(self):
        bad, count = self.judge(a="CaughtMutant", b="Timeout", c="Unviable")
        self.assertEqual(bad, [])
        self.assertEqual(dict(count), {"total": 4, "killed": 2, "endless": 1, "unviable": 1, "explained": 1})

    def test_a_survivor_without_an_explanation_fails_the_run(self):
        bad, count = self.judge(a="MissedMutant")
        self.assertEqual((bad, count["survived"]), (["a: survived"], 1))

    def test_an_explained_mutant_that_a_test_finds_fails_the_run(self):
        for result in ("CaughtMutant", "Timeout", "Unviable"):
            self.assertEqual(rust_mutants.judge({ONE: result}, LIST)[0], [f"{ONE}: is explained, but {result}"])
        self.assertEqual(rust_mutants.judge({}, LIST)[0], [f"{ONE}: is explained, but does not exist"])

    def test_a_mutant_that_was_not_tested_fails_the_run(self):
        self.assertEqual(self.judge(a="was not tested")[0], ["a: was not tested"])


if __name__ == "__main__":
    unittest.main()
