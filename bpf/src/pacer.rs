// SPDX-License-Identifier: Apache-2.0
//! The object of a source host's pacer: its two programs and their maps.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use libbpf_rs::skel::SkelBuilder;
use libbpf_rs::{MapCore, MapHandle, OpenObject};

use crate::error::{Context, Result};
use crate::filter::{Filter, Hook, Slot};
use crate::load;
use crate::map::{Map, PerCpu};
pub use crate::pacer_skel::types;
use crate::pacer_skel::{OpenPacerSkel, PacerSkel, PacerSkelBuilder};
use crate::run::{Context as RunContext, Run, run};

/// TC filters of a pacer, behind those of an agent on the same interface.
const PRIORITY: u32 = 60;

/// Key of the single entry of the map `control`.
const CONTROL: u32 = 0;

/// The loaded programs and their maps; nothing is pinned.
pub struct Pacer {
    skel: PacerSkel<'static>,
}

// SAFETY: libbpf objects are memory and file descriptors without thread affinity; `Pacer` is the only owner, and after loading it makes
// only bpf(2) calls on file descriptors.
unsafe impl Send for Pacer {}
// SAFETY: as above.
unsafe impl Sync for Pacer {}

impl std::fmt::Debug for Pacer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pacer")
    }
}

impl Pacer {
    /// Loads the programs.
    ///
    /// # Errors
    /// The kernel refuses: this process lacks `CAP_BPF` and `CAP_NET_ADMIN`, or the kernel is older than 6.1.
    pub fn load() -> Result<Self> {
        let needs =
            "loading the BPF programs (needs Linux 6.1 or later, and root or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON)";
        Ok(Self { skel: load::load(open, || needs.to_owned())? })
    }

    /// The filters at the interface's ingress and egress.
    pub fn filters(&self) -> [Filter<'_>; 2] {
        let p = &self.skel.progs;
        [(p.pacer_ingress.as_fd(), Hook::Ingress), (p.pacer_egress.as_fd(), Hook::Egress)]
            .map(|(program, hook)| Filter::new(program, Slot { hook, priority: PRIORITY }))
    }

    /// Replaces the settings of the programs.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn control(&self, control: &types::pacer_control) -> Result<()> {
        Map::new(&self.skel.maps.control).put(&CONTROL, control)
    }

    /// Rates of flows.
    pub fn paces(&self) -> Map<'_, types::pacer_key, types::pacer_pace> {
        Map::new(&self.skel.maps.pace_of)
    }

    /// Flows by peer and DestQP.
    pub fn flows(&self) -> Map<'_, types::pacer_key, types::pacer_flow> {
        Map::new(&self.skel.maps.flows)
    }

    /// Answers by peer and local QP.
    pub fn answers(&self) -> Map<'_, types::pacer_key, types::pacer_answers> {
        Map::new(&self.skel.maps.answers)
    }

    /// Flows that the answers for a local QP belong to.
    pub fn bindings(&self) -> Map<'_, types::pacer_key, types::pacer_binding> {
        Map::new(&self.skel.maps.bound)
    }

    /// Senders that are exempt from the limit of unknown ones; the value has no meaning.
    pub fn senders(&self) -> Map<'_, types::canopy_addr, u32> {
        Map::new(&self.skel.maps.senders)
    }

    /// Sums of the counters of all processors, by `pacer_count`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn counters(&self) -> Result<[u64; types::pacer_count::COUNTERS.0 as usize]> {
        let counters = PerCpu::<u32, u64>::new(&self.skel.maps.counters);
        let mut sums = [0; types::pacer_count::COUNTERS.0 as usize];
        for (index, sum) in (0..).zip(&mut sums) {
            *sum = counters.get(&index)?.into_iter().sum();
        }
        Ok(sums)
    }

    /// Notifications (`pacer_notice`).
    ///
    /// # Errors
    /// The map's handle cannot be duplicated.
    pub fn notices(&self) -> Result<MapHandle> {
        let map = &self.skel.maps.notices;
        MapHandle::try_from(map)
            .with_context(|| format!("duplicating the handle of map {}", map.name().to_string_lossy()))
    }

    /// Runs the egress program on a frame.
    ///
    /// # Errors
    /// The kernel refuses: the frame is longer than a page.
    pub fn send(&self, frame: &[u8]) -> Result<Run> {
        run(self.skel.progs.pacer_egress.as_fd(), RunContext::default(), frame)
    }
}

fn open() -> Result<OpenPacerSkel<'static>> {
    // Leaked once: the object lives as long as the daemon.
    let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    PacerSkelBuilder::default().open(storage).context("opening the BPF object")
}
