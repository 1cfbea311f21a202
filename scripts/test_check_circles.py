#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check-circles.py: run by `make lint`."""

import importlib.util
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # no __pycache__ in the sources
HERE = pathlib.Path(__file__).resolve().parent
SPEC = importlib.util.spec_from_file_location("check_circles", HERE / "check-circles.py")
circles = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(circles)


def found(**files):
    """Circles of a crate with these files, as sorted lists of names."""
    with tempfile.TemporaryDirectory() as top:
        for name, text in files.items():
            path = pathlib.Path(top, "src", *name.split("__")).with_suffix(".rs")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return [sorted(path.stem for path, _ in circle) for circle in circles.check(pathlib.Path(top))]


class Circles(unittest.TestCase):
    """What is a circle, and what is none."""

    def test_two_files_that_name_each_other(self):
        self.assertEqual(found(lib="mod a;", a="use crate::b::B;", b="fn f(_: super::a::A) {}"), [["a", "b"]])

    def test_a_circle_through_a_third_file_and_a_list(self):
        files = {"a": "use crate::{x, b::{B, C}};", "b": "use crate::c;", "c": "fn f() { crate::a::g() }"}
        self.assertEqual(found(lib="", x="", **files), [["a", "b", "c"]])

    def test_one_way_is_no_circle(self):
        self.assertEqual(found(lib="use crate::a;", a="use crate::b::B;", b="// use crate::a::A;"), [])

    def test_a_module_and_what_is_in_it_are_one(self):
        self.assertEqual(found(lib="", a="use crate::a::in_it::X;", a__in_it="use super::Y;"), [])

    def test_a_comment_justifies(self):
        self.assertEqual(found(lib="", a="// Circle: for a reason.\nuse crate::b::B;", b="use crate::a::A;"), [])

    def test_tests_are_left_out(self):
        text = "use crate::b::B;"
        self.assertEqual(found(lib="", a=text, b="#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}"), [])


if __name__ == "__main__":
    unittest.main()
