#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which faults of a guest's kernel are the emulator's: python3 scripts/test_guest_fault.py"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).with_name("guest_fault.py")

# As Linux 6.12 printed it in QEMU 7.2: the instruction before the place is the second byte of a NOP, 66 90.
REMOVED = """\
[    9.100000] lab: up
[    9.337533] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI
[    9.338298] CPU: 0 UID: 0 PID: 189 Comm: bash Not tainted 6.12.95+deb12-amd64 #1
[    9.338673] RIP: 0010:set_next_entity+0x55/0x1b0
[    9.339380] Code: 83 bc 24 a8 0f 85 15 01 00 00 48 89 5d 50 66 <90> 48 8b 43 60 48 89 43 68
[    9.340813] Call Trace:
[    9.345856] Kernel panic - not syncing: Fatal exception in interrupt
"""
# The same of Linux 6.1, which has no `Oops: ` before it.
REMOVED_6_1 = REMOVED.replace("Oops: int3", "int3")
STANDING = REMOVED.replace("50 66 <90>", "50 cc <90>")
WITHOUT_CODE = "\n".join(line for line in REMOVED.splitlines() if "Code:" not in line)
PAGE_FAULT = """\
[   12.000000] BUG: kernel NULL pointer dereference, address: 0000000000000010
[   12.000001] Oops: Oops: 0000 [#1] PREEMPT SMP NOPTI
[   12.000002] Code: 83 bc 24 a8 <8b> 43 60
"""


class GuestFault(unittest.TestCase):
    def judge(self, *logs):
        """Exit code and standard error for these logs, None being one that does not exist."""
        with tempfile.TemporaryDirectory() as directory:
            paths = [Path(directory, str(number)) for number in range(len(logs))]
            for path, log in zip(paths, logs):
                if log is not None:
                    path.write_text(log)
            done = subprocess.run([sys.executable, SCRIPT, *paths], capture_output=True, text=True, check=False)
            return done.returncode, done.stderr

    def test_a_breakpoint_that_is_no_longer_there_is_the_emulators(self):
        for log in (REMOVED, REMOVED_6_1):
            code, printed = self.judge(log, None)
            self.assertEqual(code, 3)
            self.assertIn("RIP: 0010:set_next_entity", printed)
            self.assertNotIn("lab: up", printed)

    def test_a_breakpoint_that_stands_is_the_kernels(self):
        self.assertEqual(self.judge(STANDING)[0], 1)

    def test_without_the_bytes_nothing_is_excused(self):
        self.assertEqual(self.judge(WITHOUT_CODE)[0], 1)

    def test_a_breakpoint_behind_another_fault_excuses_nothing(self):
        self.assertEqual(self.judge(PAGE_FAULT + REMOVED)[0], 1)
        self.assertEqual(self.judge(REMOVED.replace("#1", "#2"))[0], 1)
        self.assertEqual(self.judge(REMOVED, PAGE_FAULT)[0], 1)

    def test_other_faults_are_the_kernels(self):
        self.assertEqual(self.judge(PAGE_FAULT)[0], 1)

    def test_a_log_without_faults_is_quiet(self):
        self.assertEqual(self.judge("[    1.0] fine\n", None), (0, ""))
        self.assertEqual(self.judge(None), (0, ""))


if __name__ == "__main__":
    unittest.main()
