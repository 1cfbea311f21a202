// SPDX-License-Identifier: Apache-2.0
//! The programs in a network namespace per test, run packet by packet through `BPF_PROG_TEST_RUN`.
//!
//! One node n1 (End.MT, Replication-SID): `u0` leads to its parent or source, `d0`..`dN` to branches.

mod packet_socket;
mod packets;
mod spec;
#[cfg(test)]
mod tap;

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use canopy_agent_core::congestion::{FlowKey, FourTuple, Settings};
use canopy_agent_core::{Datapath, DatapathEvent, PathPackets, Scope};
use canopy_bpf::node::types;
use canopy_model::addressing::AddressPlan;
use canopy_model::capture::{CaptureOrder, CapturedFrame};
use canopy_model::congestion::PortCongestion;
use canopy_model::ids::{GroupId, NodeId, PortIndex, Qpn, TreeId};
use canopy_model::node_spec::*;
use canopy_model::srh_hmac::SrhHmac;
use canopy_model::status::ItemKind;
use canopy_model::telemetry::{DropCount, GroupTelemetry};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

pub(crate) use packet_socket::PacketSocket;
pub use packets::*;
pub(crate) use spec::spec;
#[cfg(test)]
pub(crate) use tap::Tap;

use crate::egress::config::{KnownFlow, KnownFlows};
use crate::{Hold, LinuxDatapath, Options};

/// `TC_ACT_SHOT`: dropped, merged, or sent as copies only.
pub const SHOT: u32 = 2;
/// `TC_ACT_REDIRECT`: the packet itself is sent, as in the output.
pub const REDIRECT: u32 = 7;
/// `TC_ACT_OK`: passed to the kernel's stack.
pub const OK: u32 = 0;

/// Mark of a packet that the kernel may forward in the fabric.
pub const MARK_FABRIC: u32 = types::canopy_mark::MARK_FABRIC.0;

/// Packets that the source has in flight at most.
pub const FLIGHT: u32 = 1 << 16;

/// The group's Designated QPN.
pub const DQPN: u32 = 0x0A_0001;
/// The source's QPN.
pub const SOURCE_QPN: u32 = 0x11;

/// A datapath with one group.
pub struct Testbed {
    /// The datapath under test.
    pub datapath: LinuxDatapath,
    /// The spec that it reconciled last.
    pub spec: NodeSpec,
    runtime: tokio::runtime::Runtime,
    pin_dir: PathBuf,
    /// The far ends answer neighbour discovery.
    answered: bool,
}

fn ok<T, E: std::fmt::Display + std::fmt::Debug>(r: Result<T, E>) -> T {
    r.unwrap_or_else(|e| panic!("{e}: {e:?}"))
}

fn open(runtime: &tokio::runtime::Runtime, pin_dir: &std::path::Path) -> LinuxDatapath {
    let options = Options {
        pin_dir: pin_dir.to_owned(),
        hold_multicast: Hold::Itself,
        congestion: Settings::default(),
        sysctl_dir: crate::SYSCTL_DIR.into(),
    };
    let mut datapath = runtime
        .block_on(async { LinuxDatapath::open(options).await })
        .unwrap_or_else(|e| panic!("{}", canopy_bpf::chain(&e)));
    // A busy machine may leave a test waiting for longer than the source has a use for a CNP.
    datapath.cnp_windows.stale = Duration::from_secs(60);
    datapath
}

fn ip(args: &str) {
    let out = ok(Command::new("ip").args(args.split_whitespace()).output());
    assert!(out.status.success(), "ip {args}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Address of receiver `i`.
pub fn receiver(i: u32) -> Ipv6Addr {
    Ipv6Addr::from(0x2001_0db8_0001_0000_0000_0000_0000_0100 + u128::from(i))
}

/// Address of the source host.
pub fn source() -> Ipv6Addr {
    Ipv6Addr::from(0x2001_0db8_00ff_0000_0000_0000_0000_0001_u128)
}

/// The address plan with its defaults.
pub fn plan() -> AddressPlan {
    AddressPlan::default()
}

/// Node number `n`.
pub fn node(n: u64) -> NodeId {
    ok(NodeId::new("node", n))
}

fn port(i: u64) -> PortIndex {
    ok(PortIndex::new("port", i))
}

/// QPN of receiver `i`.
pub fn receiver_qpn(i: u32) -> u32 {
    0x100 + i
}

/// The node and the group of a test bed.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Number of receivers here, all behind port `d0`.
    pub receivers: u32,
    /// Number of child nodes; their node ids start at 10 and they are behind ports `d1`, `d2`, ..
    pub children: u32,
    /// The node is the headend: upstream is the source host, packets are encapsulated.
    pub headend: bool,
    /// End.MT without a TLV delivers to all receivers.
    pub provisioned: bool,
    /// First PSN.
    pub start_psn: u32,
    /// Memory per receiver: (virtual address, R_Key, length).
    pub memory: Option<(u64, u32, u64)>,
    /// The kernel's multicast routes replicate to child nodes.
    pub multicast: bool,
    /// Keys of the SRH HMAC TLV.
    pub hmac: Option<SrhHmac>,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            receivers: 1,
            children: 0,
            headend: false,
            provisioned: false,
            start_psn: 100,
            memory: None,
            multicast: false,
            hmac: None,
        }
    }
}

