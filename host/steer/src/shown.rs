// SPDX-License-Identifier: Apache-2.0
//! The state of the steering, as it travels.

use std::net::Ipv6Addr;

use canopy_control::pb;
use canopy_host_core::steering::{CandidateView, DestinationView, PathId, Steering};

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
        usable: view.paths.iter().filter(|path| path.is_usable).count() as u32,
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
) -> Option<pb::GetSteeredPathsResponse> {
    let view = steering.destination(address)?;
    let map = steering.map()?;
    let path = |path| {
        let CandidateView { number, path, header, most, is_usable, share } = path;
        let (packets, octets) = share.map(|share| traffic(share.id)).unwrap_or_default();
        pb::SteeredPath {
            number: number as u32,
            nodes: map.names(path).map(str::to_owned).collect(),
            destination: header.destination.octets().to_vec(),
            segments: header.segments.iter().map(|segment| segment.octets().to_vec()).collect(),
            mtu: most,
            is_usable,
            path_id: share.map_or(0, |share| share.id.get()),
            slots: share.map_or(0, |share| share.slots as u32),
            packets,
            octets,
        }
    };
    let destination = Some(destination(&view, &traffic));
    Some(pb::GetSteeredPathsResponse { destination, paths: view.paths.into_iter().map(path).collect() })
}

/// The program's counters.
pub(crate) fn counters(kernel: &Kernel) -> Vec<pb::SteerCounter> {
    // An array's entries exist.
    let values = kernel.counters().unwrap_or_default();
    let counter = |(name, value): (&str, u64)| pb::SteerCounter { name: name.to_owned(), value };
    COUNTERS.into_iter().zip(values).map(counter).collect()
}
