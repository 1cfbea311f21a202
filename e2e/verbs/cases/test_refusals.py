# SPDX-License-Identifier: Apache-2.0
"""The network refuses what a source must not do: no memory is written, and other groups are not disturbed."""

import controller
import work as w
from bed import RECEIVERS, Transfer
from case import Case

ERROR = 6
# The only operation that receivers register memory for, which determines the length they register.
ROOM = {"op": "write", "size": 4096, "at": 0, "imm": 0}
LENGTH = w.capacity([ROOM])
SIZE = 64
RETRIES_EXCEEDED = "RETRY_EXC_ERR"
# The first node refuses READ and atomics; the node that rewrites a WRITE checks its range.
HEADEND, EDGES = {"n6"}, {"n1", "n2", "n3"}


class Refusals(Case):
    """Each by an operation on the Proxy Address that the source's own queue pair permits."""

    # The source's queue pair ends in error, and its driver logs it.
    expected = "make_send_cqe: non-flush error status = 12"

    def refused(self, name, op, nodes, reason, **how):
        """One operation that must be refused, while a transfer in another group continues."""
        wrong = ROOM | {"op": op, "size": SIZE} | how
        background = w.plan(["send", "write"], [65537] * 4)
        with Transfer(self.bed, f"{name}-background", background, seed=9) as other:
            with Transfer(self.bed, name, [wrong], expects=False, timeout=14, retries=2, room=[ROOM]) as t:
                other.start()
                t.start()
                done = t.source.wait("done")
                self.assertEqual(done["status"], [RETRIES_EXCEEDED])
                self.assertEqual(t.source.memory()["qp_state"], ERROR)
                untouched = w.digest(bytes([w.FILL]) * LENGTH)
                for process in t.receivers:
                    self.assertEqual(process.memory()["sha256"], untouched, process.host)
                counted = {(node, reason) for node in nodes}
                drops = controller.wait(lambda: controller.drops(name), lambda d: set(d) >= counted, f"{counted} to be counted")
                self.assertEqual(set(drops), counted)
            self.check_source(other.source.wait("done"))
            self.check_receivers(other)
            self.assertEqual(controller.drops(other.name), {})

    def test_read(self):
        """RDMA READ: there is no one memory to read."""
        self.refused("read", "read", HEADEND, "opcode_refused")

    def test_atomic(self):
        """FETCH AND ADD."""
        self.refused("atomic", "atomic", HEADEND, "opcode_refused")

    def test_write_past_the_end(self):
        """It begins right behind the memory."""
        self.refused("past", "write", EDGES, "write_refused", remote_at=LENGTH)

    def test_write_across_the_end(self):
        """All but its last byte are inside: none of them lands."""
        self.refused("across", "write", EDGES, "write_refused", remote_at=LENGTH - SIZE + 1)

    def test_write_before_the_beginning(self):
        """One byte before it, which is the end of the address space where the memory begins at 0."""
        self.refused("before", "write", EDGES, "write_refused", remote_at=-1)

    def test_write_with_another_key(self):
        """An R_Key that is not the group's."""
        self.refused("key", "write", EDGES, "write_refused", rkey=0x1234)


class Death(Case):
    """A receiver's process is killed in the middle of a transfer."""

    def test_evict(self):
        """The policy evict: the other receivers get everything, and the source's application learns which receiver
        did not."""
        work = w.plan(["send"], [65536] * 64)
        spec = {"stallPolicy": "evict", "stallAfterMs": 1500}
        with Transfer(self.bed, "death", work, spec=spec) as t:
            victim = t.receivers[2]
            t.start()
            victim.wait("progress")
            victim.kill()
            self.check_source(t.source.wait("done"))
            self.check_receivers(t, [p for p in t.receivers if p is not victim])
            status = controller.group("death")
            self.assertEqual([e["host"] for e in status["evicted"]], [victim.host])
            self.assertEqual(status["receivers"], len(RECEIVERS) - 1)
            codes = [e["code"] for e in controller.events("death")]
            self.assertEqual(codes.count("MemberEvicted"), 1, codes)
