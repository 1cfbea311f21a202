#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""An RDMA application on one host: one RC queue pair of libibverbs, a process of its own.

It is started with a dict, and exchanges JSON lines with the runner: events on standard output, commands on standard
input. A member of a group joins at the controller and connects to what the controller answers; after that it behaves
like any RC application. Without a group it prints its own address, QPN and memory, and waits for those of its peer.
"""

import ipaddress
import json
import os
import select
import sys
import time
import traceback

from pyverbs import enums as e
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

import controller
import hosts
import work as w

MTUS = {256: e.IBV_MTU_256, 512: e.IBV_MTU_512, 1024: e.IBV_MTU_1024, 2048: e.IBV_MTU_2048, 4096: e.IBV_MTU_4096}
OPCODES = {
    "send": e.IBV_WR_SEND,
    "send_imm": e.IBV_WR_SEND_WITH_IMM,
    "write": e.IBV_WR_RDMA_WRITE,
    "write_imm": e.IBV_WR_RDMA_WRITE_WITH_IMM,
    "read": e.IBV_WR_RDMA_READ,
    "atomic": e.IBV_WR_ATOMIC_FETCH_AND_ADD,
}
# The immediate of operation 0 (work.py).
IMM = 0x10000
STATUS = {getattr(e, n): n.removeprefix("IBV_WC_") for n in dir(e) if n.startswith("IBV_WC_") and n.endswith(("_ERR", "SUCCESS"))}
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC
WORD = 8


def send_event(event, **more):
    """Sends an event to the runner."""
    print(json.dumps({"event": event, **more}), flush=True)


def read_command():
    """Waits for the runner's next line; exits when the runner has closed the input."""
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


class Endpoint:
    """One RC queue pair with one memory region and one completion queue."""

    def __init__(self, config):
        self.config, self.work = config, config["work"]
        self.source = config["role"] == "source"
        self.deadline = time.monotonic() + config["deadline"]
        self.context = Context(name=hosts.device(config["host"]))
        self.gid = self._gid_index(ipaddress.IPv6Address(config["address"]).packed)
        self.pd = PD(self.context)
        self.length = max(w.capacity(self.work), WORD)
        self.memory = MR(self.pd, self.length, ACCESS)
        self.new_queue_pair()

    def new_queue_pair(self):
        """A queue pair of its own, in INIT."""
        depth = len(self.work) + 1
        self.cq = CQ(self.context, depth, None, None, 0)
        cap = QPCap(max_send_wr=depth, max_recv_wr=depth)
        self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap))
        self._to_init()

    def reset(self):
        """The same queue pair, in INIT again; what was posted and not completed is gone, and what was completed is forgotten."""
        self.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
        while self.cq.poll(16)[0]:
            pass
        self._to_init()

    def _to_init(self):
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ACCESS
        self.qp.to_init(attr)

    def _gid_index(self, wanted):
        """The index of the host's global address in the GID table, as perftest's -x takes it."""
        for index in range(self.context.query_port(1).gid_tbl_len):
            if bytes.fromhex(str(self.context.query_gid(1, index)).replace(":", "")) == wanted:
                return index
        raise LookupError(f"{hosts.device(self.config['host'])} has no GID for {self.config['address']}")

    def fill(self):
        """The memory before the transfer."""
        image = w.memory(self.work, self.config["seed"], self.length) if self.source else bytes([w.FILL]) * self.length
        self.memory.write(image, self.length)

    def post_receives(self):
        """Posts one receive per operation that consumes one, at the place of its bytes."""
        for number, op in enumerate(self.work):
            if op["op"] in w.CONSUMES:
                # The bytes of a WRITE do not pass through the receive; pyverbs needs an entry nevertheless.
                size = 0 if op["op"] == "write_imm" else op["size"]
                sge = SGE(self.memory.buf + op["at"], size, self.memory.lkey)
                self.qp.post_recv(RecvWR(wr_id=number, num_sge=1, sg=[sge]))

    def local(self):
        """The values that the other side, or the controller, needs."""
        return {"qpn": self.qp.qp_num, "va": self.memory.buf, "rkey": self.memory.rkey, "length": self.length}

    def connect(self, address, qpn, send_psn, receive_psn, path_mtu):
        """From INIT to RTR and RTS."""
        route = GlobalRoute(dgid=GID(ipaddress.IPv6Address(address).exploded), sgid_index=self.gid, hop_limit=64, traffic_class=2)
        attr = QPAttr(port_num=1)
        attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
        attr.path_mtu = MTUS[path_mtu]
        attr.dest_qp_num, attr.rq_psn, attr.sq_psn = qpn, receive_psn, send_psn
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.min_rnr_timer = 12
        # rdma_rxe takes 7 retries for any number of them.
        attr.timeout, attr.retry_cnt, attr.rnr_retry = self.config["timeout"], self.config["retries"], 7
        self.qp.to_rts(attr)

    def post(self, number, remote):
        """Posts operation `number`; `remote` is (virtual address, R_Key) of the other side's memory."""
        op = self.work[number]
        size = WORD if op["op"] == "atomic" else op["size"]
        wr = SendWR(
            wr_id=number,
            opcode=OPCODES[op["op"]],
            num_sge=1,
            sg=[SGE(self.memory.buf + op["at"], size, self.memory.lkey)],
            imm_data=op["imm"],
            send_flags=e.IBV_SEND_SIGNALED,
        )
        va, rkey = (remote[0] + op.get("remote_at", op["at"])) % (1 << 64), op.get("rkey", remote[1])
        if op["op"] in ("write", "write_imm", "read"):
            wr.set_wr_rdma(rkey, va)
        elif op["op"] == "atomic":
            wr.set_wr_atomic(rkey, va, 1, 0)
        self.qp.post_send(wr)

    def completions(self, count):
        """Yields `count` completions, successful or not."""
        done = 0
        while done < count:
            number, found = self.cq.poll(16)
            for completion in found[:number]:
                done += 1
                yield completion
            if not number:
                if time.monotonic() > self.deadline:
                    raise TimeoutError(f"{done} of {count} completions")
                time.sleep(0.001)
                if select.select([sys.stdin], [], [], 0)[0] and not os.read(0, 1):
                    sys.exit(0)


