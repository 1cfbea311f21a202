// SPDX-License-Identifier: Apache-2.0
//! The object of a host that sends path programs: its programs at the egress and, for probes, at the ingress, and its maps. They are pinned, so that the host keeps its
//! programs while no daemon runs.

use std::fs;
use std::mem::MaybeUninit;
use std::net::Ipv6Addr;
use std::os::fd::AsFd;
use std::path::Path;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapHandle, OpenObject};

use crate::choices::Choices;
use crate::error::{Context, Result};
use crate::filter::{Filter, Hook, Slot};
use crate::layout;
use crate::left::Left;
use crate::load;
use crate::map::{Map, PerCpu};
use crate::pins;
use crate::probes::Probes;
use crate::run::{Context as RunContext, Run, run};
pub use crate::steer_skel::types;
use crate::steer_skel::{OpenSteerSkel, SteerSkel, SteerSkelBuilder};

/// TC filter behind those of an agent and of a pacer on the same interface: the pacer reads packets as the host sends them.
const PRIORITY: u32 = 61;

/// Mark of the socket that probes are sent from (`PROBE_MARK`); the program takes it off.
pub const MARK: u32 = 0x57AC_9B0E;

/// Key of the single entry of the maps `control` and `probing`.
const CONTROL: u32 = 0;

/// The loaded program and its maps.
pub struct Steer {
    skel: SteerSkel<'static>,
}

// SAFETY: libbpf objects are memory and file descriptors without thread affinity; `Steer` is the only owner, and after loading it makes
// only bpf(2) calls on file descriptors.
unsafe impl Send for Steer {}
// SAFETY: as above.
unsafe impl Sync for Steer {}

impl std::fmt::Debug for Steer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Steer")
    }
}

impl Steer {
    /// Loads the program with the maps of this layout that are pinned below `dir`, or with new ones if there are none. Those of another
    /// layout are removed.
    ///
    /// # Errors
    /// The kernel refuses: this process lacks `CAP_BPF` and `CAP_NET_ADMIN`, the kernel is older than 6.1, or no BPF file system is mounted.
    pub fn load(dir: &Path) -> Result<Self> {
        let own = dir.join(layout::id(open(None)?.open_object())?);
        fs::create_dir_all(&own).with_context(|| {
            format!("creating {} (is a BPF file system mounted there? mount -t bpf bpf /sys/fs/bpf)", own.display())
        })?;
        let loaded = Self::with(|| open(Some(&own)))?;
        for other in pins::directories(dir)?.iter().filter(|other| **other != own) {
            tracing::warn!(dir = %other.display(), "maps of another version are removed: destinations get their programs anew");
            pins::remove(other)?;
        }
        Ok(loaded)
    }

    fn with(open: impl Fn() -> Result<OpenSteerSkel<'static>>) -> Result<Self> {
        let needs =
            "loading the BPF program (needs Linux 6.1 or later, and root or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON)";
        Ok(Self { skel: load::load(open, || needs.to_owned())? })
    }