impl Testbed {
    /// A new namespace with the datapath configured for `shape`.
    pub fn new(shape: &Shape) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // SAFETY: moves only this thread into a new network namespace; no memory is involved.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "unshare(CLONE_NEWNET) needs root");
        assert!(
            std::fs::read_to_string("/proc/mounts").is_ok_and(|m| m.contains("/sys/fs/bpf bpf")),
            "no BPF file system: mount -t bpf bpf /sys/fs/bpf"
        );
        ip("link set lo up");
        // The kernel adds no link-local addresses of its own, at any time between two observations.
        ok(std::fs::write("/proc/sys/net/ipv6/conf/default/addr_gen_mode", "1"));
        for name in std::iter::once("u0".to_string()).chain((0..=shape.children).map(|i| format!("d{i}"))) {
            ip(&format!("link add {name} mtu 9000 type veth peer name {name}p mtu 9000"));
            ip(&format!("link set dev {name}p up"));
            ip(&format!("link set dev {name} up"));
        }
        let pin_dir = PathBuf::from(format!(
            "/sys/fs/bpf/canopy-test-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        ));
        let runtime = ok(tokio::runtime::Builder::new_current_thread().enable_all().build());
        let spec = spec(shape);
        let mut datapath = open(&runtime, &pin_dir);
        let errors = runtime.block_on(datapath.reconcile(&spec));
        // The veth peers do not answer neighbour discovery, so only neighbours may be missing.
        assert!(errors.iter().all(|e| e.kind == ItemKind::Neighbour), "{errors:#?}");
        let mut bed = Self { datapath, spec, runtime, pin_dir, answered: false };
        bed.answer_for_neighbours();
        bed
    }

    /// As [`Testbed::new`], without the boundary at the far ends of the ports, which are in the same namespace: what it does there with
    /// every copy would be counted as time of the copy, and it drops what is for another node. It returns with the next reconcile.
    pub fn without_far_boundary(shape: &Shape) -> Self {
        let bed = Self::new(shape);
        for port in &bed.spec.base.ports {
            let far = format!("{}p", port.name);
            let out = ok(Command::new("tc").args(["qdisc", "del", "dev", &far, "clsact"]).output());
            assert!(out.status.success(), "tc qdisc del dev {far}: {}", String::from_utf8_lossy(&out.stderr));
        }
        bed
    }

    /// Reconciles with a changed spec, the network and what changed in it; with the same one everything.
    pub fn reconcile(&mut self, change: impl FnOnce(&mut NodeSpec)) -> Vec<canopy_model::status::ItemError> {
        let before = self.spec.clone();
        change(&mut self.spec);
        self.follow(if before == self.spec { Scope::All } else { Scope::Network })
    }

    /// Lets the tasks of the data path run for a while.
    #[cfg(test)]
    pub(crate) fn wait(&self, time: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    /// Reconciles what may differ.
    pub fn follow(&mut self, scope: Scope) -> Vec<canopy_model::status::ItemError> {
        let errors = self.runtime.block_on(self.datapath.follow(&self.spec, scope));
        self.answer_for_neighbours();
        errors.into_iter().filter(|e| e.kind != ItemKind::Neighbour).collect()
    }

    /// Adds a port that is not the agent's; returns its index.
    pub fn port_aside(&self) -> u32 {
        ip("link add a0 mtu 9000 type veth peer name a0p mtu 9000");
        ip("link set dev a0p up");
        ip("link set dev a0 up");
        self.ifindex("a0")
    }

    /// The desired state.
    pub fn spec(&self) -> &NodeSpec {
        &self.spec
    }

    /// Reconciles with another spec of the same ports, as an agent does that has received no notice of another change; with the same one everything.
    pub fn adopt(&mut self, spec: &NodeSpec) -> Vec<canopy_model::status::ItemError> {
        let scope = if self.spec == *spec { Scope::All } else { Scope::Spec };
        self.spec = spec.clone();
        let errors = self.runtime.block_on(self.datapath.follow(&self.spec, scope));
        errors.into_iter().filter(|e| e.kind != ItemKind::Neighbour).collect()
    }

    /// Reconciles with `count` groups that are like the only one, each with identifiers of its own.
    pub fn multiply(&mut self, count: u32) -> Vec<canopy_model::status::ItemError> {
        self.reconcile(|s| {
            let one = s.groups.pop_first().unwrap_or_else(|| panic!("no group"));
            s.groups.clear();
            for i in 1..=count {
                let mut g = one.as_ref().clone();
                (g.group_id, g.tree_id) = (ok(GroupId::new("group", i.into())), ok(TreeId::new("tree", i.into())));
                (g.name, g.designated_qpn) = (format!("g{i}"), ok(Qpn::new("qpn", (0x1000 + i).into())));
                g.proxy = Ipv6Addr::from(u128::from(g.proxy) + u128::from(i));
                g.replication_sid = Some(plan().replication(node(1), g.tree_id));
                g.branches.iter_mut().for_each(|b| {
                    if let BranchKind::Receiver { qpn, .. } = &mut b.kind {
                        *qpn = ok(Qpn::new("qpn", (0x10000 + i).into()));
                    }
                });
                s.groups.insert(g.group_id, g);
            }
        })
    }

    /// Lets the far ends of the ports answer neighbour discovery, as real ones do. They are in the same namespace: packets for them do
    /// not leave it.
    pub fn peers_answer(&mut self) {
        for (p, hop) in self.hops() {
            let name = self.spec.base.ports.iter().find(|x| x.index == p).map(|x| x.name.clone()).unwrap_or_default();
            ip(&format!("-6 neigh del {hop} dev {name}"));
            ip(&format!("-6 addr add {hop}/128 dev {name}p nodad"));
        }
        self.answered = true;
    }

    fn hops(&self) -> Vec<(PortIndex, Ipv6Addr)> {
        let mut hops: Vec<_> = self.spec.groups.values().flat_map(canopy_agent_core::hops::neighbours).collect();
        hops.sort();
        hops.dedup();
        hops
    }

    fn answer_for_neighbours(&mut self) {
        if self.answered {
            return;
        }
        for (p, hop) in self.hops() {
            let name = self.spec.base.ports.iter().find(|x| x.index == p).map(|x| x.name.clone()).unwrap_or_default();
            if self.ifindex(&name) == 0 {
                continue;
            }
            ip(&format!(
                "-6 neigh replace {hop} dev {name} lladdr 02:00:00:00:00:{:02x} nud permanent",
                hop.octets()[15]
            ));
        }
    }

    /// Opens another datapath on the same pins, as a restarted agent does.
    pub fn reopen(&mut self) {
        self.datapath = open(&self.runtime, &self.pin_dir);
    }

    /// Opens a datapath that finds nothing pinned, as after a reboot.
    pub fn lose_state(&mut self) {
        ok(std::fs::remove_dir_all(&self.pin_dir));
        self.reopen();
    }

    /// Lets programs with another layout of their maps take over, as an agent of another version does. Returns their pins.
    pub fn through_another_layout(&self) -> PathBuf {
        let ports: Vec<u32> = self.spec.base.ports.iter().map(|p| self.ifindex(&p.name)).collect();
        ok(canopy_bpf::other_layout::take_over(canopy_bpf::other_layout::OBJECT.as_ref(), &self.pin_dir, &ports));
        let [dir] = &self.layouts()[..] else { panic!("{:?}", self.layouts()) };
        dir.clone()
    }

    /// Stops in the middle of a handover: these programs work, and have not all of what the others did.
    pub fn begin_handover(&mut self) {
        ok(self.datapath.handover.as_mut().map_or(Ok(()), canopy_bpf::handover::Handover::begin));
    }

    /// The directories of pins, one for each layout.
    pub fn layouts(&self) -> Vec<PathBuf> {
        ok(std::fs::read_dir(&self.pin_dir)).map(|entry| ok(entry).path()).collect()
    }

    /// As [`Testbed::run`], by the dispatch program that is pinned in `dir`.
    pub fn run_pinned(&self, dir: &std::path::Path, port: &str, packet: &[u8]) -> (u32, Vec<u8>) {
        let mut run = ok(canopy_bpf::node::receive_pinned(dir, self.ifindex(port), packet));
        (run.verdict as u32, run.frame.split_off(14))
    }

    /// The aggregation state of the group.
    pub fn state(&self) -> types::canopy_state {
        ok(self.datapath.bpf.states().get(&self.group_id())).unwrap_or_else(|| panic!("no state"))
    }

    /// Packets and octets of every branch, by slot.
    pub fn branch_counters(&self) -> BTreeMap<u32, (u64, u64)> {
        (0..).zip(self.state().stats.map(|s| (s.packets, s.bytes))).filter(|(_, counted)| *counted != (0, 0)).collect()
    }

    /// Index of an interface.
    pub fn ifindex(&self, name: &str) -> u32 {
        // SAFETY: the name is a NUL-terminated string that lives through the call.
        unsafe { libc::if_nametoindex(ok(std::ffi::CString::new(name)).as_ptr()) }
    }

    /// Runs dispatch and its role on one packet (from its IPv6 header) received on `port`; returns the action, the packet afterwards, and
    /// the duration.
    pub fn run(&self, port: &str, packet: &[u8]) -> (u32, Vec<u8>, Duration) {
        let mut run = ok(self.datapath.bpf.receive(self.ifindex(port), packet));
        (run.verdict as u32, run.frame.split_off(14), run.took)
    }

    /// As [`Testbed::run`], in a frame from this link-layer address.
    pub fn run_from(&self, port: &str, source: [u8; 6], packet: &[u8]) -> (u32, Vec<u8>, Duration) {
        let frame = [&[0; 6][..], &source, &[0x86, 0xDD], packet].concat();
        let mut run = ok(self.datapath.bpf.receive_frame(self.ifindex(port), &frame));
        (run.verdict as u32, run.frame.split_off(14), run.took)
    }

    /// Runs the ingress programs on one packet (from its IPv6 header); returns the link-layer destination of the frame that it became.
    pub fn sent_to(&self, port: &str, packet: &[u8]) -> Vec<u8> {
        ok(self.datapath.bpf.receive(self.ifindex(port), packet)).frame[..6].to_vec()
    }

    /// Keeps this thread on its present processor: what a processor remembers, another one does not know.
    pub fn stay_on_this_processor(&self) {
        // SAFETY: the set is a plain value that lives through the calls.
        let moved = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(libc::sched_getcpu() as usize, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
        };
        assert_eq!(moved, 0, "sched_setaffinity");
    }

    /// Runs the egress program on one packet (from its IPv6 header) sent through `port`; returns the duration.
    pub fn egress(&self, port: &str, packet: &[u8]) -> Duration {
        let mut frame = vec![0u8; 12];
        frame.extend([0x86, 0xDD]);
        frame.extend_from_slice(packet);
        self.datapath.egress.run(self.ifindex(port), &frame).1
    }

    /// Announces the flow of [`flow_packet`], and no other.
    pub fn announce_flow(&self, n: u32) {
        let key = packets::flow_key(n);
        ok(self.datapath.egress.set_known(&announced([key])));
    }

    /// Number of entries in the flow tables of the egress program.
    pub fn egress_flows(&self) -> usize {
        ok(self.datapath.egress.flows()).len()
    }

    /// Telemetry of the group.
    pub fn telemetry(&mut self) -> GroupTelemetry {
        let sample = ok(self.runtime.block_on(self.datapath.sample()));
        sample.groups.into_iter().next().unwrap_or_else(|| panic!("no group"))
    }

    /// Telemetry of all groups.
    pub fn groups(&mut self) -> Vec<GroupTelemetry> {
        ok(self.runtime.block_on(self.datapath.sample())).groups
    }

    /// The groups that a sample has at rest.
    pub fn at_rest(&mut self) -> Vec<u32> {
        let sample = ok(self.runtime.block_on(self.datapath.sample()));
        sample.at_rest.iter().map(|id| id.get()).collect()
    }

    /// Telemetry of the ports' queues.
    pub fn congestion(&mut self) -> Vec<PortCongestion> {
        ok(self.runtime.block_on(self.datapath.sample())).congestion
    }

    /// Runs the timers of the datapath for `time`; events are dropped.
    pub fn let_time_pass(&mut self, time: Duration) {
        let Self { runtime, datapath, .. } = self;
        runtime.block_on(async {
            let end = tokio::time::Instant::now() + time;
            while tokio::time::timeout_at(end, datapath.next_event()).await.is_ok() {}
        });
    }

    /// Waits until the datapath has had no event for a tenth of a second.
    pub fn wait_quiet(&mut self) {
        let Self { runtime, datapath, .. } = self;
        runtime.block_on(async {
            while tokio::time::timeout(Duration::from_millis(100), datapath.next_event()).await.is_ok() {}
        });
    }

    /// Waits for an event that `is` accepts; false if there is none for 10 s. Others are dropped.
    pub fn event(&mut self, is: impl Fn(&DatapathEvent) -> bool) -> bool {
        let Self { runtime, datapath, .. } = self;
        let wanted = async { while !is(&datapath.next_event().await) {} };
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(10), wanted).await }).is_ok()
    }

    /// Waits for the group's packet with this PSN, in the capture `id`.
    pub fn capture(&mut self, id: u32, psn: u32) {
        let order = CaptureOrder::new(id, self.group_id(), psn, canopy_model::capture::MAX_WITHIN);
        ok(self.datapath.capture(Some(&ok(order))));
    }

    /// The next `count` captured frames; panics if one does not come within 10 s.
    pub fn captured(&mut self, count: usize) -> Vec<CapturedFrame> {
        let mut frames = Vec::new();
        let Self { runtime, datapath, .. } = self;
        let all = async {
            while frames.len() < count {
                if let DatapathEvent::Captured(frame) = datapath.next_event().await {
                    frames.push(frame);
                }
            }
        };
        let came = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(10), all).await });
        assert!(came.is_ok(), "{} of {count} frames: {frames:?}", frames.len());
        frames
    }

    /// Drops by reason name, of the group, of the node and of its ports. The far ends of the ports are interfaces outside, and send MLD
    /// reports to the ports (`edge_link_local`); neither is included.
    pub fn drops(&mut self) -> BTreeMap<String, u64> {
        let sample = ok(self.runtime.block_on(self.datapath.sample()));
        let mut by_name = BTreeMap::new();
        let ports: Vec<_> = self.spec.base.ports.iter().map(|p| p.name.as_str()).collect();
        let here = |d: &DropCount| d.port.as_deref().is_none_or(|p| ports.contains(&p) && d.name != "edge_link_local");
        let of_node = sample.node_drops.into_iter().filter(here);
        for d in sample.groups.iter().flat_map(|g| g.drops.clone()).chain(of_node) {
            *by_name.entry(d.name).or_default() += d.packets;
        }
        by_name
    }

    /// Drops at the boundary, by port and reason name.
    pub fn port_drops(&mut self) -> BTreeMap<(String, String), u64> {
        let sample = ok(self.runtime.block_on(self.datapath.sample()));
        sample.node_drops.into_iter().filter_map(|d| Some(((d.port?, d.name), d.packets))).collect()
    }

    /// What passed by path SIDs, by port of arrival.
    pub fn path_packets(&mut self) -> BTreeMap<String, PathPackets> {
        ok(self.runtime.block_on(self.datapath.sample())).paths
    }

    /// The mark of a packet (from its IPv6 header) received on `port`, after the ingress programs.
    pub fn mark(&self, port: &str, packet: &[u8]) -> u32 {
        ok(self.datapath.bpf.receive(self.ifindex(port), packet)).mark
    }

    /// The aggregation state in the kernel, octet by octet: maps `states` and `cnps`.
    pub fn state_octets(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for name in ["states", "cnps"] {
            let map = ok(MapHandle::from_pinned_path(self.pin(name)));
            let mut keys: Vec<_> = map.keys().collect();
            keys.sort();
            for key in keys {
                let value = ok(map.lookup(&key, MapFlags::ANY)).unwrap_or_default();
                all.extend(key);
                all.extend(value);
            }
        }
        all
    }

    /// Path of the pin of a program or map.
    pub fn pin(&self, name: &str) -> PathBuf {
        self.datapath.bpf.pin_dir().join(name)
    }

    /// The branch with the highest CCount of the open window, and that CCount.
    pub fn cnp_leader(&self) -> (Ipv6Addr, u32) {
        let (bpf, group) = (&self.datapath.bpf, self.group_id());
        let cnp = ok(bpf.cnps().get(&group)).unwrap_or_else(|| panic!("no CNP state"));
        let peers = ok(bpf.peers().entries());
        let leads = |(of, peer): &(types::canopy_peer_key, types::canopy_peer)| {
            of.group_id == group && peer.slot == cnp.best_slot
        };
        let leader = peers.into_iter().find(leads).map(|(of, _)| Ipv6Addr::from(of.address));
        (leader.unwrap_or(Ipv6Addr::UNSPECIFIED), cnp.best_count)
    }

    pub(crate) fn group_id(&self) -> u32 {
        self.spec.groups.keys().next().map_or(0, |g| g.get())
    }

    /// Lets the time of the group's open CNP window be over.
    pub fn end_cnp_window(&self) {
        let (cnps, group) = (self.datapath.bpf.cnps(), self.group_id());
        let mut cnp = ok(cnps.get(&group)).unwrap_or_else(|| panic!("no CNP state"));
        assert_eq!(cnp.running, 1, "no window is open");
        cnp.ends_ns = 1;
        ok(cnps.put(&group, &cnp));
    }

    /// When the group's CNP window ends, or ended, on the clock of [`monotonic`](canopy_bpf::monotonic).
    pub fn cnp_window_end(&self) -> u64 {
        ok(self.datapath.bpf.cnps().get(&self.group_id())).map_or(0, |c| c.ends_ns)
    }

    /// The same, from now on.
    pub fn set_cnp_window_end(&self, at: u64) {
        let (cnps, group) = (self.datapath.bpf.cnps(), self.group_id());
        let mut cnp = ok(cnps.get(&group)).unwrap_or_else(|| panic!("no CNP state"));
        cnp.ends_ns = at;
        ok(cnps.put(&group, &cnp));
    }

    /// CNPs sent upstream.
    pub fn cnps_out(&self) -> u64 {
        ok(self.datapath.bpf.cnps().get(&self.group_id())).map_or(0, |c| c.cnps_out)
    }

    /// Entries of all maps except `node`.
    pub fn entries(&self) -> usize {
        self.datapath.count_entries()
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.pin_dir);
    }
}

