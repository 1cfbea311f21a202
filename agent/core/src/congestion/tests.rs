// SPDX-License-Identifier: Apache-2.0

use std::net::Ipv6Addr;
use std::time::Duration;

use canopy_model::ids::{PortIndex, Qpn};
use canopy_units::{Monotonic, Octets};

use super::*;

mod counting;
mod deferring;
mod metrics;
mod sending;
mod table;

const MS: u64 = 1_000_000;
const MB: u64 = 1_000_000;
const RTT: u64 = 10 * MS;

/// A time of a test, in nanoseconds.
fn instant(ns: u64) -> Monotonic {
    Monotonic::from_nanos(ns)
}

/// The same for a span.
fn span(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

fn qp(n: u64) -> Qpn {
    Qpn::new("qp", n).unwrap()
}

fn port() -> PortIndex {
    PortIndex::new("port", 1).unwrap()
}

/// Flow number `n`, to QP 200.
fn key(n: u32) -> FlowKey {
    let src = Ipv6Addr::from_bits(0xfd00_u128 << 112 | u128::from(n));
    FlowKey { src, dst: "fd00:ff::4".parse().unwrap(), dst_qp: qp(200) }
}

/// The same, from QP 100.
fn flow(n: u32) -> FourTuple {
    FourTuple { key: key(n), src_qp: qp(100) }
}

fn percent(value: u8) -> Percent {
    Percent::new(value).unwrap()
}

/// 100 Gb/s x 10 ms: K_max 125 MB, K_min 62.5 MB.
fn limits() -> Limits {
    Limits::new(Octets(62_500_000), Octets(125 * MB), span(RTT))
}
