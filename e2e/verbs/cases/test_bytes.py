# SPDX-License-Identifier: Apache-2.0
"""Bytes that leave the source: one copy for any number of receivers."""

import subprocess

import hosts
import work as w
from bed import RECEIVERS, Process, Transfer
from case import Case

MIB = 1 << 20


class Bytes(Case):
    """Counted at the source's own interface."""

    def test_one_copy_leaves_the_source(self):
        """1, 3 and 5 receivers, against as many RC connections from the same source."""
        work = w.plan(["send"], [MIB])
        payload = sum(o["size"] for o in work)
        for count in (1, 3, 5):
            with Transfer(self.bed, f"copy-{count}", work, RECEIVERS[:count]) as t:
                before = hosts.sent_bytes("s1")
                self.run_transfer(t)
                group = hosts.sent_bytes("s1") - before
            unicast = self.unicast(work, RECEIVERS[:count])
            print(
                f"{count} receivers: group {group} B ({group / payload:.3f} x payload), unicast {unicast} B ({unicast / payload:.3f} x) ",
                end="",
                flush=True,
            )
            # 82 bytes of headers on 1024 of payload are 1.080; the rest is room for neighbour discovery.
            self.assertLess(group, 1.10 * payload)
            self.assertGreater(unicast, 0.97 * count * group)

    def unicast(self, work, receivers):
        """Sends the same to each receiver over an RC connection of its own; returns the bytes that left the
        source."""
        pairs = [(Process(self.bed, "s1", "source", work), Process(self.bed, r, "receiver", work)) for r in receivers]
        try:
            for pair in pairs:
                local = [p.wait("local") for p in pair]
                for p, other, at in zip(pair, pair[::-1], local[::-1]):
                    p.send_line(address=self.bed.addresses[other.host], **{k: at[k] for k in ("qpn", "va", "rkey")})
                for p in pair:
                    p.wait("joined")
            before = hosts.sent_bytes("s1")
            for source, _ in pairs:
                source.send_line(do="go")
            expected = w.digest(w.memory(work, 1, w.capacity(work)))
            for source, receiver in pairs:
                self.check_source(source.wait("done"))
                receiver.wait("done")
                self.assertEqual(receiver.memory()["sha256"], expected)
            return hosts.sent_bytes("s1") - before
        finally:
            for pair in pairs:
                for p in pair:
                    p.stop()

    def test_ping_pong_crosses_the_fabric(self):
        """Without Canopy's groups: ibv_rc_pingpong between two hosts, so that a failure here is the bed's."""
        before = {host: hosts.sent_bytes(host) for host in ("s1", "r5")}
        end = lambda host, *more: ["timeout", "60", "ibv_rc_pingpong", "-d", hosts.device(host), "-g", str(hosts.gid_index(host)), "-n", "50", *more]
        server = subprocess.Popen(end("r5"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            hosts.wait_listening(18515)
            client = subprocess.run(end("s1", "localhost"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            output = server.communicate(timeout=60)[0]
        finally:
            server.kill()
        self.assertEqual((client.returncode, server.returncode), (0, 0), client.stdout + output)
        print(client.stdout.strip().splitlines()[-1], end=" ", flush=True)
        for host, was in before.items():
            self.assertGreater(hosts.sent_bytes(host) - was, 50 * 4096, f"{host} did not send over its link")
