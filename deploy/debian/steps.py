# SPDX-License-Identifier: Apache-2.0
"""Runs the steps of a test in their order, and ends with the line that CI counts."""

import time


def run(test, after_failure=lambda: None, is_wanted=lambda name: True):
    """Calls every method `step_...` of `test` that is wanted, as they are written; the first that fails ends it, after `after_failure`."""
    passed = 0
    for name in (name for name in vars(type(test)) if name.startswith("step_") and is_wanted(name)):
        began = time.monotonic()
        try:
            getattr(test, name)()
        except Exception as error:
            print(f"FAILED {name[5:]}: {error}")
            after_failure()
            print(f"{passed} passed, 1 failed")
            raise SystemExit(1) from error
        passed += 1
        print(f"ok {name[5:].replace('_', ' ')} ({time.monotonic() - began:.1f} s)", flush=True)
    print(f"{passed} passed, 0 failed")