def member(endpoint, config):
    """Joins the group and connects; returns the base address and R_Key of WRITEs."""
    local = endpoint.local()
    memory = None if endpoint.source else {k: local[k] for k in ("va", "rkey", "length")}
    c = controller.join(config["group"], config["host"], config["role"], local["qpn"], memory)
    endpoint.connect(c["proxyAddress"], c["designatedQpn"], c["startPsn"], c["startPsn"], c["pathMtu"])
    send_event("joined", qpn=local["qpn"], connection=c)
    return c["writeBaseVa"], c["writeRkey"]


def peer(endpoint, config):
    """Connects to the peer that the runner names; returns the base address and R_Key of WRITEs."""
    send_event("local", **endpoint.local())
    p = read_command()
    endpoint.connect(p["address"], p["qpn"], config["psn"], config["psn"], config["path_mtu"])
    send_event("joined", qpn=endpoint.qp.qp_num)
    return p["va"], p["rkey"]


def send(endpoint, remote):
    """The source: posts as many operations as fit at once; ends with the status of every operation."""
    read_command()
    began = time.monotonic()
    for number in range(len(endpoint.work)):
        endpoint.post(number, remote)
    status = [None] * len(endpoint.work)
    for completion in endpoint.completions(len(endpoint.work)):
        status[completion.wr_id] = STATUS[completion.status]
        if completion.wr_id % 8 == 0:
            send_event("progress", number=completion.wr_id)
    send_event("done", status=status, seconds=time.monotonic() - began)


def receive(endpoint):
    """A receiver: ends with the status of every receive, and then reports its memory."""
    expected = [n for n, op in enumerate(endpoint.work) if op["op"] in w.CONSUMES]
    status, sizes, imm = [], [], []
    for completion in endpoint.completions(len(expected)):
        status.append(STATUS[completion.status])
        # The completion of a WRITE with immediate has the length of the WRITE.
        sizes.append(completion.byte_len)
        imm.append(int(completion.imm_data) if completion.wc_flags & e.IBV_WC_WITH_IMM else None)
        if len(status) % 8 == 0:
            send_event("progress", number=len(status))
    send_event("done", status=status, sizes=sizes, imm=imm)


def rejoin(endpoint, config):
    """Gets some messages, leaves, and joins again while the source sends: with its queue pair as it is (`stale`), reset, or a new one.
    Ends with the numbers of the messages that it got then, which their immediates have, and how many have other bytes than those."""
    how, last = config["rejoin"], len(endpoint.work) - 1
    for _ in endpoint.completions(how["after"]):
        pass
    controller.leave(config["group"], config["host"])
    if how["with"] == "stale":
        controller.join(config["group"], config["host"], config["role"], endpoint.qp.qp_num)
    else:
        # Only now: until it has left, its queue pair is a member's.
        endpoint.reset() if how["with"] == "reset" else endpoint.new_queue_pair()
        endpoint.fill()
        endpoint.post_receives()
        member(endpoint, config)
    send_event("rejoined")
    numbers, wrong = [], 0
    for completion in endpoint.completions(last + 1):
        immediate = completion.wc_flags & e.IBV_WC_WITH_IMM
        number = int(completion.imm_data) - IMM if immediate else last
        place, op = endpoint.work[completion.wr_id], endpoint.work[number]
        got = endpoint.memory.read(op["size"], place["at"])
        wrong += got != w.content(config["seed"], number, op["size"])
        numbers.append(number)
        if number == last:
            break
    send_event("done", numbers=numbers, wrong=wrong)


def application(config):
    """The whole life of the process."""
    endpoint = Endpoint(config)
    endpoint.fill()
    if not endpoint.source:
        endpoint.post_receives()
    remote = (member if config["group"] else peer)(endpoint, config)
    if endpoint.source:
        send(endpoint, remote)
    elif config["rejoin"]:
        rejoin(endpoint, config)
    elif config["expects"]:
        receive(endpoint)
    # The memory at the time of the runner's request: a forbidden write would have had time to arrive.
    while read_command().get("do") == "memory":
        state = endpoint.qp.query(e.IBV_QP_STATE)[0].qp_state
        send_event("memory", sha256=w.digest(endpoint.memory.read(endpoint.length, 0)), qp_state=int(state))


def start(config):
    """A new process that runs the application: (process id, its standard input, its standard output)."""
    (stdin, to_it), (from_it, stdout) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid:
        os.close(stdin), os.close(stdout)
        return pid, to_it, from_it
    try:
        os.dup2(stdin, 0), os.dup2(stdout, 1)
        # Closes the runner's other descriptors, so that the ends of its pipes are detected.
        os.closerange(3, 256)
        sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
        application(config)
    except SystemExit:
        pass
    except BaseException as error:  # what the runner shows of a process that failed
        send_event("failed", error="".join(traceback.format_exception(error)))
    finally:
        os._exit(0)
