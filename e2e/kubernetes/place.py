# SPDX-License-Identifier: Apache-2.0
"""A place that is like a machine: process, mount, network and UTS namespaces of its own, with its own /run, /var/lib, /var/log and BPF file
system. All that runs in it ends with its first process, and that one with the test."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

# Hierarchies of control groups, version 1, in which a place has a group of its own.
CGROUPS = Path("/sys/fs/cgroup")
# The first process: it gives the place its mounts, then reaps what is orphaned in it.
FIRST = """
set -e
for directory in lib log; do mount --bind "$1/$directory" /var/$directory; done
mount -t tmpfs -o mode=0755 run /run
mkdir "$1/cgroup"
mount --rbind /sys/fs/cgroup "$1/cgroup"
mount -t sysfs sysfs /sys
mount --rbind "$1/cgroup" /sys/fs/cgroup
umount --recursive "$1/cgroup"
mount -t bpf bpf /sys/fs/bpf
mount --bind "$1/etc/hosts" /etc/hosts
mount --bind "$1/etc/resolv.conf" /etc/resolv.conf
# As systemd has it; later, because what is unmounted above would be unmounted in both places.
mount --make-rshared /
hostname "$2"
ip link set lo up
trap 'exit 0' TERM
echo up >"$1/up"
while :; do sleep 3600 & wait $! || true; done
"""


def until(what, seconds, ready):
    """Polls `ready` until it returns something true; returns it."""
    deadline = time.monotonic() + seconds
    while not (found := ready()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.2)
    return found


def sh(*command, check=True, **more):
    """Output of a command that must succeed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **more)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout if check else done


def hierarchies():
    """The mounted hierarchies of control groups, version 1."""
    return [Path(line.split()[1]) for line in Path("/proc/mounts").read_text().splitlines() if line.split()[2] == "cgroup"]


def remove_cgroups(name):
    """Removes the control groups of a place, in which no process is left."""
    for hierarchy in [*hierarchies(), CGROUPS / "unified"]:
        top = hierarchy / name
        directories = sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True) if top.is_dir() else []
        for path in [*directories, top] if top.is_dir() else []:
            until(f"{path} is empty", 20, lambda path=path: rmdir(path))


def rmdir(path):
    """Whether a control group is gone."""
    with contextlib.suppress(FileNotFoundError):
        try:
            path.rmdir()
        except OSError:
            return False
    return True


class Place:
    """A place and what runs in it; `stop` ends it and removes what it had."""

    def __init__(self, name, directory, group):
        self.name, self.directory, self.group, self.programs = name, directory / name, group, {}
        for path in ("lib", "log", "etc"):
            (self.directory / path).mkdir(parents=True)
        (self.directory / "etc/hosts").write_text(f"127.0.0.1 localhost {name}\n::1 localhost\n")
        (self.directory / "etc/resolv.conf").write_text("")
        self.make_cgroups()
        command = ["unshare", "--mount", "--propagation", "private", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        # `--pdeathsig` is for a test that is killed: with the first process goes everything else.
        command = ["setpriv", "--pdeathsig", "KILL", *command, "bash", "-c", FIRST, "first", str(self.directory), name]
        self.log = (self.directory / "first.log").open("w")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)
        until(f"{name} is up: {self.directory}/first.log", 20, lambda: (self.directory / "up").exists() or self.process.poll() is not None)
        assert self.process.poll() is None, (self.directory / "first.log").read_text()
        self.pid = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0]

    def make_cgroups(self):
        """Makes the control groups of the place; a cpuset without processors and memory takes no process."""
        for hierarchy in hierarchies():
            top = hierarchy / self.group / self.name
            top.mkdir(parents=True)
            for path in (top.parent, top):
                for name in ("cpuset.cpus", "cpuset.mems"):
                    if (path / name).exists():
                        (path / name).write_text((hierarchy / name).read_text())

    def entered(self, *command):
        """A command of this machine that runs `command` in the place."""
        return ["nsenter", f"--target={self.pid}", "--mount", "--uts", "--net", "--pid", *map(str, command)]

    def run(self, *command, check=True, **more):
        """Runs a command in the place."""
        return sh(*self.entered(*command), check=check, **more)

    def start(self, name, *command, environment=None):
        """Starts a program, whose output is in `NAME.log` of the place."""
        log = (self.directory / f"{name}.log").open("a")
        process = subprocess.Popen(self.entered(*command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=environment or os.environ)
        log.close()
        self.programs[name] = process
        return process

    def end(self, name):
        """Kills a program at once: nsenter passes on no signal, so its child is found."""
        process = self.programs.pop(name)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        child = until(f"the process of {name}", 10, lambda: process.poll() is not None or children.read_text().split())
        if child is not True:
            os.kill(int(child[0]), signal.SIGKILL)
        process.wait(20)

    def check(self):
        """Fails if a program has ended by itself."""
        for name, process in self.programs.items():
            if process.poll() is not None:
                raise AssertionError(f"{name} of {self.name} has ended with {process.returncode}:\n{self.tail(name)}")

    def tail(self, name, size=3000):
        """The end of a program's output."""
        return (self.directory / f"{name}.log").read_text(errors="replace")[-size:]

    def stop(self):
        """Ends all that runs in the place and removes its files."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(self.pid), signal.SIGKILL)
        self.process.wait(30)
        for process in self.programs.values():
            process.wait(30)
        self.log.close()
        remove_cgroups(f"{self.group}/{self.name}")
        shutil.rmtree(self.directory)
