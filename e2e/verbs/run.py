#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Canopy with unmodified RDMA hosts. Runs in the VM: scripts/verbs-vm.sh -- python3 e2e/verbs/run.py [--only NAME]..."""

import argparse
import os
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
if sys.executable != "/usr/bin/python3":
    # pyverbs is a module of the distribution's interpreter.
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])
sys.path.insert(0, str(Path(__file__).resolve().parent))


def selected(suite, only):
    """Tests whose full name contains any of `only`, in definition order."""
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from selected(item, only)
        elif not only or any(o in item.id() for o in only):
            yield item


class Result(unittest.TextTestResult):
    """Prints at once what failed: a later test may never end."""

    def addError(self, test, err):
        super().addError(test, err)
        self.stream.writeln(self.errors[-1][1])

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.stream.writeln(self.failures[-1][1])

    def printErrors(self):
        """Already printed."""


def main():
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="part of a test's name; may be given again")
    parser.add_argument("--list", action="store_true", help="list the tests")
    args = parser.parse_args()
    loader = unittest.TestLoader()
    loader.sortTestMethodsUsing = None
    here = Path(__file__).resolve().parent
    tests = list(selected(loader.discover(str(here / "cases"), top_level_dir=str(here / "cases")), args.only))
    if args.list:
        print("\n".join(t.id() for t in tests))
        return 0
    if not tests:
        print(f"no test's name contains any of {args.only}; --list names them", file=sys.stderr)
        return 2
    # In this directory, like the tests.
    from case import Case

    try:
        result = unittest.TextTestRunner(verbosity=2, resultclass=Result).run(unittest.TestSuite(tests))
    finally:
        if Case.bed:
            Case.bed.down()
    if loader.errors:
        print("\n".join(loader.errors), file=sys.stderr)
        return 1
    failed = len({test.id() for test, _ in result.failures + result.errors})
    print(f"verbs on Linux {os.uname().release}: {result.testsRun - failed} of {result.testsRun} passed")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
