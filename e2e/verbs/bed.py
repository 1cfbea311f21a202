# SPDX-License-Identifier: Apache-2.0
"""The lab with RDMA hosts, transfers over it, and the kernel's counters and messages about them."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import controller
import endpoint
import hosts
import work as w

HERE = Path(__file__).resolve().parent
TRACING = Path("/sys/kernel/tracing")
RECEIVERS = ["r1", "r2", "r3", "r4", "r5"]


def programs():
    """Directory of Canopy's programs."""
    return Path(os.environ.get("CANOPY_BIN", HERE.parents[1] / "target/debug"))


class Bed:
    """Figure 1 with real agents and RDMA hosts; one per VM."""

    def __init__(self, seconds=900):
        self.log = Path("/run/verbs")
        began = time.monotonic()
        # A lab that is up already is used, and stays.
        self.ours = not hosts.LAB.exists()
        if self.ours:
            lab = programs() / "canopy-lab"
            up = [lab, "up", HERE.parent / "topologies/figure1.yaml", "--timeout", str(seconds)]
            subprocess.run([str(a) for a in up], check=True, stdin=subprocess.DEVNULL)
            hosts.attach_lab()
            IcrcChecks.start()
        self.addresses = hosts.addresses()
        print(f"the lab is up after {time.monotonic() - began:.0f} s", flush=True)

    def down(self):
        """Keeps the logs and takes the lab down."""
        if not self.ours:
            return
        subprocess.run(["cp", "-r", "/run/canopy-lab/default/log", str(self.log / "lab-log")], check=False)
        subprocess.run([str(programs() / "canopy-lab"), "down"], check=True, stdin=subprocess.DEVNULL)

    def netem(self, ends, *options):
        """Sets netem on what these ends of links ("n6/eth2") send."""
        for end in ends:
            node, port = end.split("/")
            hosts.run("tc", "-n", f"cnp-{node}", "qdisc", "replace", "dev", port, "root", "netem", "limit", "100000", *options)

    def netem_drops(self, ends):
        """Packets that netem lost at these ends so far."""
        total = 0
        for end in ends:
            node, port = end.split("/")
            for q in json.loads(hosts.run("tc", "-n", f"cnp-{node}", "-j", "-s", "qdisc", "show", "dev", port, "root")):
                total += q["drops"]
        return total

    def plain(self, ends):
        """Takes netem away."""
        for end in ends:
            node, port = end.split("/")
            hosts.run("tc", "-n", f"cnp-{node}", "qdisc", "del", "dev", port, "root", check=False)


class IcrcChecks:
    """Counts, by outcome, every packet whose ICRC any RDMA device checks, with a probe on rdma_rxe's check."""

    @staticmethod
    def start():
        (TRACING / "kprobe_events").write_text("r:verbs/icrc rxe_icrc_check ret=$retval:s32\n")
        (TRACING / "events/verbs/icrc/trigger").write_text("hist:keys=ret\n")
        (TRACING / "events/verbs/icrc/enable").write_text("1\n")

    @staticmethod
    def read():
        """(good, bad) so far."""
        good = bad = 0
        for line in (TRACING / "events/verbs/icrc/hist").read_text().splitlines():
            if line.startswith("{ ret:"):
                key, count = line.strip("{ ").split("}")
                value, hits = int(key.split(":")[1]), int(count.split(":")[1])
                good, bad = (good + hits, bad) if value == 0 else (good, bad + hits)
        return good, bad


class Process:
    """An application on one host."""

    def __init__(self, bed, host, role, work, group=None, seed=1, timeout=17, retries=6, deadline=300, psn=0, path_mtu=1024, expects=True, rejoin=None):
        config = {"host": host, "address": bed.addresses[host], "role": role, "work": work, "group": group, "seed": seed}
        config |= {"timeout": timeout, "retries": retries, "deadline": deadline, "psn": psn, "path_mtu": path_mtu, "expects": expects}
        config["rejoin"] = rejoin
        self.host, self.text, self.seen = host, b"", []
        self.pid, self.input, self.output = endpoint.start(config)

    def _line(self, deadline):
        while b"\n" not in self.text:
            if not select.select([self.output], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return None
            more = os.read(self.output, 1 << 16)
            if not more:
                raise RuntimeError(f"{self.host} ended; its last lines: {self.seen[-3:]}")
            self.text += more
        line, self.text = self.text.split(b"\n", 1)
        return json.loads(line)

    def wait(self, event, seconds=300):
        """The next `event` of the process."""
        deadline = time.monotonic() + seconds
        while True:
            line = self._line(deadline)
            if line is None:
                raise TimeoutError(f"{self.host} sent no {event!r} within {seconds} s; its last lines: {self.seen[-3:]}")
            self.seen.append(line)
            if line["event"] == "failed":
                raise RuntimeError(f"{self.host}: {line['error']}")
            if line["event"] == event:
                return line

    def send_line(self, **line):
        """Sends one line to the process."""
        os.write(self.input, json.dumps(line).encode() + b"\n")

    def memory(self):
        """SHA-256 of its memory and the state of its queue pair, now."""
        self.send_line(do="memory")
        return self.wait("memory")

    def kill(self):
        """Kills it like a crash."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            self._gone()

    def stop(self):
        """Ends it by closing its standard input."""
        if self.pid:
            os.close(self.input)
            self.input = None
            self._gone()

    def _gone(self):
        os.waitpid(self.pid, 0)
        for fd in (self.input, self.output):
            if fd is not None:
                os.close(fd)
        self.pid = self.input = None


class Transfer:
    """One source and its receivers in a group of their own; a context manager."""

    def __init__(self, bed, name, work, receivers=RECEIVERS, source="s1", seed=1, spec=None, room=None, rejoin=None, **options):
        """`room`: memory of the receivers, if not the size of `work`; `rejoin`: {host: how it leaves and joins again}. `options` are
        those of Process."""
        self.bed, self.name, self.work, self.seed = bed, name, work, seed
        self.room, self.rejoin = room or work, rejoin or {}
        self.spec = {"pathMtu": 1024, "stallAfterMs": 60000} | (spec or {})
        self.where, self.options, self.processes = (source, list(receivers)), options, []

    def __enter__(self):
        source, receivers = self.where
        controller.create_group(self.name, **self.spec)
        try:
            make = lambda host, role, work: Process(self.bed, host, role, work, self.name, self.seed, rejoin=self.rejoin.get(host), **self.options)
            self.receivers = [make(host, "receiver", self.room) for host in receivers]
            self.processes += self.receivers
            for process in self.receivers:
                process.wait("joined")
            # The source joins last: only then is the base of the receivers' memory known.
            self.source = make(source, "source", self.work)
            self.processes.append(self.source)
            self.connection = self.source.wait("joined")["connection"]
            self.status = controller.wait_ready(self.name, len(receivers))
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, error, trace):
        if kind:
            print(f"group {self.name}: dropped {controller.drops(self.name)}", file=sys.stderr)
        for process in self.processes:
            process.stop()
        controller.delete_group(self.name)

    def start(self):
        """Starts the source."""
        self.source.send_line(do="go")

    def expected(self):
        """SHA-256 of what every receiver must hold."""
        return w.digest(w.memory(self.work, self.seed, w.capacity(self.work)))
