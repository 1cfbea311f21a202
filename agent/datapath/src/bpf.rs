// SPDX-License-Identifier: Apache-2.0
//! The loaded ingress BPF object: typed access to its maps, its programs and their attachment.

use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use canopy_agent_core::DatapathError;
use canopy_packet::icrc;
use libbpf_rs::skel::SkelBuilder;
use libbpf_rs::{MapCore, MapFlags, OpenObject, ProgramInput, TC_INGRESS, TcHook, TcHookBuilder};

use crate::error::Context;
use crate::libbpf;
use crate::plain::{Plain, bytes, read};
use crate::skel::{IngressSkel, IngressSkelBuilder, OpenIngressSkel};

/// TC filter handle and priority of our filter, one per port.
const HANDLE: u32 = 1;
const PRIORITY: u32 = 50;
/// Offsets in `struct __sk_buff` (include/uapi/linux/bpf.h).
const SKB_CB: usize = 48;
const SKB_LEN: usize = 68;

/// A map of the ingress programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Node,
    Groups,
    Proxies,
    Qpns,
    Trees,
    Multicasts,
    Outers,
    Branches,
    Peers,
    Stats,
    States,
    Cnps,
    Drops,
}

impl Table {
    /// Name of the map and of its pin.
    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// Operations of the control program (shared.h CONTROL_*).
#[derive(Clone, Copy)]
pub(crate) enum Control {
    Remove { slot: u32 },
    Join { slot: u32, at_boundary: bool, receiver: bool, since: u32 },
    Send,
    PendingOnly,
    Repeat,
}

/// Programs and maps, pinned under one directory.
pub(crate) struct Bpf {
    skel: IngressSkel<'static>,
    pin_dir: PathBuf,
}

// SAFETY: libbpf objects are memory and file descriptors without thread affinity; `Bpf` is the only owner, and
// every use is through `&self` map syscalls or `&mut self`.
unsafe impl Send for Bpf {}
// SAFETY: as above; `&self` methods only make bpf(2) calls on file descriptors.
unsafe impl Sync for Bpf {}

impl Bpf {
    /// Loads the programs and reuses maps that an earlier agent pinned.
    pub(crate) fn load(pin_dir: &Path) -> Result<Self, DatapathError> {
        fs::create_dir_all(pin_dir).with_context(|| {
            format!("creating {} (is a BPF file system mounted there? mount -t bpf bpf /sys/fs/bpf)", pin_dir.display())
        })?;
        let operation = || {
            format!(
                "loading the BPF programs with the maps in {} (if they have another version's layout, `canopy-agent cleanup` removes them)",
                pin_dir.display()
            )
        };
        let skel = libbpf::load(|| Self::open(pin_dir), operation)?;
        let mut bpf = Self { skel, pin_dir: pin_dir.into() };
        bpf.pin_programs()?;
        Ok(bpf)
    }

    /// Opens the object and sets its constants.
    fn open(pin_dir: &Path) -> Result<OpenIngressSkel<'static>, DatapathError> {
        // Leaked once: the object lives as long as the agent.
        let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut builder = IngressSkelBuilder::default();
        builder.obj_builder.pin_root_path(pin_dir).context("setting the pin directory")?;
        let mut open = builder.open(storage).context("opening the BPF object")?;
        let rodata =
            open.maps.rodata_data.as_mut().ok_or("the object has no .rodata").context("opening the BPF object")?;
        for (b, entry) in rodata.crc_table.iter_mut().enumerate() {
            *entry = icrc::TABLE[b];
        }
        let mut power = icrc::xpow8(0);
        let byte = icrc::xpow8(1);
        for entry in &mut rodata.xpow8 {
            *entry = power;
            power = icrc::gf_mul(power, byte);
        }
        Ok(open)
    }

    /// Replaces the pins. Forwarding continues, because the attached filters keep their own references.
    fn pin_programs(&mut self) -> Result<(), DatapathError> {
        for (name, prog) in [
            ("canopy_ingress", &mut self.skel.progs.canopy_ingress),
            ("canopy_control", &mut self.skel.progs.canopy_control),
        ] {
            let path = self.pin_dir.join(name);
            if path.exists() {
                fs::remove_file(&path).with_context(|| format!("replacing {}", path.display()))?;
            }
            prog.pin(&path).with_context(|| format!("pinning {}", path.display()))?;
        }
        Ok(())
    }

