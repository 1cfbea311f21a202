// SPDX-License-Identifier: Apache-2.0
//! The state of the steering, as it travels.

use std::net::Ipv6Addr;
use std::ops::Add;
use std::time::Duration;

use canopy_bpf::monotonic;
use canopy_control::pb;
use canopy_host_core::probing::{Counts, Fault, OfLate, Probing, WayView};
use canopy_host_core::steering::{CandidateView, DestinationView, PathId, Steering, Suspect};
use canopy_paths::fabric::PortOf;
use canopy_paths::program::Header;
use canopy_units::nanos;

use crate::kernel::{COUNTERS, Kernel};

/// A destination.
pub(crate) fn destination(
    view: &DestinationView<'_>,
    traffic: impl Fn(PathId) -> (u64, u64),
) -> pb::SteeredDestination {
    let shares = || view.paths.iter().filter_map(|path| Some((path, path.share?)));
    pb::SteeredDestination {
        prefix: view.prefix.addr().octets().to_vec(),
        prefix_length: view.prefix.prefix_len().into(),
        paths: view.paths.len() as u32,
        active: shares().count() as u32,
        usable: view.paths.iter().filter(|path| !path.is_out && path.fault.is_none()).count() as u32,
        pinned: view.pinned.unwrap_or(0) as u32,
        packets: shares().map(|(_, share)| traffic(share.id).0).sum(),
        mtu: shares().map(|(path, _)| path.most).min().unwrap_or(0),
    }
}

/// The paths to a host.
pub(crate) fn paths(
    steering: &Steering,
    address: Ipv6Addr,
    traffic: impl Fn(PathId) -> (u64, u64),
    probed: impl Fn(&Header) -> Option<WayView>,
) -> Option<pb::GetSteeredPathsResponse> {
    let view = steering.destination(address)?;
    let map = steering.map()?;
    let path = |path| {
        let CandidateView { number, path, header, most, is_out, fault, probe, weight, share } = path;
        let (packets, octets) = share.map(|share| traffic(share.id)).unwrap_or_default();
        let way = probe.and_then(&probed);
        let since = way.and_then(|way| way.since.filter(|_| fault.is_some()));
        let ns = |time: fn(&WayView) -> Option<Duration>| way.as_ref().and_then(time).map_or(0, nanos);
        let count = |of: fn(&WayView) -> u64| way.as_ref().map_or(0, of);
        pb::SteeredPath {
            number: number as u32,
            nodes: map.names(path).map(str::to_owned).collect(),
            destination: header.destination.octets().to_vec(),
            segments: header.segments.iter().map(|segment| segment.octets().to_vec()).collect(),
            mtu: most,
            is_usable: !is_out,
            path_id: share.map_or(0, |share| share.id.get()),
            slots: share.map_or(0, |share| share.slots as u32),
            packets,
            octets,
            fault: match fault {
                None => pb::SteerFault::Unspecified,
                Some(Fault::Loss) => pb::SteerFault::Loss,
                Some(Fault::BlackHole) => pb::SteerFault::BlackHole,
            }
            .into(),
            fault_ns: since.map_or(0, |since| nanos(monotonic().since(since)).max(1)),
            rtt_ns: ns(|way| way.rtt),
            least_rtt_ns: ns(|way| way.least),
            probes_back: count(|way| way.counts.back),
            probes_lost: count(|way| way.counts.lost - way.counts.late),
            probes_congested: count(|way| way.counts.congested),
            weight,
        }
    };
    let destination = Some(destination(&view, &traffic));
    Some(pb::GetSteeredPathsResponse { destination, paths: view.paths.into_iter().map(path).collect() })
}

/// Probes of all ways.
pub(crate) fn probes(steering: &Steering, probing: &Probing, refused: String) -> pb::SteerProbes {
    let (ways, faulty) = steering.ways();
    let all = probing.ways().map(|way| way.counts).fold(probing.former(), Counts::add);
    pb::SteerProbes {
        interval_ns: nanos(probing.settings().interval),
        stretch: probing.stretch(),
        ways: ways as u32,
        faulty: faulty as u32,
        left_out: probing.left_out() as u32,
        back: all.back,
        late: all.late,
        marked: all.marked,
        congested: all.congested,
        lost: all.lost,
        not_sent: all.not_sent,
        refused,
        silent: probing.ways().filter(|way| way.counts.back == 0 && way.fault.is_none()).count() as u32,
    }
}

/// Links that explain faults.
pub(crate) fn suspects(steering: &Steering, of_late: impl Fn(&Header) -> Option<OfLate>) -> Vec<pb::SteerSuspect> {
    let end = |end: PortOf| {
        let name = steering.map().map_or("", |map| map.name(end.node)).to_owned();
        (name, u32::from(end.port.get()))
    };
    let shown = |Suspect { ends, is_directed, faulty, of, confidence }| {
        let ((a, a_port), (b, b_port)) = ends.map(|(a, b)| (end(a), end(b))).unwrap_or_default();
        let (faulty, of) = (faulty as u32, of as u32);
        pb::SteerSuspect { a, a_port, b, b_port, faulty, of, confidence, is_directed, is_own: ends.is_none() }
    };
    steering.suspects(of_late).into_iter().map(shown).collect()
}

/// The program's counters.
pub(crate) fn counters(kernel: &Kernel) -> Vec<pb::SteerCounter> {
    // An array's entries exist.
    let values = kernel.counters().unwrap_or_default();
    let counter = |(name, value): (&str, u64)| pb::SteerCounter { name: name.to_owned(), value };
    COUNTERS.into_iter().zip(values).map(counter).collect()
}
