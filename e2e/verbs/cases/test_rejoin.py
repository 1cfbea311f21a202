# SPDX-License-Identifier: Apache-2.0
"""A receiver leaves and joins again while the source sends with a deep queue: with its queue pair as it is, reset, or with a new one."""

import controller
import work as w
from bed import RECEIVERS, Transfer
from case import Case

MESSAGES, SIZE = 240, 65536
HOST = "r5"


class Rejoin(Case):
    """No message counts as delivered to a receiver that does not hold it."""

    def transfer(self, name):
        """All messages are posted at once; the immediates are their numbers."""
        work = w.plan(["send_imm"], [SIZE] * MESSAGES)
        return Transfer(self.bed, name, work, rejoin={HOST: {"after": 10, "with": name}})

    def others(self, t):
        """The source, and the receivers that stay, notice nothing."""
        self.check_source(t.source.wait("done"))
        self.check_receivers(t, [p for p in t.receivers if p.host != HOST])

    def gets_the_rest(self, name):
        """From a message on, every one, in order, octet by octet."""
        with self.transfer(name) as t:
            t.start()
            done = next(p for p in t.receivers if p.host == HOST).wait("done")
            self.others(t)
            self.assertEqual(done["wrong"], 0, done)
            first = done["numbers"][0]
            self.assertGreater(first, 10)
            self.assertEqual(done["numbers"], list(range(first, MESSAGES + 1)))
            self.assertEqual(controller.group(name)["evicted"], [])
            print(f"from message {first} of {MESSAGES} ", end="", flush=True)

    def test_with_a_new_queue_pair(self):
        """As an application that was restarted."""
        self.gets_the_rest("new")

    def test_with_the_queue_pair_reset(self):
        """As the documentation asks for."""
        self.gets_the_rest("reset")

    def test_with_the_queue_pair_as_it_is(self):
        """It expects a PSN of its earlier membership: it would acknowledge new data as duplicates. It is removed, with the reason."""
        with self.transfer("stale") as t:
            t.start()
            next(p for p in t.receivers if p.host == HOST).wait("rejoined")
            status = controller.wait(lambda: controller.group("stale"), lambda s: s["evicted"], f"{HOST} to be removed")
            (evicted,) = status["evicted"]
            self.assertEqual(evicted["host"], HOST)
            self.assertIn("does not expect the start PSN: reset the queue pair, then join", evicted["reason"])
            self.others(t)
            self.assertEqual(controller.group("stale")["receivers"], len(RECEIVERS) - 1)
