# SPDX-License-Identifier: Apache-2.0
"""RC connections of unmodified RDMA hosts over path programs: perftest's ib_write_bw, encapsulated by routes of the hosts' kernel or by
canopy-steer."""

import json
import subprocess
import tempfile
import time

import controller
import hosts
from bed import programs as binaries
from case import Case

# Both ends of the connections, with the nodes that the two paths between them lead over beside those of the ends.
SOURCE, SINK = "s1", "r3"
BESIDE = ("n4", "n5")
PORT = 18700


def in_node(node, *command):
    """Output of a command in the namespace of a node."""
    return hosts.run("ip", "netns", "exec", f"cnp-{node}", *command)


def permit(*names):
    """Lets these hosts send path programs, and no others; waits until every node has it."""
    topology = controller.request("GET", "/topology")
    for host in topology["spec"]["hosts"]:
        host["pathPrograms"] = host["name"] in names
    controller.request("PUT", "/topology", {key: topology[key] for key in ("apiVersion", "kind", "metadata", "spec")})
    deadline = time.monotonic() + 120
    while any(node["status"]["state"] != "InSync" for node in controller.request("GET", "/nodes")["items"]):
        if time.monotonic() > deadline:
            raise TimeoutError("the nodes do not take the topology in")
        time.sleep(0.1)


def programs(source, sink):
    """Destination addresses of the paths by the node beside the ends' that they lead over."""
    paths = controller.request("GET", f"/paths?from={source}&to={sink}")
    if not (paths["permitted"] and paths["forwarded"]):
        raise RuntimeError(f"no program leads from {source} to {sink}: {paths}")
    return {next(link["from"] for link in path["links"] if link["from"] in BESIDE): path["destination"] for path in paths["items"]}


