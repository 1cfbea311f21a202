// SPDX-License-Identifier: Apache-2.0
//! Values drawn from proptest strategies, the same in every run: a peer is too slow to be started for each case.

use canopy_packet::aeth::{Aeth, Syndrome};
use canopy_packet::bth::{Bth, Opcode};
use canopy_packet::frame::{Extensions, RoceBuilder};
use canopy_packet::immdt::ImmDt;
use canopy_packet::reth::Reth;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::net::Ipv6Addr;

/// `count` values of a strategy.
pub(crate) fn sample<S: Strategy>(count: usize, strategy: S) -> Vec<S::Value> {
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

/// Addresses that every notation writes alike: all groups non-zero, so there is nothing to abbreviate.
pub(crate) fn address() -> impl Strategy<Value = Ipv6Addr> {
    any::<[u16; 8]>().prop_map(|groups| Ipv6Addr::from(groups.map(|group| group | 0x1000)))
}

prop_compose! {
    /// SEND, WRITE and ACK packets with every field drawn, the masked ones too.
    pub(crate) fn roce()(
        opcode in prop::sample::select(&[
            Opcode::SEND_FIRST,
            Opcode::SEND_LAST_IMM,
            Opcode::WRITE_ONLY,
            Opcode::WRITE_ONLY_IMM,
            Opcode::ACKNOWLEDGE,
        ][..]),
        (src, dst) in (address(), address()),
        (traffic_class, flow_label, hop_limit, src_port) in
            (any::<u8>(), 0_u32..1 << 20, any::<u8>(), any::<u16>()),
        bth in any::<[u8; 12]>(),
        reth in any::<(u64, u32, u32)>(),
        (syndrome, msn, immdt) in (any::<u8>(), 0_u32..1 << 24, any::<u32>()),
        payload in prop::collection::vec(any::<u8>(), 0..64),
    ) -> (RoceBuilder<'static>, Vec<u8>) {
        let bth = Bth { opcode, version: 0, ..Bth::parse(&bth).unwrap() };
        let (va, rkey, dma_len) = reth;
        let extensions = Extensions {
            reth: opcode.has_reth().then_some(Reth { va, rkey, dma_len }),
            aeth: opcode.has_aeth().then_some(Aeth { syndrome: Syndrome(syndrome), msn }),
            immdt: opcode.has_immdt().then_some(ImmDt(immdt)),
            ..Extensions::default()
        };
        let builder = RoceBuilder {
            traffic_class, flow_label, hop_limit, src, dst, src_port, bth, extensions, payload: &[],
        };
        (builder, if opcode.has_payload() { payload } else { Vec::new() })
    }
}
