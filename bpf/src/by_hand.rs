// SPDX-License-Identifier: Apache-2.0
//! The baseline of the packet benchmarks: a TC program that copies one fixed stream and does nothing else.

use std::net::Ipv6Addr;
use std::os::fd::AsFd;

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder};

use crate::error::{Context, Result};
use crate::run::{self, Run, run};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/by_hand.bpf.o"));

/// What one receiver's copy differs in.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    /// Output interface.
    pub ifindex: u32,
    /// Addresses of the copy.
    pub addresses: (Ipv6Addr, Ipv6Addr),
    /// DestQP.
    pub qpn: u32,
    /// Difference of the ICRC.
    pub icrc_xor: u32,
}

/// The loaded program.
pub struct ByHand(Object);

impl ByHand {
    /// Loads the program for a stream whose packets have an outer header of `outer_len` octets, and the ICRC at `icrc_at` without it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn load(outer_len: u32, icrc_at: u32, copies: &[Copy]) -> Result<Self> {
        let loading = "loading the baseline program";
        let object =
            ObjectBuilder::default().open_memory(OBJECT).and_then(libbpf_rs::OpenObject::load).context(loading)?;
        let put = |map: &str, key: u32, value: Vec<u8>| -> Result<()> {
            let map = object.maps().find(|m| m.name() == map).ok_or("a map is missing").context(loading)?;
            map.update(&key.to_ne_bytes(), &value, MapFlags::ANY).context(loading)
        };
        let words = |all: &[u32]| all.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>();
        put("by_hand_streams", 0, words(&[copies.len() as u32, outer_len, icrc_at, 0]))?;
        for (i, copy) in (0..).zip(copies) {
            let (src, dst) = copy.addresses;
            let macs = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
            let value = [
                &macs[..],
                &words(&[copy.ifindex]),
                &src.octets(),
                &dst.octets(),
                &copy.qpn.to_be_bytes(),
                &words(&[copy.icrc_xor]),
            ];
            put("by_hand_copies", i, value.concat())?;
        }
        Ok(Self(object))
    }

    /// Runs the program on a frame.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn run(&self, packet: &[u8]) -> Result<Run> {
        let program = self.0.progs().next().ok_or("no program").context("running the baseline program")?;
        run(program.as_fd(), run::Context::default(), &crate::node::ethernet(packet))
    }
}
