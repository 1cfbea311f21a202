# SPDX-License-Identifier: Apache-2.0
"""Delivery for every operation, message size, path MTU and network fault."""

import hosts
import work as w
from bed import RECEIVERS, Transfer
from case import Case

MIB = 1 << 20
OPS = ["send", "send_imm", "write", "write_imm"]


class Delivery(Case):
    """Figure 1, one source, five receivers."""

    def sizes(self, path_mtu):
        """Around every edge: of padding, of packets, of messages."""
        return [1, 2, 3, 4, 5, 63, path_mtu - 1, path_mtu, path_mtu + 1, 2 * path_mtu, 65537, MIB]

    def test_one_send_of_1_mib(self):
        """The basic case: a message of 1024 packets and one of a byte; few of the ACKs of five receivers reach the
        source."""
        before = {host: hosts.counters(host) for host in self.bed.addresses}
        with Transfer(self.bed, "one", w.plan(["send"], [MIB])) as t:
            self.run_transfer(t)
            sent = {h: hosts.counters(h)["sent_pkts"] - before[h]["sent_pkts"] for h in self.bed.addresses}
            got = hosts.counters("s1")["rcvd_pkts"] - before["s1"]["rcvd_pkts"]
        acks = sum(sent[r] for r in RECEIVERS)
        print(f"s1 sent {sent['s1']} packets; the receivers sent {acks} ACKs, {got} reached s1 ", end="", flush=True)
        self.assertGreater(got, 0)
        self.assertLess(got * 3, acks)

    def test_every_operation_and_size_at_mtu_1024(self):
        """SEND and RDMA WRITE, with and without immediate."""
        self.every_operation(1024)

    def test_every_operation_and_size_at_mtu_2048(self):
        """SEND and RDMA WRITE, with and without immediate."""
        self.every_operation(2048)

    def test_every_operation_and_size_at_mtu_4096(self):
        """SEND and RDMA WRITE, with and without immediate."""
        self.every_operation(4096)

    def every_operation(self, path_mtu):
        """One queue pair does them all."""
        with Transfer(self.bed, f"every-{path_mtu}", w.plan(OPS, self.sizes(path_mtu)), spec={"pathMtu": path_mtu}) as t:
            self.run_transfer(t)

    def test_psn_wraps(self):
        """The first PSN is 16 below 2^24."""
        with Transfer(self.bed, "wrap", w.plan(OPS, [100, 65537]), spec={"startPsn": (1 << 24) - 16}) as t:
            self.assertEqual(t.connection["startPsn"], (1 << 24) - 16)
            self.run_transfer(t)

    def test_two_groups_share_links(self):
        """Another source, with some of the same receivers, at the same time."""
        with Transfer(self.bed, "left", w.plan(OPS, [65537] * 4), seed=2) as left:
            with Transfer(self.bed, "right", w.plan(OPS, [65537] * 4), ["r1", "r3", "r4"], "r5", seed=3) as right:
                for t in (left, right):
                    t.start()
                for t in (left, right):
                    self.check_source(t.source.wait("done"))
                    self.check_receivers(t)

    def test_loss_of_1_percent(self):
        """On every link of the fabric, both directions."""
        self.with_faults("loss", ["loss", "1%"], lossy=True)

    def test_reordering(self):
        """One packet in twenty overtakes those that wait 2 ms, on every link of the fabric."""
        self.with_faults("reorder", ["delay", "2ms", "reorder", "5%"])

    def with_faults(self, name, options, lossy=False):
        """A transfer while netem disturbs data and feedback."""
        ends = hosts.fabric_ends()
        before = hosts.counters("s1")
        # The retransmission timer is 134 ms: far above the round trip, and a lost ACK costs no more. rdma_rxe counts every
        # NAK as a retry until an ACK comes, even if each acknowledges more than the last; 7 is any number.
        with Transfer(self.bed, name, w.plan(OPS, [1, 4097, 262144]), timeout=15, retries=7) as t:
            self.bed.netem(ends, *options)
            try:
                self.run_transfer(t)
                lost = self.bed.netem_drops(ends)
            finally:
                self.bed.plain(ends)
        after = hosts.counters("s1")
        resent = {k: after[k] - before[k] for k in ("completer_retry_err", "sent_pkts", "rcvd_seq_err") if k in after}
        print(f"netem lost {lost} packets; s1: {resent} ", end="", flush=True)
        if lossy:
            self.assertGreater(lost, 0, "nothing was lost: this proves nothing")
        else:
            self.assertGreater(after["rcvd_seq_err"], before["rcvd_seq_err"], "no receiver detected a gap: this proves nothing")
