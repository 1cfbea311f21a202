# SPDX-License-Identifier: Apache-2.0
"""What is in which package."""

from dataclasses import dataclass, field

LIBRARY = "libcanopy_host_c.so"
SONAME = LIBRARY + ".0"


@dataclass(frozen=True)
class Package:
    """One binary package. Paths of the sources are below the top of the tree; `$BUILD` is the directory of the programs."""

    name: str
    section: str
    summary: str
    description: str
    # Source -> destination; a destination that ends with a slash is a directory.
    files: dict
    # Program -> section of its man pages.
    programs: dict
    depends: tuple = ()
    recommends: tuple = ()
    suggests: tuple = ()
    # Units that are enabled at installation, restarted at an upgrade if they run, and stopped at a removal.
    enabled: tuple = ()
    restarted: tuple = ()
    stopped: tuple = ()
    conffiles: dict = field(default_factory=dict)


def service(name):
    """The files of a package with a service: sysusers.d and tmpfiles.d."""
    return {
        f"deploy/systemd/sysusers/{name}.conf": f"usr/lib/sysusers.d/{name}.conf",
        f"deploy/systemd/tmpfiles/{name}.conf": f"usr/lib/tmpfiles.d/{name}.conf",
    }


UNITS = "lib/systemd/system/"
OF_SERVICES = ("systemd | systemd-sysusers", "systemd | systemd-tmpfiles", "init-system-helpers (>= 1.54)")

PACKAGES = (
    Package(
        name="canopy-controller",
        section="net",
        summary="controller of RDMA multicast over SRv6",
        description="""Canopy sends what an RDMA source writes once to many receivers, over an SRv6
network. This is the controller: it computes the trees of all groups, programs
the nodes through their agents, and serves the REST API and the web UI.""",
        files=service("canopy-controller")
        | {
            "deploy/systemd/canopy-controller.service": UNITS,
            "docs/config/controller.toml": "usr/share/doc/canopy-controller/examples/",
            "deploy/grafana": "usr/share/canopy-controller/grafana/",
            "deploy/prometheus/canopy.rules.yaml": "usr/share/canopy-controller/prometheus/",
        },
        programs={"canopy-controller": 8},
        depends=OF_SERVICES,
        recommends=("canopyctl",),
        enabled=("canopy-controller.service",),
        restarted=("canopy-controller.service",),
        stopped=("canopy-controller.service",),
        conffiles={"deploy/debian/config/controller.toml": "etc/canopy/controller.toml"},
    ),
    Package(
        name="canopy-agent",
        section="net",
        summary="agent on a node of RDMA multicast over SRv6",
        description="""Canopy sends what an RDMA source writes once to many receivers, over an SRv6
network. This is the agent of a node: it loads the BPF programs that replicate
packets and merge acknowledgements, writes routes and rules as the controller
asks, and reports status and telemetry. The kernel forwards without it.""",
        files=service("canopy-agent")
        | {
            "deploy/systemd/canopy-agent.service": UNITS,
            "deploy/systemd/canopy-mroute-holder.service": UNITS,
            "deploy/systemd/canopy-mroute-holder.path": UNITS,
            "deploy/systemd/run-canopy-bpf.mount": UNITS,
            "docs/config/agent.toml": "usr/share/doc/canopy-agent/examples/",
        },
        programs={"canopy-agent": 8},
        depends=OF_SERVICES,
        enabled=("canopy-agent.service", "canopy-mroute-holder.path"),
        restarted=("canopy-mroute-holder.path", "canopy-agent.service"),
        # canopy-mroute-holder.service is not: what the kernel forwards for groups replicated by IP multicast would end with it.
        stopped=("canopy-agent.service", "canopy-mroute-holder.path"),
        conffiles={"deploy/debian/config/agent.toml": "etc/canopy/agent.toml"},
    ),
    Package(
        name="canopy-host",
        section="net",
        summary="RDMA multicast over SRv6 for applications: library, host agent, pacer, steer",
        description="""Canopy sends what an RDMA source writes once to many receivers, over an SRv6
network. This is what the hosts of RDMA applications need: the library by which
they join groups (C, and Python by ctypes), its header, the agent of a host
that is not on its node's machine, canopy-pacer, which applies Long-haul
congestion notifications to queue pairs, canopy-steer, which chooses the paths
of the host's packets, and two example applications.""",
        files=service("canopy-host")
        | {
            "deploy/systemd/canopy-host-agent.service": UNITS,
            "deploy/systemd/canopy-pacer.service": UNITS,
            "deploy/systemd/canopy-steer.service": UNITS,
            "deploy/systemd/run-canopy-host-bpf.mount": UNITS,
            f"$BUILD/{LIBRARY}": f"usr/lib/$MULTIARCH/{SONAME}",
            "host/capi/include/canopy_host.h": "usr/include/",
            "host/python/canopy_host": "usr/lib/python3/dist-packages/canopy_host/",
            "host/examples": "usr/share/doc/canopy-host/examples/",
            "docs/config/host-agent.toml": "usr/share/doc/canopy-host/examples/",
            "docs/config/pacer.toml": "usr/share/doc/canopy-host/examples/",
            "docs/config/steer.toml": "usr/share/doc/canopy-host/examples/",
            "docs/hosts.md": "usr/share/doc/canopy-host/",
        },
        programs={"canopy-host-agent": 8, "canopy-pacer": 8, "canopy-steer": 8},
        depends=OF_SERVICES,
        suggests=("python3", "python3-pyverbs"),
        restarted=("canopy-host-agent.service", "canopy-pacer.service", "canopy-steer.service"),
        stopped=("canopy-host-agent.service", "canopy-pacer.service", "canopy-steer.service"),
        conffiles={
            "deploy/debian/config/host-agent.toml": "etc/canopy/host-agent.toml",
            "deploy/debian/config/pacer.toml": "etc/canopy/pacer.toml",
            "deploy/debian/config/steer.toml": "etc/canopy/steer.toml",
        },
    ),
    Package(
        name="canopyctl",
        section="net",
        summary="command line of RDMA multicast over SRv6",
        description="""Canopy sends what an RDMA source writes once to many receivers, over an SRv6
network. This is the operator's command line: a client of the controller's REST
API, with completions for bash, zsh and fish.""",
        files={},
        programs={"canopyctl": 1},
        recommends=("bash-completion",),
    ),
    Package(
        name="canopy-tools",
        section="net",
        summary="test transfers for RDMA multicast over SRv6",
        description="""Canopy sends what an RDMA source writes once to many receivers, over an SRv6
network. This is canopy-rc, a Reliable Connection of RoCEv2 in software: it
joins a group at a host and sends or receives through it, with a hash of the
bytes, so that a network is checked before RDMA hardware uses it.""",
        files={},
        programs={"canopy-rc": 8},
    ),
)
