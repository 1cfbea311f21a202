// SPDX-License-Identifier: Apache-2.0
//! Options of queueing disciplines and classes as octets (include/uapi/linux/pkt_sched.h); the netlink crate has no names
//! for them.

use netlink_packet_core::DefaultNla;
use netlink_packet_route::tc::TcAttribute;

const TCA_OPTIONS: u16 = 2;
const FQ_PLIMIT: u16 = 1;
const FQ_FLOW_PLIMIT: u16 = 2;
const FQ_HORIZON_DROP: u16 = 15;
const HTB_PARMS: u16 = 1;
const HTB_INIT: u16 = 2;
const HTB_RATE64: u16 = 6;
const HTB_CEIL64: u16 = 7;
const HTB_VERSION: u32 = 3;
const LINKLAYER_ETHERNET: u8 = 1;
/// The unit of HTB's buffers: 64 ns.
const TICK_SHIFT: u32 = 6;

/// Maximum number of packets of fq, and of one flow: far more than a socket's buffer, for a slow QP.
const FQ_PACKETS: u32 = 65_536;
const FQ_FLOW_PACKETS: u32 = 16_384;
/// Maximum number of packets in the leaf qdisc of a class.
const LEAF_PACKETS: u32 = 16_384;

/// Rates and burst of an HTB class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class {
    /// Guaranteed rate, in octets per second.
    pub(super) sure: u64,
    /// Maximum rate, in octets per second.
    pub(super) most: u64,
    /// Octets that may leave in one burst.
    pub(super) burst_octets: u64,
    /// Octets per turn when classes compete for the device.
    pub(super) quantum: u32,
}

/// fq that caps departures beyond its horizon instead of dropping them.
pub(super) fn fq() -> TcAttribute {
    let nested = [
        attribute(FQ_PLIMIT, &FQ_PACKETS.to_ne_bytes()),
        attribute(FQ_FLOW_PLIMIT, &FQ_FLOW_PACKETS.to_ne_bytes()),
        attribute(FQ_HORIZON_DROP, &[0]),
    ];
    options(nested.concat())
}

/// HTB whose unclassified packets go to `default`.
pub(super) fn htb(default: u16) -> TcAttribute {
    let glob = [HTB_VERSION, 10, u32::from(default), 0, 0].map(u32::to_ne_bytes).concat();
    options(attribute(HTB_INIT, &glob))
}

/// An HTB class.
pub(super) fn class(class: Class) -> TcAttribute {
    let buffer = |rate: u64| {
        let ns = u128::from(class.burst_octets) * 1_000_000_000 / u128::from(rate.max(1));
        u32::try_from(ns >> TICK_SHIFT).unwrap_or(u32::MAX).max(1)
    };
    // struct tc_ratespec.
    let spec = |rate: u64| {
        let mut spec = vec![0, LINKLAYER_ETHERNET];
        spec.extend([0; 6]);
        spec.extend(u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
        spec
    };
    let mut parms = [spec(class.sure), spec(class.most)].concat();
    for word in [buffer(class.sure), buffer(class.most), class.quantum, 0, 0] {
        parms.extend(word.to_ne_bytes());
    }
    let mut nested = attribute(HTB_PARMS, &parms);
    for (kind, rate) in [(HTB_RATE64, class.sure), (HTB_CEIL64, class.most)] {
        if u32::try_from(rate).is_err() {
            nested.extend(attribute(kind, &rate.to_ne_bytes()));
        }
    }
    options(nested)
}

/// A FIFO of packets.
pub(super) fn pfifo() -> TcAttribute {
    options(LEAF_PACKETS.to_ne_bytes().to_vec())
}

fn options(bytes: Vec<u8>) -> TcAttribute {
    TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, bytes))
}

/// One netlink attribute, padded to 4 octets.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = 4 + value.len() as u16;
    let mut out = [len.to_ne_bytes(), kind.to_ne_bytes()].concat();
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::Nla;

    #[test]
    fn a_class_lies_as_the_kernel_reads_it() {
        let TcAttribute::Other(nla) =
            class(Class { sure: 500_000, most: 1_000_000, burst_octets: 64_000, quantum: 1514 })
        else {
            panic!("not octets");
        };
        let mut bytes = vec![0; nla.value_len()];
        nla.emit_value(&mut bytes);
        // struct tc_htb_opt has 44 octets.
        assert_eq!(bytes.len(), 48);
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((word(12), word(24)), (500_000, 1_000_000), "rate and ceil");
        // 64000 octets at 1 MB/s are 64 ms: a million ticks.
        assert_eq!((word(28), word(32), word(36)), (2_000_000, 1_000_000, 1514));
        assert_eq!(bytes[5], LINKLAYER_ETHERNET);
    }

    #[test]
    fn rates_beyond_32_bits_have_attributes_of_their_own() {
        let of = |rate| match class(Class { sure: 1, most: rate, burst_octets: 1, quantum: 1 }) {
            TcAttribute::Other(nla) => nla.value_len(),
            _ => 0,
        };
        assert_eq!((of(u64::from(u32::MAX)), of(12_500_000_000)), (48, 60));
    }
}
