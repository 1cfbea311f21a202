# SPDX-License-Identifier: Apache-2.0
"""A transfer by canopy-rc from one host to others."""

import json
import subprocess


class Transfer:
    """A transfer that runs until `finish`."""

    def __init__(self, stack, group, size, receivers, source, popen, sender=()):
        """`popen(host, options)` starts canopy-rc at a host with these options and those that the place needs; `sender` are options of
        the source. `stack` ends what is left of it."""
        self.receivers = list(receivers)

        def start(verb, host, *more):
            options = [verb, "--group", group, "--host", host, "--bytes", str(size), "--json", "--leave", *more]
            process = popen(host, options, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            stack.callback(process.kill)
            return process

        # Receivers stay until the source has all acknowledgements.
        self.sinks = {host: start("receive", host, "--linger", "600s") for host in self.receivers}
        waiting = ("--wait-receivers", str(len(self.receivers)), "--deadline", "900s", "--ready-timeout", "60s")
        self.sender = start("send", source, *waiting, *sender)

    def has_ended(self):
        """Whether the source has ended."""
        return self.sender.poll() is not None

    def finish(self):
        """The source's report, after all receivers have the bytes that it sent; fails otherwise."""
        out, error = self.sender.communicate()
        assert self.sender.returncode == 0, (out, error)
        report = next(event for event in map(json.loads, out.splitlines()) if "retransmitted" in event)
        sums = {}
        for host, process in self.sinks.items():
            process.terminate()
            received, error = process.communicate()
            sums[host] = next((event["sha256"] for event in map(json.loads, received.splitlines()) if "sha256" in event), error)
        assert list(sums) == self.receivers and set(sums.values()) == {report["sha256"]}, (report, sums)
        return report