class Pinned:
    """A host whose kernel sends what is for another one with these segments; a context manager that ends it."""

    def __init__(self, bed, source, sink):
        number = [host["name"] for host in hosts._lab_hosts()].index(source)
        self.route = [f"{bed.addresses[sink]}/128", "table", str(hosts.FIRST_TABLE + number)]
        # RDMA takes the link-layer address of this next hop, whatever the route encapsulates.
        self.dev = ["via", "fe80::1", "dev", hosts.interface(source)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        hosts.run("ip", "-6", "route", "del", *self.route, check=False)

    def to(self, segments):
        """What is sent from now on has these segments."""
        prefix, *table = self.route
        hosts.run("ip", "-6", "route", "replace", prefix, "encap", "seg6", "mode", "encap.red", "segs", segments, *self.dev, *table)


class Steered:
    """canopy-steer on a host; a context manager that ends it and takes its program off. All hosts of the lab are on this machine, and so is the
    controller, which it asks for the fabric in place of an agent."""

    def __init__(self, host):
        self.host, self.binary = host, binaries() / "canopy-steer"
        self.socket = f"/run/steer-{host}.sock"

    def __enter__(self):
        where = ["--interface", hosts.interface(self.host), "--socket", self.socket]
        agent = ["--agent", str(hosts.LAB.parent / "controller.sock"), "--host", self.host]
        self.where, self.log = where, tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([self.binary, "run", *where, *agent], stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            if '"nodes":6' in hosts.run(self.binary, "status", "--json", "--socket", self.socket, check=False):
                return self
            time.sleep(0.1)
        self.log.seek(0)
        raise TimeoutError(f"canopy-steer has no fabric: {self.log.read()}")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        hosts.run(self.binary, "remove", *self.where)

    def command(self, name, *args):
        return hosts.run(self.binary, name, "--socket", self.socket, *args)

    def paths(self, address):
        """Its paths by the node beside the ends' that they lead over."""
        paths = json.loads(self.command("paths", "--json", address))["paths"]
        return {next(node for node in path["nodes"] if node in BESIDE): path for path in paths}


class Count:
    """Packets that arrive at a port of a node while it runs; a context manager."""

    def __init__(self, node, port, what):
        self.command = ["ip", "netns", "exec", f"cnp-{node}", "tcpdump", "-Q", "in", "-i", port, "-n", "-s", "64", "-w", "/dev/null", what]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while "listening on" not in (line := self.process.stderr.readline()):
            if not line:
                raise RuntimeError("tcpdump ended")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        rest = self.process.communicate(timeout=60)[1]
        # What the kernel counts ("received by filter") is of both directions.
        self.packets = int(next(line.split()[0] for line in rest.splitlines() if "captured" in line))


class Flapping:
    """A port of a node that is down for 50 ms, and up for 50 ms, while this runs; a context manager that leaves it up."""

    FLAP = """
import fcntl, signal, socket, struct, sys, time
port, ended = sys.argv[1].encode(), []
signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
ask = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
flags = struct.unpack("16xH", fcntl.ioctl(ask, SIOCGIFFLAGS, struct.pack("16sH14x", port, 0))[:18])[0]
times = 0
while not ended:
    for now in (flags & ~IFF_UP, flags | IFF_UP):
        fcntl.ioctl(ask, SIOCSIFFLAGS, struct.pack("16sH14x", port, now))
        time.sleep(0.05)
    times += 1
print(times)
"""

    def __init__(self, node, port):
        self.command = ["ip", "netns", "exec", f"cnp-{node}", "python3", "-c", self.FLAP, port]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.times = int(self.process.communicate(timeout=60)[0])


class Paths(Case):
    """One RC connection from s1 to r3, whose data and acknowledgements are in programs."""

    def setUp(self):
        super().setUp()
        permit(SOURCE, SINK)

    def tearDown(self):
        permit()
        super().tearDown()

    def write_bw(self, seconds, meanwhile=lambda: None):
        """Runs ib_write_bw with an RDMA MTU of 4096; `meanwhile` is called again and again. Fails if either end does."""
        options = ["--report_gbits", "-m", "4096", "-s", "65536", "-t", "16", "-D", str(seconds), "-p", str(PORT), "-F"]
        end = lambda host, *more: ["timeout", "600", "ib_write_bw", "-d", hosts.device(host), "-x", str(hosts.gid_index(host)), *options, *more]
        before, arrived = hosts.counters(SOURCE), hosts.counters(SINK)["rcvd_pkts"]
        server = subprocess.Popen(end(SINK), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        client = None
        try:
            hosts.wait_listening(PORT)
            client = subprocess.Popen(end(SOURCE, "localhost"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            while client.poll() is None:
                meanwhile()
                time.sleep(0.2)
            printed = client.communicate(timeout=60)[0] + server.communicate(timeout=60)[0]
        finally:
            for process in (client, server):
                if process:
                    process.kill()
        self.assertEqual((client.returncode, server.returncode), (0, 0), printed)
        after = hosts.counters(SOURCE)
        sent = after["sent_pkts"] - before["sent_pkts"]
        arrived = hosts.counters(SINK)["rcvd_pkts"] - arrived
        self.assertGreater(min(sent, arrived), 1000, printed)
        errors = {name: after[name] - before[name] for name in ("completer_retry_err", "rcvd_seq_err") if name in after}
        print(f"{sent} packets, {arrived} arrived, {errors} ", end="", flush=True)

    def test_the_path_is_switched_under_ib_write_bw(self):
        """Both paths, in turn, for data and acknowledgements; every switch is one route of the host, and no queue pair fails."""
        there, back = programs(SOURCE, SINK), programs(SINK, SOURCE)
        self.assertEqual((set(there), set(back)), (set(BESIDE), set(BESIDE)))
        switches = []

        def switch():
            over = BESIDE[len(switches) % 2]
            data.to(there[over])
            acks.to(back[BESIDE[(len(switches) // 2) % 2]])
            switches.append(over)

        plain = "ip6[6] == 17 and ip6[42:2] == 4791"
        with Pinned(self.bed, SOURCE, SINK) as data, Pinned(self.bed, SINK, SOURCE) as acks:
            switch()
            with Count("n4", "eth1", "ip6[6] == 41") as over_n4, Count("n5", "eth1", "ip6[6] == 41") as over_n5:
                with Count("n6", "eth1", plain) as beside, Count("n2", "eth3", plain) as back_beside:
                    self.write_bw(20, switch)
        print(f"{len(switches)} switches, {over_n4.packets} packets over n4 and {over_n5.packets} over n5 ", end="", flush=True)
        self.assertGreater(len(switches), 10)
        self.assertGreater(min(over_n4.packets, over_n5.packets), 100)
        self.assertEqual((beside.packets, back_beside.packets), (0, 0), "they sent without a program")

    def test_a_program_with_an_srh(self):
        """Nine uSIDs: over n4, n2, n5 and back to n2, with the uA of each link. The SRH is gone where its segment is loaded."""
        with Pinned(self.bed, SOURCE, SINK) as data:
            data.to("5f00:0:6:e002:4:e003:2:e002,5f00:0:5:e002:2::")
            with Count("n2", "eth1", "ip6[6] == 43") as with_srh, Count("n2", "eth2", "ip6[6] == 41") as without:
                self.write_bw(5)
        print(f"{with_srh.packets} packets with the SRH, {without.packets} without ", end="", flush=True)
        self.assertGreater(min(with_srh.packets, without.packets), 100)

    def test_steering_switches_the_path_under_ib_write_bw(self):
        """canopy-steer on both hosts, for data and acknowledgements: each switch is a write to a map of the host, and no queue pair fails."""
        switches = []
        plain = "ip6[6] == 17 and ip6[42:2] == 4791"
        with Steered(SOURCE) as data, Steered(SINK) as acks:
            there, back = data.paths(self.bed.addresses[SINK]), acks.paths(self.bed.addresses[SOURCE])
            self.assertEqual((set(there), set(back)), (set(BESIDE), set(BESIDE)))

            def switch():
                over = BESIDE[len(switches) % 2]
                data.command("pin", self.bed.addresses[SINK], str(there[over]["path"]))
                acks.command("pin", self.bed.addresses[SOURCE], str(back[BESIDE[(len(switches) // 2) % 2]]["path"]))
                switches.append(over)

            switch()
            with Count("n4", "eth1", "ip6[6] == 41") as over_n4, Count("n5", "eth1", "ip6[6] == 41") as over_n5:
                with Count("n6", "eth1", plain) as beside, Count("n2", "eth3", plain) as back_beside:
                    self.write_bw(20, switch)
            status = json.loads(data.command("status", "--json"))
        print(f"{len(switches)} switches, {over_n4.packets} packets over n4 and {over_n5.packets} over n5 ", end="", flush=True)
        print({name: count for name, count in status["counters"].items() if count}, end=" ", flush=True)
        # Each starts two programs, which takes seconds in an emulated machine.
        self.assertGreater(len(switches), 4)
        self.assertGreater(min(over_n4.packets, over_n5.packets), 100)
        self.assertEqual((beside.packets, back_beside.packets), (0, 0), "they sent without a program")

    def test_a_link_flaps_ten_times_a_second_under_ib_write_bw(self):
        """canopy-steer on both hosts; the link over n4 has a carrier for 50 ms, and none for 50 ms. No queue pair fails."""
        with Steered(SOURCE) as data, Steered(SINK) as acks:
            there, back = data.paths(self.bed.addresses[SINK]), acks.paths(self.bed.addresses[SOURCE])
            self.assertEqual((set(there), set(back)), (set(BESIDE), set(BESIDE)))
            with Flapping("n4", "eth1") as flapping, Count("n5", "eth1", "ip6[6] == 41") as over_n5:
                self.write_bw(20)
            faults = {node: path["fault"] for node, path in data.paths(self.bed.addresses[SINK]).items()}
        print(f"{flapping.times} times down, {over_n5.packets} packets over n5, then {faults} ", end="", flush=True)
        self.assertGreater(flapping.times, 50)
        self.assertGreater(over_n5.packets, 1000)
