#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What check-conformance.py must find, each in a small tree of its own: python3 scripts/test_check_conformance.py"""

import importlib.util
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ in the sources
SPEC = importlib.util.spec_from_file_location("conformance", Path(__file__).with_name("check-conformance.py"))
conformance = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(conformance)

SOURCE = """
#[test]
fn runs() {
}

/// Both of these are listed by cargo.
#[test]
#[ignore = "slow"]
fn ignored() {
}

#[tokio::test(
    flavor = "multi_thread",
)]
async fn waits() {
}

proptest! {
    #[test]
    // #[ignore]
    fn holds(x: u8) {
    }
}

// #[test]
fn helper() {
}

#[test]
#[cfg(windows)]
fn elsewhere() {
}
"""
LISTED = """
   Compiling a-crate v0.1.0
     Running unittests src/lib.rs (target/debug/deps/a_crate-0123456789abcdef)
deep::tests::runs: test
deep::tests::ignored: test
deep::tests::waits: test
deep::tests::holds: test

4 tests, 0 benchmarks
     Running tests/whole.rs (target/debug/deps/whole-0123456789abcdef)
runs: test
part::runs: test
   Doc-tests a_crate
elsewhere: test
"""
FILE = "a/src/deep.rs"
GOOD = f"| L-1.2-1 | what | `{FILE}` | `{FILE}:runs` | — |"


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for path, text in {
            FILE: SOURCE,
            "a/tests/whole.rs": SOURCE,
            "a/tests/quiet.rs": SOURCE,
            "a/Cargo.toml": '[package]\nname = "a-crate"\n',
        }.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)

    def check(self, *rows, draft=None):
        return conformance.check(self.root, "\n".join(rows), conformance.read_lists(LISTED), draft)

    def row(self, tests, where=f"`{FILE}`", note="—"):
        return self.check(f"| L-1.2-1 | what | {where} | {tests} | {note} |")[0]

    def finds(self, problems, *words):
        self.assertEqual(len(problems), 1, problems)
        for word in ("L-1.2", *words):
            self.assertIn(word, problems[0])


class Tests(Tree):
    def test_what_runs_passes(self):
        self.assertEqual(self.row(f"`{FILE}:runs`, `{FILE}:waits`, `{FILE}:holds`, `a/tests/whole.rs:runs`"), [])

    def test_a_missing_name_fails(self):
        self.finds(self.row(f"`{FILE}:gone`"), "no fn gone")

    def test_a_prefix_of_a_name_is_not_the_name(self):
        self.finds(self.row(f"`{FILE}:run`"), "no fn run:")

    def test_a_missing_file_fails(self):
        self.finds(self.row("`a/src/gone.rs:runs`"), "a/src/gone.rs does not exist")

    def test_an_ignored_test_fails_although_it_is_listed(self):
        self.finds(self.row(f"`{FILE}:ignored`"), "ignored")

    def test_what_is_no_test_fails(self):
        self.finds(self.row(f"`{FILE}:helper`"), "is not a test")

    def test_a_test_that_is_not_in_the_list_fails(self):
        self.finds(self.row(f"`{FILE}:elsewhere`"), "cargo does not run elsewhere")

    def test_the_same_name_in_another_program_does_not_count(self):
        self.finds(self.row("`a/tests/quiet.rs:runs`"), "cargo does not run runs")

    def test_one_bad_test_among_good_ones_fails(self):
        self.finds(self.row(f"`{FILE}:runs`, `{FILE}:ignored`"), "ignored")


class Rows(Tree):
    def test_the_counts(self):
        problems, summary = self.check(
            GOOD,
            f"| L-1.2-2 | what | `{FILE}` | `{FILE}:waits` | Deviation 1.1: hard to reach |",
            "| L-1.2-3a | what | not implemented | — | Reason: not needed |",
            "| L-1.2-4 | what | for people | — | Note: who runs the network |",
        )
        self.assertEqual(problems, [])
        self.assertEqual(
            summary,
            "conformance to draft-li-spring-rdma-multicast-over-srv6: 4 rows, 2 tested, 1 deviating, "
            "1 not implemented, 1 for people",
        )

    def test_each_table_has_its_rows(self):
        rows = conformance.read_lists(LISTED)
        text = GOOD + "\n" + GOOD.replace("L-", "T-")
        for letter in "LT":
            problems, summary = conformance.check(self.root, text, rows, None, letter)
            self.assertEqual((problems, summary.split(": ")[1][:6]), ([], "1 rows"))

    def test_unused_code_and_work_for_people_have_different_messages(self):
        self.finds(self.row(f"`{FILE}:runs`", note="Note: not yet wired."), "not yet wired")
        self.finds(self.row("—", where="for people"), "who can do it")

    def test_an_empty_table_fails(self):
        self.assertEqual(len(self.check("# nothing")[0]), 1)

    def test_a_row_that_is_there_twice_fails(self):
        self.finds(self.check(GOOD, GOOD)[0], "twice")

    def test_a_missing_cell_fails(self):
        self.finds(self.check("| L-1.2-1 | what | `a/src/deep.rs` | — |")[0], "five")
        self.finds(self.check("| L-1.2-1 | what | `a/src/deep.rs` | | — |")[0], "five")

    def test_prose_instead_of_a_test_fails(self):
        self.finds(self.row("covered by e2e"), "write the tests as")
        self.finds(self.row(f"`{FILE}:runs` and others"), "write the tests as")
        self.finds(self.row("—"), "write the tests as")

    def test_what_is_missing_needs_a_reason_and_has_no_test(self):
        self.finds(self.row("—", where="not implemented"), "why it is not implemented")
        self.finds(self.row("no test", note="Note: hard to reach"), "write the tests as")
        self.finds(self.row(f"`{FILE}:runs`", where="not implemented", note="Reason: x"), "no test can show it")

    def test_the_implementation_must_exist(self):
        self.finds(self.row(f"`{FILE}:runs`", where="`a/src/gone.rs`"), "a/src/gone.rs does not exist")
        self.finds(self.row(f"`{FILE}:runs`", where="somewhere"), "name the file")


class Draft(Tree):
    DRAFT = """<rfc><middle><section anchor="one"><name>One</name>
    <section anchor="requirements-language"><t>"MUST" is a keyword.</t></section>
    <section anchor="two"><t>A node MUST do <xref target="x"/>.  It should not stop.</t>
    <ol><li>Each SHOULD continue.  All MAY end.</li></ol></section></section></middle></rfc>"""

    def test_sentences_are_counted_by_section(self):
        self.assertEqual(conformance.requirement_sentences(self.DRAFT), {"1.2": 3})

    def test_fewer_rows_than_sentences_fail(self):
        self.finds(self.check(GOOD, draft=self.DRAFT)[0], "3 requirement sentences but 1 rows")
        rows = [GOOD.replace("1.2-1", f"1.2-{n}") for n in (1, 2, 3)]
        self.assertEqual(self.check(*rows, draft=self.DRAFT)[0], [])


if __name__ == "__main__":
    unittest.main()
