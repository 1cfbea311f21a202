// SPDX-License-Identifier: Apache-2.0
//! The object of a node: programs of the roles, egress and control, and their maps, pinned under one directory.

use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use canopy_packet::icrc;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapHandle, MapMut, MapType, OpenMap, OpenObject};

use crate::batch::first;
use crate::error::{Context, Result};
use crate::filter::{Filter, Hook, Slot, fdinfo};
use crate::handover::Handover;
use crate::layout;
use crate::load;
use crate::map::{Map, PerCpu};
pub use crate::node_skel::types;
use crate::node_skel::{NodeSkel, NodeSkelBuilder, OpenNodeSkel};
use crate::pins;
use crate::run::{self, Run, run};
use types::{canopy_control as Op, canopy_join_flag as Join};

/// TC filters of a node, in front of those of a pacer on the same interface.
const PRIORITY: u32 = 50;
pub(crate) const INGRESS: Slot = Slot { hook: Hook::Ingress, priority: PRIORITY };
pub(crate) const EGRESS: Slot = Slot { hook: Hook::Egress, priority: PRIORITY };
/// Frame type before an IPv6 packet, and its place in an Ethernet header.
const ETH_IPV6: [u8; 2] = [0x86, 0xDD];
const ETH_ADDRESSES: usize = 12;
/// The shortest packet that the kernel runs every program on.
const IPV6_HEADER: usize = 40;

/// Key of the single entry of the map `node`.
pub const NODE: u32 = 0;
/// Key of the single entry of the map `capturing`.
pub const CAPTURING: u32 = 0;

/// Operations of the control program on one group.
#[derive(Clone, Copy, Debug)]
pub enum Control {
    /// Ends a branch; the frame becomes an ACK or NAK upstream if the minimum rises.
    Remove {
        /// The branch.
        slot: u32,
    },
    /// Adds a branch.
    Join {
        /// The branch.
        slot: u32,
        /// It counts from the next message on.
        at_boundary: bool,
        /// It is a receiver, not a child node.
        receiver: bool,
        /// The epoch since which it belongs to the group.
        since: u32,
        /// It may have started late at this node, whose state is lost: it never starts.
        lost: bool,
        /// Subtracted from the PSNs of a receiver that started late and whose state was lost, 24 bits; else 0.
        shift: u32,
        /// Messages completed before it started, 24 bits; else 0.
        msn_base: u32,
    },
    /// Sends the CNP of an open window that has ended.
    Cnp,
    /// Acknowledges forwarded data if all branches are pending.
    PendingOnly,
    /// Repeats the last feedback if nothing passed since the last repetition.
    Repeat,
}

impl Control {
    /// The words of the control block after operation and group.
    fn words(self) -> (Op, [u32; 3]) {
        match self {
            Self::Remove { slot } => (Op::CONTROL_REMOVE, [slot, 0, 0]),
            Self::Join { slot, at_boundary, receiver, since, lost, shift, msn_base } => {
                let flag = |on: bool, flag: Join| if on { flag.0 } else { 0 };
                let flags = flag(at_boundary, Join::JOIN_AT_BOUNDARY)
                    | flag(receiver, Join::JOIN_RECEIVER)
                    | flag(lost, Join::JOIN_LOST);
                let (flags, slot) = (flags | shift << Join::JOIN_FLAGS.0, slot | msn_base << 8);
                (Op::CONTROL_JOIN, [slot, flags, since])
            }
            Self::Cnp => (Op::CONTROL_CNP, [0; 3]),
            Self::PendingOnly => (Op::CONTROL_PENDING_ONLY, [0; 3]),
            Self::Repeat => (Op::CONTROL_REPEAT, [0; 3]),
        }
    }
}

/// What [`Node::load`] found and made.
pub struct Loaded {
    /// The loaded programs.
    pub node: Node,
    /// Programs of another layout forward until they are replaced. An error if their maps cannot be converted.
    pub handover: Result<Option<Handover>>,
    /// Nothing was pinned, or only by agents that have not applied a spec: all state starts here.
    pub cold: bool,
}

