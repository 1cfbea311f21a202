#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What check-words.py must find, each in a small tree of its own: python3 scripts/test_check_words.py"""

import importlib.util
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ in the sources
SPEC = importlib.util.spec_from_file_location("words", Path(__file__).with_name("check-words.py"))
words = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(words)

ALL = (
    "told tell tells telling said say says saying spoken spoke speak speaks speaking speech speaker mouth heard hear hears "
    "hearing unheard obey obeys obeyed obeying guilty complain complains complained complaint blame blames blamed vacant "
    "warming also_from nobody somebody whom whoever look looks looked looking goes_on go_on went_on it_is_so at_work is_over"
).split()


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)
        return path

    def check(self, paths, exempt_paths=(), exempt_phrases=()):
        return words.check(self.root, paths, exempt_paths, exempt_phrases)

    def found(self, text):
        """The words found in `text`, as written, with their lines."""
        return [(line, word) for line, word, _ in words.hits_in(text)]


class Words(Tree):
    def test_every_word_of_the_list_is_a_hit_in_every_case(self):
        for word in ALL:
            for text in (f"fn f_{word}_x()", f"F_{word.upper()}"):
                self.assertEqual(len(self.found(text)), 1, text)
            sentence = f"// {word.replace('_', ' ')} ."
            self.assertEqual(len(self.found(sentence)), word not in words.IDENTIFIERS_ONLY, sentence)

    def test_identifiers_are_split(self):
        hits = [(1, w) for w in ("heard", "Heard", "say", "HEARD")]
        self.assertEqual(self.found("let heard_ack = HeardAck2; sayNak(HEARD)"), hits)
        self.assertEqual(self.found("alsoFrom ALSO_FROM"), [(1, "alsoFrom"), (1, "ALSO_FROM")])

    def test_a_part_of_another_word_is_no_hit(self):
        self.assertEqual(self.found("hearth overlook lookup bpf_map_lookup_elem essay intell Lookups mouthful"), [])

    def test_a_table_is_looked_up(self):
        self.assertEqual(self.found("Looks up the group, look_up(), lookUp, looking up"), [])
        self.assertEqual(self.found("looks at it. Up there"), [(1, "looks")])

    def test_phrases_are_found_in_a_sentence_across_lines_and_in_names(self):
        text = "fn it_is_so() {}\n/// the pause is\n/// over\n# everything\n# goes on\n"
        self.assertEqual(self.found(text), [(1, "it_is_so"), (2, "is over"), (5, "goes on")])

    def test_words_of_two_sentences_are_no_phrase(self):
        self.assertEqual(self.found("where it is. Over there; at, work; go (on), also from 12"), [])

    def test_a_hit_has_file_line_word_and_replacement(self):
        path = self.write("a/b.rs", "fn f() {}\n// the node tells it\n")
        problems, files, _ = self.check([path])
        self.assertEqual(problems, ["a/b.rs:2: tells -> send, report, publish; feedback (noun)"])
        self.assertEqual(files, 1)

    def test_the_name_of_a_file_counts(self):
        self.assertIn("in the file's name", self.check([self.write("a/speak.rs", "")])[0][0])


class Files(Tree):
    def test_sources_documents_and_scripts_are_read(self):
        names = "a.rs a.c a.h a.proto a.py a.sh a.md a.toml a.yaml a.json Makefile deep/Makefile".split()
        paths = [self.write(name, "tell\n") for name in names] + [self.write("run", "#!/bin/sh\n# tell\n")]
        problems, files, _ = self.check(paths)
        self.assertEqual((len(problems), files), (len(paths), len(paths)))

    def test_others_texts_and_data_are_not_read(self):
        names = "Cargo.lock x/Cargo.lock LICENSE LICENSES/a.md a.pcap scripts/check-words.py data".split()
        self.assertEqual(self.check([self.write(name, "tell\n") for name in names])[:2], ([], 0))

    def test_a_file_that_is_gone_is_not_read(self):
        self.assertEqual(self.check(["gone.rs"])[:2], ([], 0))

    def test_git_gives_tracked_and_new_files_but_no_ignored_ones(self):
        subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)
        self.write(".gitignore", "target\n")
        self.write("a.rs", "")
        self.write("target/b.rs", "")
        self.assertEqual(words.known_to_git(self.root), [".gitignore", "a.rs"])


class Exemptions(Tree):
    def test_an_exempt_path_and_an_exempt_phrase_are_no_hits(self):
        paths = [self.write("x/a.rs", "tell"), self.write("b.rs", 'f.tell()\n"He said so"\n')]
        self.assertEqual(self.check(paths, ["x/*"], ["f.tell()", '"He said so"']), ([], 1, []))

    def test_only_the_exact_phrase_is_exempt(self):
        problems, _, _ = self.check([self.write("b.rs", "f.tell() tell\n")], [], ["f.tell()"])
        self.assertEqual(len(problems), 1)

    def test_an_exemption_that_is_not_needed_is_reported(self):
        unused = self.check([self.write("b.rs", "")], ["x/*"], ["f.tell()"])[2]
        self.assertEqual(unused, ["x/*", "f.tell()"])

    def test_every_exemption_has_a_reason(self):
        for reason in [*words.EXEMPT_PATHS.values(), *words.EXEMPT_PHRASES.values()]:
            self.assertGreater(len(reason), 10)


if __name__ == "__main__":
    unittest.main()