/// Proxy Address of the group.
pub fn proxy() -> Ipv6Addr {
    plan().proxy(1).unwrap_or(Ipv6Addr::UNSPECIFIED)
}

/// The group's IP multicast address.
pub fn group_address() -> Ipv6Addr {
    plan().multicast(1).unwrap_or(Ipv6Addr::UNSPECIFIED)
}

/// Flows as a configuration announces them; only their keys have a meaning.
pub(crate) fn announced(flows: impl IntoIterator<Item = FlowKey>) -> KnownFlows {
    let src_qp = ok(Qpn::new("qpn", SOURCE_QPN.into()));
    let known = |key| KnownFlow { flow: FourTuple { key, src_qp }, notify: source(), accepts_roce: false };
    flows.into_iter().map(|key| (key, known(key))).collect()
}

/// This node's End.MT SID.
pub fn end_mt() -> Ipv6Addr {
    plan().end_mt(node(1))
}

/// This node's Replication-SID.
pub fn replication() -> Ipv6Addr {
    plan().replication(node(1), ok(TreeId::new("tree", 7)))
}

impl Testbed {
    /// Sends frames through the veth pair into `port`; returns nanoseconds and runs that the kernel counted for the program.
    ///
    /// Sets `kernel.bpf_stats_enabled` while it runs.
    pub fn traffic(&self, port: &str, packets: &[Vec<u8>]) -> (u64, u64) {
        const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";
        let was = ok(std::fs::read_to_string(SWITCH));
        ok(std::fs::write(SWITCH, "1"));
        let (ns, runs) = self.datapath.bpf.dispatched();
        let socket = PacketSocket::open(self.ifindex(&format!("{port}p")));
        for p in packets {
            let mut frame = vec![0xFF; 6];
            frame.extend([2, 0, 0, 0, 0, 9, 0x86, 0xDD]);
            frame.extend_from_slice(p);
            socket.send(&frame);
        }
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        let mut now = self.datapath.bpf.dispatched();
        while now.1 - runs < packets.len() as u64 && std::time::Instant::now() < deadline {
            std::thread::yield_now();
            now = self.datapath.bpf.dispatched();
        }
        ok(std::fs::write(SWITCH, was.trim()));
        (now.0 - ns, now.1 - runs)
    }
}
