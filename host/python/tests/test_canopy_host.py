# SPDX-License-Identifier: Apache-2.0
"""The module against the agent of host/capi/tests/c.rs, which starts this: group g is ready with 2 receivers, r9
evicted."""

import ipaddress
import os
import threading
import unittest

import canopy_host as ch

SOCKET = os.environ["CANOPY_TEST_SOCKET"]


class Module(unittest.TestCase):
    """In alphabetical order: the last one has the group deleted."""

    def setUp(self):
        self.client = ch.Client(SOCKET)
        self.addCleanup(self.client.close)

    def join(self, host, **more):
        return self.client.join("g", host, ch.Role.RECEIVER, 17, **more)

    def test_a_connection_and_leaving(self):
        by_hand = self.join("left-by-hand", memory=ch.Memory(1 << 40, 7, 4096), address="2001:db8::5")
        c = by_hand.connection
        self.assertEqual(c.proxy_address, ipaddress.IPv6Address("fcfe::7"))
        self.assertEqual((c.designated_qpn, c.start_psn, c.path_mtu), (0x123456, 0xFFFFF0, 2048))
        self.assertEqual((c.write_base_va, c.write_rkey, c.write_length), (1 << 40, 9, 0))
        by_hand.leave()
        with self.join("left-by-with") as member:
            self.assertEqual((member.group, member.host), ("g", "left-by-with"))
        with self.assertRaises(ValueError):
            member.leave()
        self.client.leave("g", "r2")
        # None of these leaves the group.
        self.join("dropped").close()
        del by_hand

    def test_b_errors(self):
        of_pod = ch.Client(SOCKET, token_file="/nonexistent/token")
        self.addCleanup(of_pod.close)
        for field, call in {
            "qpn": lambda: self.client.join("g", "r1", ch.Role.RECEIVER, 1),
            "group": lambda: self.client.join("No Name", "r1", ch.Role.RECEIVER, 17),
            "host": lambda: self.join("r\0"),
            "address": lambda: self.join("r1", address="192.0.2.1"),
            "memory": lambda: self.client.join("g", "s1", ch.Role.SOURCE, 17, memory=ch.Memory(1, 2, 3)),
            "memory.rkey": lambda: self.join("r1", memory=ch.Memory(1, 1 << 32, 3)),
            "timeout": lambda: self.join("r1", timeout=-1),
            "start_psn": lambda: self.join("r1", start_psn=7),
            "token_file": lambda: of_pod.join("g", "r1", ch.Role.RECEIVER, 17),
        }.items():
            with self.subTest(field), self.assertRaises(ch.InvalidArgument) as raised:
                call()
            self.assertEqual(raised.exception.field, field)
        with self.assertRaisesRegex(ch.NotPermitted, "uid 7"):
            self.join("theirs")
        with self.assertRaises(ch.NoSuchGroup):
            self.client.join("absent", "r1", ch.Role.RECEIVER, 17)
        with self.assertRaisesRegex(ch.SocketError, "canopy-agent running"):
            ch.Client("/nonexistent/host.sock")

    def test_c_ready(self):
        member = self.join("r1")
        self.assertEqual(member.wait_ready(2, 60), ch.Ready(2, 4096))
        with self.assertRaisesRegex(ch.TimedOut, "2 of 3 receivers"):
            member.wait_ready(3, 0.05)

    def test_d_events(self):
        events = self.join("r1").events()
        self.assertEqual(events.next(60), ch.Event(ch.EventKind.EVICTED, host="r9", reason="it was silent"))
        self.assertEqual(events.next(60), ch.Event(ch.EventKind.READY, 2, 4096))
        # Waiting keeps no other thread from running.
        ran = threading.Event()
        threading.Thread(target=ran.set).start()
        self.assertIsNone(events.next(0.05))
        self.assertTrue(ran.wait(60))
        print("watching", flush=True)
        self.assertEqual([e.kind for e in events], [ch.EventKind.DELETED])
        self.assertEqual(list(events), [])


if __name__ == "__main__":
    unittest.main()
