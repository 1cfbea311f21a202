# SPDX-License-Identifier: Apache-2.0
"""A Debian machine for tests of packages: a root of mmdebstrap, booted by systemd-nspawn in namespaces of its own."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
# What systemd and the packages need, and what a test inspects them with.
PACKAGES = "systemd-sysv,dbus,iproute2,libelf1,zlib1g,init-system-helpers,python3,procps"
# systemd-nspawn gives neither to a container by itself.
PRIVILEGES = ["--system-call-filter=bpf perf_event_open", "--capability=CAP_BPF,CAP_PERFMON,CAP_NET_ADMIN,CAP_NET_RAW"]
PATH = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}


def until(what, seconds, ready):
    """Polls `ready` until it returns something true; returns it."""
    deadline = time.monotonic() + seconds
    while not (found := ready()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.2)
    return found


def make_root(root):
    """A minimal Debian root, from this machine's mirrors."""
    sources = f"source {TOP}/scripts/clean-room.sh; "
    options = root.with_suffix(".apt")
    listed = subprocess.run(["bash", "-c", sources + "apt_sources"], check=True, capture_output=True, text=True).stdout.splitlines()
    options.write_text(subprocess.run(["bash", "-c", sources + "apt_options"], check=True, capture_output=True, text=True).stdout)
    try:
        command = ["mmdebstrap", "--mode=root", "--variant=minbase", f"--include={PACKAGES}", f"--aptopt={options}", "bookworm", root, *listed]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"mmdebstrap: {done.stderr[-2000:]}")
    finally:
        options.unlink()


class Machine:
    """A booted machine; leaving the `with` block ends it and removes its root."""

    def __init__(self, name, base=None):
        self.name, self.base, self.leader, self.process = name, base, None, None

    def __enter__(self):
        base = TOP / "target/test-packages"
        base.mkdir(parents=True, exist_ok=True)
        self.directory = Path(tempfile.mkdtemp(prefix=f"{self.name}.", dir=base))
        self.root = self.directory / "root"
        try:
            if self.base:
                subprocess.run(["cp", "-a", self.base, self.root], check=True)
            else:
                make_root(self.root)
            self.boot()
        except BaseException:
            self.__exit__()
            raise
        return self

    def boot(self):
        """Starts the machine and waits until all of it runs."""
        self.power_on()
        self.wait_up()

    def power_on(self):
        """Starts the machine; its namespaces are there when this returns."""
        self.log = (self.directory / "console.log").open("ab")
        command = ["systemd-nspawn", "--boot", "--quiet", "--register=no", "--keep-unit", "--private-network", "--link-journal=no"]
        command += ["--console=pipe", f"--directory={self.root}", f"--machine={self.name}", *PRIVILEGES]
        # A session of its own: an interrupt of the test ends it in order, below.
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        self.leader = until("the first process", 30, lambda: children.read_text().split())[0]

    def wait_up(self):
        """Waits until everything that starts at boot has started."""
        up = lambda: self.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded")
        try:
            until(f"{self.name} to be up", 120, up)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{(self.directory / 'console.log').read_text(errors='replace')[-1000:]}") from None

    def power_off(self):
        """Ends the machine at once, as when its power fails. Its files stay."""
        os.kill(int(self.leader), signal.SIGKILL)
        self.process.wait(60)
        self.log.close()
        self.process = self.leader = None

    def entered(self, *command):
        """A command of this machine that runs `command` in the other."""
        enter = ["nsenter", f"--target={self.leader}", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--wdns=/"]
        return [*enter, *command]

    def popen(self, *command, **more):
        """Starts a command in the machine, which gets SIGTERM when the process that is returned ends."""
        return subprocess.Popen(self.entered("setpriv", "--pdeathsig", "TERM", *command), env=PATH, **more)

    def run(self, *command, check=True, stdin=None):
        """Runs a command in the machine; its output is text."""
        done = subprocess.run(self.entered(*command), capture_output=True, text=True, input=stdin, env=PATH, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def out(self, *command, **more):
        """Output of a command, without blanks at its ends."""
        return self.run(*command, **more).stdout.strip()

    def shell(self, script, **more):
        """Output of a script."""
        return self.out("sh", "-euc", script, **more)

    def copy(self, path, to):
        """Copies a file of this machine into the other."""
        shutil.copy(path, self.root / to.lstrip("/"))

    def __exit__(self, *_):
        if self.process:
            # systemd-nspawn passes it on as a request to power off.
            self.process.terminate()
            try:
                self.process.wait(120)
            except subprocess.TimeoutExpired:
                if self.leader:
                    os.kill(int(self.leader), signal.SIGKILL)
                self.process.wait(60)
            self.log.close()
        shutil.rmtree(self.directory)
