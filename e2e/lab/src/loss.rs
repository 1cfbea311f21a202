// SPDX-License-Identifier: Apache-2.0
//! The loss program at one end of a link: attaching it, changing its probability, reading its counters.
//!
//! Each end has its own program and its own pinned maps, so that a value written by one `canopy-lab` process applies
//! at once and any other process can read it. The program is removed with its interface; the pins must be removed.

use std::fs;
use std::mem::MaybeUninit;
use std::ops::{Add, Sub};
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use canopy_units::Octets;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle, TC_EGRESS, TcHookBuilder};
use nix::net::if_::if_nametoindex;
use serde::{Deserialize, Serialize};

use crate::units::Loss;

#[allow(unsafe_code, missing_docs, unreachable_pub, clippy::all, clippy::unwrap_used)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/loss.skel.rs"));
}

const KEY: [u8; 4] = 0u32.to_ne_bytes();
/// In `threshold`: the length up to which nothing is lost.
const LENGTH: [u8; 4] = 1u32.to_ne_bytes();

/// Counters of one end of a link, egress. Bytes include the Ethernet header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndCounters {
    /// Packets that went onto the wire.
    pub passed_packets: u64,
    /// Their bytes.
    #[serde(rename = "passed_bytes")]
    pub passed_octets: Octets,
    /// Packets dropped by the random loss.
    pub dropped_packets: u64,
    /// Their bytes.
    #[serde(rename = "dropped_bytes")]
    pub dropped_octets: Octets,
}

impl Add for EndCounters {
    type Output = Self;
    fn add(self, o: Self) -> Self {
        Self {
            passed_packets: self.passed_packets + o.passed_packets,
            passed_octets: self.passed_octets + o.passed_octets,
            dropped_packets: self.dropped_packets + o.dropped_packets,
            dropped_octets: self.dropped_octets + o.dropped_octets,
        }
    }
}

impl Sub for EndCounters {
    type Output = Self;
    fn sub(self, o: Self) -> Self {
        Self {
            passed_packets: self.passed_packets.saturating_sub(o.passed_packets),
            passed_octets: self.passed_octets.saturating_sub(o.passed_octets),
            dropped_packets: self.dropped_packets.saturating_sub(o.dropped_packets),
            dropped_octets: self.dropped_octets.saturating_sub(o.dropped_octets),
        }
    }
}

/// Loads the program, pins its maps in `pins` and attaches it at the egress of `interface`. The calling thread must
/// be in the interface's namespace.
///
/// # Errors
/// The kernel refuses the program, the pins or the hook.
pub(crate) fn attach(pins: &Path, interface: &str, loss: Loss) -> Result<()> {
    let mut storage = MaybeUninit::uninit();
    let open = skel::LossSkelBuilder::default().open(&mut storage).context("opening the loss program")?;
    let mut skel = open.load().context("loading the loss program: are you root?")?;
    fs::create_dir_all(pins).with_context(|| format!("creating {}", pins.display()))?;
    skel.maps.threshold.update(&KEY, &loss.threshold().to_ne_bytes(), MapFlags::ANY).context("setting the loss")?;
    skel.maps.threshold.pin(pins.join("threshold")).with_context(|| format!("pinning in {}", pins.display()))?;
    skel.maps.counters.pin(pins.join("counters")).with_context(|| format!("pinning in {}", pins.display()))?;

    let index = if_nametoindex(interface).with_context(|| format!("finding interface {interface}"))?;
    let mut hook = TcHookBuilder::new(skel.progs.lose.as_fd())
        .ifindex(i32::try_from(index)?)
        .handle(1)
        .priority(1)
        .hook(TC_EGRESS);
    hook.create().with_context(|| format!("creating clsact on {interface}"))?;
    hook.attach().with_context(|| format!("attaching the loss program to {interface}"))?;
    Ok(())
}

/// Changes the probability while traffic flows, that of packets with more octets than `length`, with the Ethernet header.
///
/// # Errors
/// The end is not up.
pub(crate) fn set(pins: &Path, loss: Loss, length: u64) -> Result<()> {
    let threshold = open(pins, "threshold")?;
    let update = |key: &[u8], value: u64| {
        let done = threshold.update(key, &value.to_ne_bytes(), MapFlags::ANY);
        done.with_context(|| format!("setting the loss in {}", pins.display()))
    };
    update(&LENGTH, length)?;
    update(&KEY, loss.threshold())
}

/// The current probability.
///
/// # Errors
/// The end is not up.
pub(crate) fn get(pins: &Path) -> Result<Loss> {
    let value = open(pins, "threshold")?.lookup(&KEY, MapFlags::ANY)?;
    let bytes = value
        .and_then(|v| <[u8; 8]>::try_from(v).ok())
        .with_context(|| format!("{}/threshold is not the loss program's", pins.display()))?;
    Ok(Loss::from_threshold(u64::from_ne_bytes(bytes)))
}

/// Reads the counters of the end.
///
/// # Errors
/// The end is not up.
pub(crate) fn read(pins: &Path) -> Result<EndCounters> {
    let per_cpu = open(pins, "counters")?.lookup_percpu(&KEY, MapFlags::ANY)?.unwrap_or_default();
    per_cpu.iter().try_fold(EndCounters::default(), |sum, value| Ok(sum + decode(value)?))
}

fn open(pins: &Path, map: &str) -> Result<MapHandle> {
    let path = pins.join(map);
    MapHandle::from_pinned_path(&path).with_context(|| format!("opening {}: is the lab up?", path.display()))
}

/// `struct counters` of loss.bpf.c: four u64 in this order.
fn decode(value: &[u8]) -> Result<EndCounters> {
    ensure!(
        value.len() == size_of::<skel::types::counters>(),
        "struct counters has {} bytes in the kernel",
        value.len()
    );
    let field = |i: usize| {
        value
            .chunks_exact(8)
            .nth(i)
            .and_then(|c| c.try_into().ok())
            .map(u64::from_ne_bytes)
            .context("struct counters is too short")
    };
    Ok(EndCounters {
        passed_packets: field(0)?,
        passed_octets: Octets(field(1)?),
        dropped_packets: field(2)?,
        dropped_octets: Octets(field(3)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_where_the_c_header_has_them() {
        use skel::types::counters as C;
        use std::mem::offset_of;
        assert_eq!(
            [
                offset_of!(C, passed_packets),
                offset_of!(C, passed_bytes),
                offset_of!(C, dropped_packets),
                offset_of!(C, dropped_bytes)
            ],
            [0, 8, 16, 24]
        );
        let value: Vec<u8> = [1u64, 2, 3, 4].iter().flat_map(|v| v.to_ne_bytes()).collect();
        assert_eq!(
            decode(&value).unwrap(),
            EndCounters { passed_packets: 1, passed_octets: Octets(2), dropped_packets: 3, dropped_octets: Octets(4) }
        );
        assert!(decode(&value[..24]).is_err());
    }
}
