# SPDX-License-Identifier: Apache-2.0
"""Agents that the controller must refuse: one in the name of another host, and those of another authority."""

import re

from machine import until
from fleet import TOP

OTHER = """
[store]
path = "/root/other/store"
[grpc]
listen = ["unix:/root/other/agents.sock", "[::]:9641"]
[identity]
directory = "/root/other/identity"
[rest]
listen = ["unix:/root/other/rest.sock"]
"""


def in_the_name_of(victim, of, controller, group):
    """What an application gets at machine `of` from an agent that has the machine's certificate and the name of `victim`."""
    of.copy(TOP / "deploy/debian/join.py", "/root/")
    of.shell("cp -a /var/lib/canopy/host-agent /root/stolen")
    settings = f'host = "{victim}"\ncontroller = "{controller}"\nstate_dir = "/root/stolen"\n[host_socket]\npath = "/root/stolen.sock"\n'
    of.shell("cat >/root/stolen.toml", stdin=settings)
    of.shell("systemd-run -q --unit=stolen canopy-host-agent --config /root/stolen.toml run")
    try:
        until("the socket", 30, lambda: of.run("test", "-S", "/root/stolen.sock", check=False).returncode == 0)
        return of.out("python3", "/root/join.py", "/root/stolen.sock", group, victim, "RECEIVER", "17")
    finally:
        of.shell("systemctl stop stolen; rm -rf /root/stolen*")


class OtherAuthority:
    """Another controller at machine `c1`, with an authority of its own, that enrolls agents for the name of a host of the real one."""

    def __init__(self, c1, controller):
        self.c1, self.controller = c1, controller

    def refusals(self, of, host):
        """What an agent of `host` is refused with that trusts its own authority, and one that trusts that of the controller."""
        self.c1.shell("mkdir /root/other; cat >/root/other/controller.toml", stdin=OTHER)
        self.c1.shell("systemd-run -q --unit=other canopy-controller --config /root/other/controller.toml run")
        try:
            server = ("canopyctl", "--server", "unix:/root/other/rest.sock")
            until("the other controller", 30, lambda: self.c1.run(*server, "get", "nodes", check=False).returncode == 0)
            token = self.c1.out(*server, "host", "enroll", host)
            own = ("--host", host, "--state-dir", "/root/other", "--host-socket", "/root/other/host.sock")
            of.run("canopy-host-agent", "enroll", *own, "--controller", re.sub(r":\d+$", ":9641", self.controller), stdin=token)
            yield "an agent of another authority", self.refused(of, own, "a certificate of another authority than is trusted here")
            of.shell("cp /var/lib/canopy/host-agent/identity/authorities.pem /root/other/identity/")
            yield "one that trusts this authority", self.refused(of, own, "peer certificate|fatal alert|does not accept this certificate")
        finally:
            self.c1.shell("systemctl stop other; rm -rf /root/other")
            of.shell("rm -rf /root/other")

    def refused(self, of, own, why):
        """What the agent's `doctor` finds at the real controller."""
        done = of.run("canopy-host-agent", "doctor", *own, "--controller", self.controller, check=False)
        found = re.search(r"^MISSING +controller: (.*)$", done.stdout, re.M)
        assert done.returncode != 0 and found and re.search(why, found[1]), done.stdout + done.stderr
        return found[1]