    fn map(&self, table: Table) -> &dyn MapCore {
        let m = &self.skel.maps;
        match table {
            Table::Node => &m.node,
            Table::Groups => &m.groups,
            Table::Proxies => &m.proxies,
            Table::Qpns => &m.qpns,
            Table::Trees => &m.trees,
            Table::Multicasts => &m.multicasts,
            Table::Outers => &m.outers,
            Table::Branches => &m.branches,
            Table::Peers => &m.peers,
            Table::Stats => &m.stats,
            Table::States => &m.states,
            Table::Cnps => &m.cnps,
            Table::Drops => &m.drops,
        }
    }

    /// All keys of a map.
    pub(crate) fn keys(&self, table: Table) -> Vec<Vec<u8>> {
        self.map(table).keys().collect()
    }

    /// One value; a map with a lock is read under that lock.
    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, DatapathError> {
        let flags = if table == Table::States { MapFlags::LOCK } else { MapFlags::ANY };
        self.map(table).lookup(key, flags).with_context(|| format!("reading map {}", table.name()))
    }

    /// One value, converted to its type.
    pub(crate) fn get_as<K: Plain, V: Plain>(&self, table: Table, key: &K) -> Result<Option<V>, DatapathError> {
        Ok(self.get(table, bytes(key))?.as_deref().and_then(read))
    }

    /// Sum of a per-processor counter.
    pub(crate) fn get_sum(&self, table: Table, key: &[u8]) -> Result<u64, DatapathError> {
        let values = self
            .map(table)
            .lookup_percpu(key, MapFlags::ANY)
            .with_context(|| format!("reading map {}", table.name()))?;
        Ok(values.into_iter().flatten().filter_map(|v| read::<u64>(&v)).sum())
    }

    pub(crate) fn put(&self, table: Table, key: &[u8], value: &[u8]) -> Result<(), DatapathError> {
        self.map(table).update(key, value, MapFlags::ANY).with_context(|| format!("writing map {}", table.name()))
    }

    /// Deletes an entry; a missing one is no error.
    pub(crate) fn delete(&self, table: Table, key: &[u8]) -> Result<(), DatapathError> {
        match self.map(table).delete(key) {
            Err(e) if e.kind() == libbpf_rs::ErrorKind::NotFound => Ok(()),
            other => other.with_context(|| format!("deleting from map {}", table.name())),
        }
    }

    /// Runs the control program for `group` on `frame`.
    pub(crate) fn control(&self, group: u32, op: Control, frame: &[u8]) -> Result<(), DatapathError> {
        let (code, slot, flags, since) = match op {
            Control::Remove { slot } => (1u32, slot, 0, 0),
            Control::Join { slot, at_boundary, receiver, since } => {
                (2, slot, u32::from(at_boundary) | u32::from(receiver) << 1, since)
            }
            Control::Send => (3, 0, 0, 0),
            Control::PendingOnly => (4, 0, 0, 0),
            Control::Repeat => (5, 0, 0, 0),
        };
        let mut skb = [0u8; SKB_LEN];
        for (i, word) in [code, group, slot, flags, since].into_iter().enumerate() {
            skb[SKB_CB + 4 * i..SKB_CB + 4 * i + 4].copy_from_slice(&word.to_ne_bytes());
        }
        let input = ProgramInput { context_in: Some(&mut skb), data_in: Some(frame), ..ProgramInput::default() };
        let out = self
            .skel
            .progs
            .canopy_control
            .test_run(input)
            .with_context(|| format!("running the control program for group {group}"))?;
        if out.return_value == 0 {
            Ok(())
        } else {
            Err(format!("it returned {}", out.return_value as i32))
                .with_context(|| format!("running the control program for group {group}"))
        }
    }