    /// The filter at the interface's egress.
    pub fn filter(&self) -> Filter<'_> {
        Filter::new(self.skel.progs.steer_egress.as_fd(), Slot { hook: Hook::Egress, priority: PRIORITY })
    }

    /// The filter at the interface's ingress, where probes end.
    pub fn ingress_filter(&self) -> Filter<'_> {
        Filter::new(self.skel.progs.steer_ingress.as_fd(), Slot { hook: Hook::Ingress, priority: PRIORITY })
    }

    /// The cells of probes.
    ///
    /// # Errors
    /// The system does not map them.
    pub fn probes(&self) -> Result<Probes> {
        Probes::of(&self.skel.maps.ways)
    }

    /// Has probes from and to an address, with this secret in them, end at the ingress; `None`: no packet is one.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_probing(&self, probes: Option<(Ipv6Addr, [u8; 8])>) -> Result<()> {
        let set = probes.map(|(own, secret)| {
            let secret = u64::from_ne_bytes(secret);
            types::steer_probing { own: own.into(), secret, is_on: 1, pad: 0 }
        });
        Map::new(&self.skel.maps.probing).put(&CONTROL, &set.unwrap_or_default())
    }

    /// The settings of the program.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn control(&self) -> Result<types::steer_control> {
        Ok(Map::new(&self.skel.maps.control).get(&CONTROL)?.unwrap_or_default())
    }

    /// Replaces the settings of the program.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_control(&self, control: &types::steer_control) -> Result<()> {
        Map::new(&self.skel.maps.control).put(&CONTROL, control)
    }

    /// How packets to destinations choose their paths.
    ///
    /// # Errors
    /// The system does not map them.
    pub fn choices(&self) -> Result<Choices> {
        Choices::of(&self.skel.maps.choices)
    }

    /// The places of destinations among the [choices](Self::choices), by prefix.
    pub fn destinations(&self) -> Map<'_, types::steer_prefix, u32> {
        Map::new(&self.skel.maps.destinations)
    }

    /// Programs by path id.
    pub fn programs(&self) -> Map<'_, u32, types::steer_program> {
        Map::new(&self.skel.maps.programs)
    }

    /// By which flowlets leave a program.
    ///
    /// # Errors
    /// The system does not map them.
    pub fn left(&self) -> Result<Left> {
        Left::of(&self.skel.maps.programs)
    }

    /// Packets and octets of each program, by path id.
    pub fn traffic(&self) -> PerCpu<'_, u32, types::steer_traffic> {
        PerCpu::new(&self.skel.maps.traffic)
    }

    /// Sums of the counters of all processors, by `steer_count`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn counters(&self) -> Result<[u64; types::steer_count::STEER_COUNTERS.0 as usize]> {
        let counters = PerCpu::<u32, u64>::new(&self.skel.maps.counters);
        let mut sums = [0; types::steer_count::STEER_COUNTERS.0 as usize];
        for (index, sum) in (0..).zip(&mut sums) {
            *sum = counters.get(&index)?.into_iter().sum();
        }
        Ok(sums)
    }

    /// Destinations without an entry (`canopy_addr`).
    ///
    /// # Errors
    /// The map's handle cannot be duplicated.
    pub fn unknown(&self) -> Result<MapHandle> {
        let map = &self.skel.maps.unknown;
        MapHandle::try_from(map)
            .with_context(|| format!("duplicating the handle of map {}", map.name().to_string_lossy()))
    }

    /// Runs the program on a frame.
    ///
    /// # Errors
    /// The kernel refuses: the frame is longer than a page.
    pub fn send(&self, frame: &[u8]) -> Result<Run> {
        run(self.skel.progs.steer_egress.as_fd(), RunContext::default(), frame)
    }

    /// Runs the program on a frame that leaves through `ifindex`; if `gso_size` is not 0 it is a GSO buffer of packets with so many octets of
    /// payload each.
    ///
    /// # Errors
    /// As [`Steer::send`].
    pub fn send_through(&self, ifindex: u32, gso_size: u32, frame: &[u8]) -> Result<Run> {
        let gso_segs = if gso_size > 0 { 2 } else { 0 };
        let context = RunContext { ifindex, gso_segs, gso_size, ..RunContext::default() };
        run(self.skel.progs.steer_egress.as_fd(), context, frame)
    }

    /// Runs the program on a frame of the daemon's socket for probes.
    ///
    /// # Errors
    /// As [`Steer::send`].
    pub fn send_probe(&self, frame: &[u8]) -> Result<Run> {
        run(self.skel.progs.steer_egress.as_fd(), RunContext { mark: MARK, ..RunContext::default() }, frame)
    }

    /// Runs the program at the ingress on a frame.
    ///
    /// # Errors
    /// As [`Steer::send`].
    pub fn receive(&self, frame: &[u8]) -> Result<Run> {
        run(self.skel.progs.steer_ingress.as_fd(), RunContext::default(), frame)
    }
}

/// Removes the pins in `dir`; what is attached keeps its maps.
///
/// # Errors
/// The system refuses.
pub fn unpin(dir: &Path) -> Result<()> {
    if dir.exists() { pins::remove(dir) } else { Ok(()) }
}

fn open(pin_dir: Option<&Path>) -> Result<OpenSteerSkel<'static>> {
    // Leaked once for each load: the object lives as long as the daemon.
    let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut skel = SteerSkelBuilder::default().open(storage).context("opening the BPF object")?;
    if let Some(dir) = pin_dir {
        pins::pin_maps(skel.open_object_mut(), dir)?;
    }
    Ok(skel)
}