/// The loaded programs and their maps.
pub struct Node {
    skel: NodeSkel<'static>,
    pin_dir: PathBuf,
}

// SAFETY: libbpf objects are memory and file descriptors without thread affinity; `Node` is the only owner, and after loading it makes
// only bpf(2) calls on file descriptors.
unsafe impl Send for Node {}
// SAFETY: as above.
unsafe impl Sync for Node {}

macro_rules! maps {
    ($($(#[$doc:meta])* $name:ident: $kind:ident($k:ty, $v:ty)),* $(,)?) => {
        $($(#[$doc])* pub fn $name(&self) -> maps!(@type $kind, $k, $v) { maps!(@new $kind, &self.skel.maps.$name) })*
    };
    (@type percpu, $k:ty, $v:ty) => { PerCpu<'_, $k, $v> };
    (@type $kind:ident, $k:ty, $v:ty) => { Map<'_, $k, $v> };
    (@new percpu, $map:expr) => { PerCpu::new($map) };
    (@new locked, $map:expr) => { Map::locked($map) };
    (@new plain, $map:expr) => { Map::new($map) };
}

impl Node {
    maps! {
        /// Configuration that does not depend on groups, under [`NODE`].
        node: plain(u32, types::canopy_node),
        /// Ports of the topology, by interface index; other interfaces are outside the domain.
        ports: plain(u32, types::canopy_port),
        /// Receivers in the kernel's neighbour table.
        neighbours: plain(types::canopy_addr, types::canopy_neighbour),
        /// Addresses at which the node itself receives; the value has no meaning.
        own_addresses: plain(types::canopy_addr, u32),
        /// Links that path programs lead over, by uSID.
        path_links: plain(u32, types::canopy_path_link),
        /// uNs where path programs of hosts end, by the prefix of the inner destination.
        path_ends: plain(types::canopy_prefix, types::canopy_ends),
        /// uNs that path programs of hosts may have, under [`NODE`].
        path_nodes: plain(u32, types::canopy_uns),
        /// Packets to path SIDs that were not dropped, by port and action.
        path_packets: percpu(types::canopy_path_key, u64),
        /// Groups by their identifiers.
        groups: plain(u32, types::canopy_group),
        /// Groups by Proxy Address.
        proxies: plain(types::canopy_addr, types::canopy_proxy),
        /// Groups by Designated QPN.
        qpns: plain(u32, u32),
        /// Groups by tree.
        trees: plain(u32, u32),
        /// Groups by IPv6 multicast address.
        multicasts: plain(types::canopy_addr, u32),
        /// The kernel's multicast interfaces that the agent made: interface index, by MIF.
        mifs: plain(u32, u32),
        /// Outer headers of groups whose headend is here.
        outers: plain(u32, types::canopy_outer),
        /// The HMAC TLV of groups whose packets are compared with it.
        hmacs: plain(u32, types::canopy_hmac),
        /// Branches.
        branches: plain(types::canopy_slot_key, types::canopy_branch),
        /// Branches by address.
        peers: plain(types::canopy_peer_key, types::canopy_peer),
        /// Aggregation state of groups.
        states: locked(u32, types::canopy_state),
        /// CNP windows of groups.
        cnps: plain(u32, types::canopy_cnp),
        /// Drops by group and reason.
        drops: percpu(types::canopy_drop_key, u64),
        /// Drops at the boundary of the domain, by port and reason.
        port_drops: percpu(types::canopy_port_drop_key, u64),
        /// Thresholds of ports.
        eg_limits: plain(u32, types::canopy_limits),
        /// Counters of ports, by interface index as far as the array has room.
        eg_stats: percpu(u32, types::canopy_port_stats),
        /// Counters of ports with a higher interface index.
        eg_far_stats: percpu(u32, types::canopy_port_stats),
        /// Depths of queues that the programs cannot read.
        eg_sampled: plain(u32, u64),
        /// Announced flows; the value has no meaning.
        eg_known: plain(types::canopy_flow_key, u32),
        /// Counters of announced flows, by port.
        eg_kept: plain(types::canopy_flow_key, types::canopy_flow),
        /// Counters of all other flows, by port.
        eg_flows: plain(types::canopy_flow_key, types::canopy_flow),
        /// The capture that is armed, under [`CAPTURING`].
        capturing: plain(u32, types::canopy_capture),
        /// Time of the last ACK, by its own addresses and DestQP.
        eg_acks: plain(types::canopy_flow_key, u64),
    }

    /// Loads the programs, with the maps that an earlier agent pinned below `pin_dir` if their layout is the same.
    ///
    /// # Errors
    /// The kernel refuses; the error names the step and what it needs. The programs that were there continue to forward.
    pub fn load(pin_dir: &Path) -> Result<Loaded> {
        let place = pins::place(pin_dir, layout()?)?;
        let dir = place.dir.clone();
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        let operation = || format!("loading the BPF programs with the maps in {}", dir.display());
        let mut skel = load::load(|| open(Some(&dir)), operation)?;
        pin_programs(&mut skel, &dir)?;
        let node = Self { skel, pin_dir: place.live.clone() };
        let cold = place.old.is_empty() && node.node().get(&NODE)?.is_none_or(|entry| entry.warm == 0);
        Ok(Loaded { node, handover: Handover::new(place), cold })
    }

    /// From now on the maps have the state of every group; agents that start later are not [`Loaded::cold`].
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn mark_warm(&self) -> Result<()> {
        let entry = self.node().get(&NODE)?.unwrap_or_default();
        self.node().put(&NODE, &types::canopy_node { warm: 1, ..entry })
    }

    /// Whether an agent has pinned its programs below `pin_dir`.
    pub fn is_pinned(pin_dir: &Path) -> bool {
        pins::directories(pin_dir).is_ok_and(|all| all.iter().any(|dir| pins::loaded(dir).is_some()))
    }

    /// The filter at the ingress of a port.
    pub fn ingress(&self) -> Filter<'_> {
        Filter::new(self.skel.progs.canopy_dispatch.as_fd(), INGRESS)
    }

    /// The filter at the egress of a port.
    pub fn egress(&self) -> Filter<'_> {
        Filter::new(self.skel.progs.canopy_egress.as_fd(), EGRESS)
    }

    /// Runs the control program for `group`; `frame` has room for what it sends.
    ///
    /// # Errors
    /// The group is not configured, or the kernel refuses.
    pub fn control(&self, group: u32, op: Control, frame: &[u8]) -> Result<()> {
        let (op, [a, b, c]) = op.words();
        let context = run::Context { cb: [op.0, group, a, b, c], ..run::Context::default() };
        let doing = || format!("running the control program for group {group}");
        let out = run(self.skel.progs.canopy_control.as_fd(), context, frame).with_context(doing)?;
        match out.verdict {
            0 => Ok(()),
            other => Err(format!("it returned {other}")).with_context(doing),
        }
    }

    /// A summary of each group that has a configuration and a state: the state of a group whose summary is as before, and that does not wait,
    /// is as before too.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn summaries(&self) -> Result<Vec<types::canopy_summary>> {
        let context = run::Context::default();
        let out = run(self.skel.progs.canopy_summarize.as_fd(), context, &ethernet(&[0; IPV6_HEADER]))
            .context("summarizing the groups")?;
        first(&self.skel.maps.summaries, out.verdict as u32)
    }

    /// Events of the groups (`canopy_event`).
    ///
    /// # Errors
    /// The map's handle cannot be duplicated.
    pub fn events(&self) -> Result<MapHandle> {
        handle(&self.skel.maps.events)
    }

    /// Opened CNP windows (`canopy_event`).
    ///
    /// # Errors
    /// The map's handle cannot be duplicated.
    pub fn cnp_events(&self) -> Result<MapHandle> {
        handle(&self.skel.maps.cnp_events)
    }

    /// Events of congested ports (`canopy_congested`).
    ///
    /// # Errors
    /// The map's handle cannot be duplicated.
    pub fn congested(&self) -> Result<MapHandle> {
        handle(&self.skel.maps.eg_events)
    }

    /// RDMA-CM messages (`canopy_cm`).
    ///
    /// # Errors
    /// The map's handle cannot be duplicated.
    pub fn cms(&self) -> Result<MapHandle> {
        handle(&self.skel.maps.eg_cms)
    }

    /// Captured frames (`canopy_captured`).
    ///
    /// # Errors
    /// The map's handle cannot be duplicated.
    pub fn captured(&self) -> Result<MapHandle> {
        handle(&self.skel.maps.captured)
    }

    /// Where the programs and maps are pinned.
    pub fn pin_dir(&self) -> &Path {
        &self.pin_dir
    }

    /// Runs dispatch, and the role that it continues with, on an IPv6 packet received on `ifindex`.
    ///
    /// # Errors
    /// The kernel refuses: the frame is longer than a page.
    pub fn receive(&self, ifindex: u32, packet: &[u8]) -> Result<Run> {
        self.receive_frame(ifindex, &ethernet(packet))
    }

    /// As [`Node::receive`], on a whole frame.
    ///
    /// # Errors
    /// As there.
    pub fn receive_frame(&self, ifindex: u32, frame: &[u8]) -> Result<Run> {
        let context = run::Context { ingress_ifindex: ifindex, ..run::Context::default() };
        run(self.skel.progs.canopy_dispatch.as_fd(), context, frame)
    }

    /// As [`Node::receive`], on a GSO buffer of packets with `size` octets of payload each.
    ///
    /// # Errors
    /// As there.
    pub fn receive_gso(&self, ifindex: u32, packet: &[u8], size: u32) -> Result<Run> {
        let context = run::Context { ingress_ifindex: ifindex, gso_segs: 2, gso_size: size, ..run::Context::default() };
        run(self.skel.progs.canopy_dispatch.as_fd(), context, &ethernet(packet))
    }

    /// Runs the egress program on a frame to be sent through `ifindex`: a GSO buffer of `gso_segs` packets, or none if that is 0.
    ///
    /// # Errors
    /// The kernel refuses: the frame is longer than a page.
    pub fn send(&self, ifindex: u32, frame: &[u8], gso_segs: u32) -> Result<Run> {
        let context = run::Context { ifindex, gso_segs, ..run::Context::default() };
        run(self.skel.progs.canopy_egress.as_fd(), context, frame)
    }

    /// Nanoseconds and runs of dispatch with its roles, counted by the kernel with `kernel.bpf_stats_enabled`.
    pub fn dispatched(&self) -> (u64, u64) {
        let fd = self.skel.progs.canopy_dispatch.as_fd();
        (fdinfo(fd, "run_time_ns:").unwrap_or(0), fdinfo(fd, "run_cnt:").unwrap_or(0))
    }

    /// The programs, by name.
    pub fn programs(&self) -> impl Iterator<Item = (&'static str, BorrowedFd<'_>)> {
        let p = &self.skel.progs;
        [
            ("canopy_dispatch", &p.canopy_dispatch),
            ("canopy_headend", &p.canopy_headend),
            ("canopy_replicate", &p.canopy_replicate),
            ("canopy_end_mt", &p.canopy_end_mt),
            ("canopy_forward", &p.canopy_forward),
            ("canopy_feedback", &p.canopy_feedback),
            ("canopy_path", &p.canopy_path),
            ("canopy_control", &p.canopy_control),
            ("canopy_summarize", &p.canopy_summarize),
            ("canopy_egress", &p.canopy_egress),
        ]
        .into_iter()
        .map(|(name, program)| (name, program.as_fd()))
    }
}

/// The layout of the maps.
fn layout() -> Result<&'static str> {
    static LAYOUT: OnceLock<String> = OnceLock::new();
    if LAYOUT.get().is_none() {
        let id = layout::id(open(None)?.open_object())?;
        return Ok(LAYOUT.get_or_init(|| id));
    }
    Ok(LAYOUT.get().map_or("", String::as_str))
}

/// Opens the object and sets its constants, and where its maps are pinned.
/// Type, and key size, value size, number of elements and flags, of every map.
pub(crate) fn definitions() -> Result<Vec<(MapType, [u32; 4])>> {
    let opened = open(None)?;
    let of =
        |map: OpenMap<'_>| (map.map_type(), [map.key_size(), map.value_size(), map.max_entries(), map.map_flags()]);
    Ok(opened.open_object().maps().map(of).collect())
}

fn open(dir: Option<&Path>) -> Result<OpenNodeSkel<'static>> {
    // Leaked once: the object lives as long as the agent.
    let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = NodeSkelBuilder::default().open(storage).context("opening the BPF object")?;
    if let Some(dir) = dir {
        pins::pin_maps(open.open_object_mut(), dir)?;
    }
    let constants =
        open.maps.rodata_data.as_mut().ok_or("the object has no .rodata").context("opening the BPF object")?;
    for (zeros, table) in constants.crc_table.iter_mut().enumerate() {
        *table = icrc::TABLE.map(|register| icrc::Crc(register).shift_zeros(zeros).0);
    }
    let (mut power, byte) = (icrc::xpow8(0), icrc::xpow8(1));
    for entry in &mut constants.xpow8 {
        *entry = power;
        power = icrc::gf_mul(power, byte);
    }
    Ok(open)
}

/// As [`Node::receive`], by the dispatch program that is pinned in `dir`.
///
/// # Errors
/// It is not pinned there, or the kernel refuses.
#[cfg(feature = "testbed")]
pub fn receive_pinned(dir: &Path, ifindex: u32, packet: &[u8]) -> Result<Run> {
    let context = run::Context { ingress_ifindex: ifindex, ..run::Context::default() };
    run(pins::program(dir, pins::LAST)?.as_fd(), context, &ethernet(packet))
}

/// The constants of the object, in octets.
#[cfg(feature = "testbed")]
pub(crate) fn constants() -> Result<Vec<u8>> {
    let mut open = open(None)?;
    let mut rodata = open.open_object_mut().maps_mut().find(|map| map.name().to_string_lossy().ends_with(".rodata"));
    let octets = rodata.as_mut().and_then(|map| map.initial_value_mut()).map(|octets| octets.to_vec());
    octets.ok_or("the object has no .rodata").context("opening the BPF object")
}

/// Replaces the pins of the programs. Forwarding continues, because the attached filters keep their own references.
fn pin_programs(skel: &mut NodeSkel<'static>, pin_dir: &Path) -> Result<()> {
    let p = &mut skel.progs;
    for program in [
        &mut p.canopy_headend,
        &mut p.canopy_replicate,
        &mut p.canopy_end_mt,
        &mut p.canopy_forward,
        &mut p.canopy_feedback,
        &mut p.canopy_path,
        &mut p.canopy_control,
        &mut p.canopy_egress,
        &mut p.canopy_dispatch,
    ] {
        let path = pin_dir.join(program.name());
        if path.exists() {
            fs::remove_file(&path).with_context(|| format!("replacing {}", path.display()))?;
        }
        program.pin(&path).with_context(|| format!("pinning {}", path.display()))?;
    }
    Ok(())
}

fn handle(map: &MapMut<'_>) -> Result<MapHandle> {
    MapHandle::try_from(map).with_context(|| format!("duplicating the handle of map {}", map.name().to_string_lossy()))
}

/// The packet as a frame without link-layer addresses.
pub(crate) fn ethernet(packet: &[u8]) -> Vec<u8> {
    [&[0; ETH_ADDRESSES][..], &ETH_IPV6, packet].concat()
}