    /// Runs the ingress program on one packet received on `ifindex`; returns the action, the frame and the duration.
    #[cfg(any(test, feature = "testbed"))]
    pub(crate) fn run_ingress(&self, ifindex: u32, packet: &[u8]) -> (u32, Vec<u8>, std::time::Duration) {
        const SKB_INGRESS_IFINDEX: usize = 36;
        let mut skb = [0u8; SKB_LEN];
        skb[SKB_INGRESS_IFINDEX..SKB_INGRESS_IFINDEX + 4].copy_from_slice(&ifindex.to_ne_bytes());
        let mut frame = vec![0u8; 12];
        frame.extend([0x86, 0xDD]);
        frame.extend_from_slice(packet);
        let mut out = vec![0u8; 16384];
        let input = ProgramInput {
            context_in: Some(&mut skb),
            data_in: Some(&frame),
            data_out: Some(&mut out),
            repeat: 1,
            ..ProgramInput::default()
        };
        let result = self.skel.progs.canopy_ingress.test_run(input).unwrap_or_else(|e| panic!("test run: {e}"));
        (result.return_value, result.data.map(|d| d.to_vec()).unwrap_or_default(), result.duration)
    }

    #[cfg(any(test, feature = "testbed"))]
    pub(crate) fn program_stats(&self) -> (u64, u64) {
        let fd = self.skel.progs.canopy_ingress.as_fd();
        (fdinfo(fd, "run_time_ns:").unwrap_or(0), fdinfo(fd, "run_cnt:").unwrap_or(0))
    }

    fn hook(&self, ifindex: u32) -> TcHook {
        TcHookBuilder::new(self.skel.progs.canopy_ingress.as_fd())
            .ifindex(ifindex as i32)
            .replace(true)
            .handle(HANDLE)
            .priority(PRIORITY)
            .hook(TC_INGRESS)
    }

    /// Attaches the program, or atomically replaces that of an earlier agent.
    pub(crate) fn attach(&self, ifindex: u32) -> Result<(), DatapathError> {
        let mut hook = self.hook(ifindex);
        hook.create().with_context(|| format!("creating the clsact qdisc on interface {ifindex}"))?;
        hook.attach().map(drop).with_context(|| format!("attaching to the ingress of interface {ifindex}"))
    }

    pub(crate) fn detach(&self, ifindex: u32) -> Result<(), DatapathError> {
        let mut hook = TcHookBuilder::new(self.skel.progs.canopy_ingress.as_fd());
        let mut hook = hook.ifindex(ifindex as i32).handle(HANDLE).priority(PRIORITY).hook(TC_INGRESS);
        hook.detach().with_context(|| format!("detaching from interface {ifindex}"))
    }

    /// Whether the ingress of `ifindex` has our filter, of any version.
    pub(crate) fn has_filter(&self, ifindex: u32) -> bool {
        let mut hook = TcHookBuilder::new(self.skel.progs.canopy_ingress.as_fd());
        hook.ifindex(ifindex as i32).handle(HANDLE).priority(PRIORITY).hook(TC_INGRESS).query().is_ok()
    }

    /// Whether the ingress of `ifindex` runs this loaded program.
    pub(crate) fn attached(&self, ifindex: u32) -> bool {
        let mut hook = TcHookBuilder::new(self.skel.progs.canopy_ingress.as_fd());
        let mut hook = hook.ifindex(ifindex as i32).handle(HANDLE).priority(PRIORITY).hook(TC_INGRESS);
        hook.query().is_ok_and(|id| Some(u64::from(id)) == fdinfo(self.skel.progs.canopy_ingress.as_fd(), "prog_id:"))
    }

    /// Path of the pin of the events ring buffer.
    pub(crate) fn events_path(&self) -> PathBuf {
        self.pin_dir.join("events")
    }
}

/// Id of a loaded program.
pub(crate) fn prog_id(fd: std::os::fd::BorrowedFd<'_>) -> Option<u64> {
    fdinfo(fd, "prog_id:")
}

/// A number from `/proc/self/fdinfo` of a loaded program.
fn fdinfo(fd: std::os::fd::BorrowedFd<'_>, field: &str) -> Option<u64> {
    use std::os::fd::AsRawFd;
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).ok()?;
    text.lines().find_map(|l| l.strip_prefix(field)?.trim().parse().ok())
}
