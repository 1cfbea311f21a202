# SPDX-License-Identifier: Apache-2.0
"""The RDMA half of the examples: one device, its memory, and RC queue pairs, through pyverbs. Independent of
groups."""

import ipaddress
import time
from pathlib import Path

from pyverbs import enums as e
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

MTUS = {256: e.IBV_MTU_256, 512: e.IBV_MTU_512, 1024: e.IBV_MTU_1024, 2048: e.IBV_MTU_2048, 4096: e.IBV_MTU_4096}
PORT = 1
DEPTH = 16
# 4.096 us * 2^17 = 0.5 s, with the maximum number of retries; 7 RNR retries are unlimited.
TIMEOUT, RETRIES, RNR_RETRIES = 17, 7, 7
RNR_TIMER_640_US = 12
LOCAL, REMOTE = e.IBV_ACCESS_LOCAL_WRITE, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
STATUS = {getattr(e, n): n for n in dir(e) if n.startswith("IBV_WC_") and n.endswith(("_ERR", "SUCCESS"))}


class Broken(Exception):
    """A queue pair stopped: the work request that failed, and its status."""


class Device:
    """An RDMA device with one protection domain."""

    def __init__(self, name, address=None):
        """`address`: which of the device's RoCEv2 addresses; may be left out if there is one that is not link-local."""
        self.name, self.context = name, Context(name=name)
        self.gid, self.address = self._gid(ipaddress.IPv6Address(address) if address else None)
        self.pd = PD(self.context)

    def _gid(self, wanted):
        found = []
        for index in range(self.context.query_port(PORT).gid_tbl_len):
            address = ipaddress.IPv6Address(bytes.fromhex(str(self.context.query_gid(PORT, index)).replace(":", "")))
            if self._kind(index) == "RoCE v2" and not address.is_link_local and address.ipv4_mapped is None and int(address):
                found.append((index, address))
        chosen = [f for f in found if wanted in (None, f[1])]
        if len(chosen) != 1:
            has = ", ".join(str(address) for _, address in found) or "none"
            raise LookupError(f"--address: {wanted or 'one is needed'}; the RoCEv2 addresses of {self.name} are: {has}")
        return chosen[0]

    def _kind(self, index):
        try:
            return Path(f"/sys/class/infiniband/{self.name}/ports/{PORT}/gid_attrs/types/{index}").read_text().strip()
        except OSError:
            # An empty entry of the table has no type.
            return None

    def memory(self, length, remote=False):
        """Registers memory; with `remote`, peers may WRITE into it."""
        return MR(self.pd, length, REMOTE if remote else LOCAL)

    def sent_bytes(self):
        """Bytes that the device has sent, from its own counter or that of its network interface; None if it has
        neither."""
        base = Path(f"/sys/class/infiniband/{self.name}")
        try:
            # The counter is in units of four octets (IBTA, PortXmitData).
            return 4 * int((base / f"ports/{PORT}/counters/port_xmit_data").read_text())
        except OSError:
            pass
        try:
            netdev = (base / "parent").read_text().strip()
            return int(Path(f"/sys/class/net/{netdev}/statistics/tx_bytes").read_text())
        except OSError:
            return None


class QueuePair:
    """One RC queue pair with a completion queue of its own; made in INIT, so that receives can be posted."""

    def __init__(self, device):
        self.device = device
        self.cq = CQ(device.context, 2 * DEPTH, None, None, 0)
        cap = QPCap(max_send_wr=DEPTH, max_recv_wr=DEPTH)
        self.qp = QP(device.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap))
        attr = QPAttr(port_num=PORT)
        attr.qp_access_flags = REMOTE
        self.qp.to_init(attr)
        self.number = self.qp.qp_num

    def connect(self, address, qpn, send_psn, receive_psn, path_mtu):
        """To RTR and RTS, with `qpn` at `address` as the peer."""
        gid = GID(ipaddress.IPv6Address(address).exploded)
        # Traffic class 2: ECN-capable transport.
        route = GlobalRoute(dgid=gid, sgid_index=self.device.gid, hop_limit=64, traffic_class=2)
        attr = QPAttr(port_num=PORT)
        attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=PORT)
        attr.path_mtu = MTUS[path_mtu]
        attr.dest_qp_num, attr.rq_psn, attr.sq_psn = qpn, receive_psn, send_psn
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.min_rnr_timer = RNR_TIMER_640_US
        attr.timeout, attr.retry_cnt, attr.rnr_retry = TIMEOUT, RETRIES, RNR_RETRIES
        self.qp.to_rts(attr)

    def write(self, number, memory, at, length, va, rkey):
        """RDMA WRITE of `memory[at:at + length]`; its completion has `number`."""
        wr = self._request(number, e.IBV_WR_RDMA_WRITE, memory, at, length)
        wr.set_wr_rdma(rkey, va)
        self.qp.post_send(wr)

    def send(self, number, memory, at, length):
        """SEND of `memory[at:at + length]`."""
        self.qp.post_send(self._request(number, e.IBV_WR_SEND, memory, at, length))

    def receive(self, number, memory, at, length):
        """Posts a receive into `memory[at:at + length]`."""
        self.qp.post_recv(RecvWR(wr_id=number, num_sge=1, sg=[SGE(memory.buf + at, length, memory.lkey)]))

    @staticmethod
    def _request(number, opcode, memory, at, length):
        sge = SGE(memory.buf + at, length, memory.lkey)
        return SendWR(wr_id=number, opcode=opcode, num_sge=1, sg=[sge], send_flags=e.IBV_SEND_SIGNALED)

    def completion(self, idle):
        """Waits for the next completion; returns its (number, bytes received). Calls `idle()` periodically: it may
        raise."""
        called = time.monotonic()
        while True:
            count, found = self.cq.poll(1)
            if count:
                if found[0].status != e.IBV_WC_SUCCESS:
                    status = STATUS.get(found[0].status, found[0].status)
                    raise Broken(f"QP {self.number:#x}: work request {found[0].wr_id}: {status}")
                return found[0].wr_id, found[0].byte_len
            if time.monotonic() - called > 0.5:
                idle()
                called = time.monotonic()
            time.sleep(0.0005)
