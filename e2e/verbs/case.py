# SPDX-License-Identifier: Apache-2.0
"""Shared by every test of the VM: one bed, and the checks that hold after any transfer."""

import subprocess
import unittest

import bed as b
import work as w

RTS = 3


class Case(unittest.TestCase):
    """A test with the bed; before and after it the kernel must not have reported an error."""

    maxDiff = 2000
    bed = None
    # A line that the kernel may log about RDMA devices in a test of this class.
    expected = None

    @classmethod
    def setUpClass(cls):
        if Case.bed is None:
            Case.bed = b.Bed()

    def setUp(self):
        self.checked = b.IcrcChecks.read()
        subprocess.run(["dmesg", "--clear"], check=True)

    def tearDown(self):
        good, bad = (now - before for now, before in zip(b.IcrcChecks.read(), self.checked))
        self.assertEqual(bad, 0, f"RDMA devices found {bad} wrong ICRCs and {good} right ones")
        self.assertGreater(good, 0, "no RDMA device checked any ICRC: the probe or the traffic is missing")
        dmesg = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout.splitlines()
        unexpected = [line for line in dmesg if "rxe" in line and not (self.expected and self.expected in line)]
        self.assertEqual(unexpected, [], "unexpected kernel messages of rdma_rxe")

    def run_transfer(self, t):
        """Runs a transfer to its end and checks all of it."""
        t.start()
        self.check_source(t.source.wait("done"))
        self.check_receivers(t)

    def check_source(self, done):
        """Every operation succeeded."""
        self.assertEqual(set(done["status"]), {"SUCCESS"}, done)

    def check_receivers(self, t, receivers=None):
        """Every receiver got every message, in order, with its immediate, and has exactly the bytes it should have."""
        consuming = [o for o in t.work if o["op"] in w.CONSUMES]
        for process in receivers or t.receivers:
            done = process.wait("done")
            self.assertEqual(set(done["status"]), {"SUCCESS"}, process.host)
            self.assertEqual(done["sizes"], [o["size"] for o in consuming], process.host)
            self.assertEqual(done["imm"], [o["imm"] if o["op"] in w.IMM else None for o in consuming], process.host)
            memory = process.memory()
            self.assertEqual(memory["sha256"], t.expected(), f"memory of {process.host}")
            self.assertEqual(memory["qp_state"], RTS, process.host)
