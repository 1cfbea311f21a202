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

# A section that the rows of these tests answer.
LIST = "L 1.2 section 00 \nT 1.2 section 00 \n"


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

    def check(self, *rows, listed=LIST, draft=None):
        listed = conformance.drafts.read_list(listed)
        return conformance.check(self.root, "\n".join(rows), conformance.read_lists(LISTED), listed, draft)

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
        rows, listed = conformance.read_lists(LISTED), conformance.drafts.read_list(LIST)
        text = GOOD + "\n" + GOOD.replace("L-", "T-")
        for letter in "LT":
            problems, summary = conformance.check(self.root, text, rows, listed, None, letter)
            self.assertEqual((problems, summary.split(": ")[1][:6]), ([], "1 rows"))

    def test_unused_code_and_work_for_people_have_different_messages(self):
        self.finds(self.row(f"`{FILE}:runs`", note="Note: not yet wired."), "not yet wired")
        self.finds(self.row("—", where="for people"), "who can do it")

    def test_an_empty_table_fails(self):
        self.assertEqual(len(self.check("# nothing", listed="L 1 section 00 informative")[0]), 1)

    def test_a_row_that_is_there_twice_fails(self):
        self.finds(self.check(GOOD, GOOD)[0], "twice")

    def test_a_missing_cell_fails(self):
        self.finds(self.check("| L-1.2-1 | what | `a/src/deep.rs` | — |", listed="L 1 section 00 informative")[0], "five")
        self.finds(self.check("| L-1.2-1 | what | `a/src/deep.rs` | | — |", listed="L 1 section 00 informative")[0], "five")

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
    """The list of a draft's sections and sentences, against the rows and against the draft."""

    DRAFT = """<!DOCTYPE rfc [ <!ENTITY RFC1 SYSTEM "https://example.org/1.xml"> <!ENTITY nbsp "&#160;"> ]>
    <rfc><middle><section anchor="one"><name>One</name>
    <section anchor="requirements-language"><t>"MUST" is a keyword.</t></section>
    <section anchor="two"><t>A node MUST&nbsp;do <xref target="x"/>.  It should not stop.</t>
    <ol><li>Each SHOULD continue.  All MAY end.</li></ol></section></section></middle><back>&RFC1;</back></rfc>"""

    def listed(self, *rows):
        """The draft's lines; the rows in turn are those of its sentences."""
        rows = iter(rows)
        lines = conformance.drafts.lines_of("L", self.DRAFT)
        end = {"1": "informative"}
        return "\n".join(
            " ".join((*line.text, end.get(line.section, "") if line.kind == "section" else next(rows, ""))) for line in lines
        )

    def test_entities_are_read_and_sentences_listed_by_section(self):
        lines = [(line.section, line.kind) for line in conformance.drafts.lines_of("L", self.DRAFT)]
        self.assertEqual(lines, [("1", "section"), ("1.2", "section"), *[("1.2", "sentence")] * 3])

    def test_every_sentence_needs_rows_that_are_there(self):
        problems = self.check(GOOD, listed=self.listed("L-1.2-1", "L-1.2-2"))[0]
        self.assertEqual(len(problems), 2, problems)
        self.assertIn("L-1.2-2 of drafts.txt is not in the table", problems[0])
        self.assertIn("no row answers sentence", problems[1])
        rows = [GOOD.replace("1.2-1", f"1.2-{n}") for n in (1, 2, 3)]
        listed = self.listed("L-1.2-1", "L-1.2-2", "L-1.2-3")
        self.assertEqual(self.check(*rows, listed=listed, draft=self.DRAFT)[0], [])

    def test_a_section_without_sentences_needs_a_row_or_is_informative(self):
        self.finds(self.check(GOOD, listed=LIST + "L 1.2.1 section 00")[0], "no row for this section")
        self.assertEqual(self.check(GOOD, listed=LIST + "L 1.2.1 section 00 informative")[0], [])
        self.finds(self.check(GOOD, listed="L 1.2 section 00 informative")[0], "and has rows")

    def test_a_draft_that_changed_does_not_pass(self):
        rows = [GOOD.replace("1.2-1", f"1.2-{n}") for n in (1, 2, 3)]
        listed = self.listed("L-1.2-1", "L-1.2-2", "L-1.2-3")
        changed = self.check(*rows, listed=listed, draft=self.DRAFT.replace("All MAY end", "All MUST end"))[0]
        # The section and the sentence, in the draft and in the list.
        self.assertEqual(len(changed), 4, changed)
        self.assertIn("no requirement sentence", self.check(*rows, listed=listed, draft="<middle></middle>".join(["<rfc>", "</rfc>"]))[0][0])

    def test_a_printed_draft_is_read_by_its_headings(self):
        contents = "1. Introduction .\n11. Security Considerations . . .\n"
        text = contents + "1. Introduction\n\nIt is.\n\n11.\n\nSecurity Considerations\n\nAll SHOULD limt\n\nit.\n"
        lines = [(line.section, line.kind) for line in conformance.drafts.lines_of("F", text)]
        self.assertEqual(lines, [("1", "section"), ("11", "section"), ("11", "sentence")])

    def test_the_list_of_the_repository_is_complete(self):
        listed = conformance.drafts.read_list(conformance.drafts.LIST.read_text())
        count = lambda letter: sum((line.letter, line.kind) == (letter, "sentence") for line in listed)
        self.assertEqual([count(letter) for letter in "LTF"], [32, 82, 2])


if __name__ == "__main__":
    unittest.main()
