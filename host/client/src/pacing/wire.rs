// SPDX-License-Identifier: Apache-2.0
//! Converts the daemon's messages to the types of this module.

use std::net::Ipv6Addr;
use std::time::Duration;

use canopy_control::pb;
use canopy_model::ids::Qpn;
use canopy_units::{Monotonic, Rate, UnixTime, nanos};

use super::{Action, Cause, LimitedBy, Means, OpenOptions, Origin, Qp, Status};
use crate::Error;

impl OpenOptions {
    pub(super) fn request(&self) -> Result<pb::OpenQpRequest, Error> {
        let qpn = Qpn::new("qpn", self.qpn.into())?.get();
        let dest_qpn = Qpn::new("dest_qpn", self.dest_qpn.into())?.get();
        let rtt = self.rtt.map_or(0, nanos);
        let (line, min) = (self.line_rate, self.min_rate);
        for (field, zero) in [("line_rate_bps", line == Some(Rate::ZERO)), ("min_rate_bps", min == Some(Rate::ZERO))] {
            if zero {
                let reason = "0 is no rate: use 1 bit/s or more, or leave it out for the daemon's".to_owned();
                return Err(Error::Invalid { field: field.to_owned(), reason });
            }
        }
        Ok(pb::OpenQpRequest {
            qpn,
            peer: self.peer.octets().to_vec(),
            dest_qpn,
            line_rate_bps: line.unwrap_or_default().bps(),
            min_rate_bps: min.unwrap_or_default().bps(),
            rtt_ns: rtt,
        })
    }
}

pub(super) fn qp(wire: Option<pb::PacedQp>) -> Result<Qp, Error> {
    let wire = wire.ok_or_else(|| unexpected("a queue pair", "is missing"))?;
    let origin = match wire.origin() {
        pb::QpOrigin::Registered => Origin::Registered,
        pb::QpOrigin::Learned => Origin::Learned,
        pb::QpOrigin::Agent => Origin::Agent,
        pb::QpOrigin::Unspecified => return Err(unexpected("origin", "has a value of a newer daemon")),
    };
    let limited_by = match (wire.limited_by.as_slice(), wire.limited_by_peer) {
        ([], _) => None,
        (node, false) => Some(LimitedBy::Node(address("limitedBy", node)?)),
        (peer, true) => Some(LimitedBy::Peer(address("limitedBy", peer)?)),
    };
    Ok(Qp {
        qpn: wire.qpn,
        peer: address("peer", &wire.peer)?,
        dest_qpn: wire.dest_qpn,
        origin,
        rate: Rate::from_bps(wire.rate_bps),
        line_rate: Rate::from_bps(wire.line_rate_bps),
        min_rate: Rate::from_bps(wire.min_rate_bps),
        pause_left: (wire.pause_left_ns > 0).then(|| Duration::from_nanos(wire.pause_left_ns)),
        limited_by,
        rtt: Duration::from_nanos(wire.rtt_ns),
        rtt_is_measured: wire.rtt_is_measured,
    })
}

pub(super) fn action(wire: pb::WatchActionsResponse) -> Result<Action, Error> {
    let cause = match wire.cause() {
        pb::PacingCause::State => Cause::State,
        pb::PacingCause::Open => Cause::Open,
        pb::PacingCause::Close => Cause::Close,
        pb::PacingCause::Adjust => Cause::Adjust,
        pb::PacingCause::Notify => Cause::Notify,
        pb::PacingCause::Reduce => Cause::Reduce,
        pb::PacingCause::Pause => Cause::Pause,
        pb::PacingCause::Resume => Cause::Resume,
        pb::PacingCause::Cnp => Cause::Cnp,
        pb::PacingCause::PauseEnd => Cause::PauseEnd,
        pb::PacingCause::Increase => Cause::Increase,
        pb::PacingCause::Unspecified => return Err(unexpected("cause", "has a value of a newer daemon")),
    };
    Ok(Action {
        cause,
        qp: qp(wire.qp)?,
        received_at: (wire.received_ns > 0).then(|| Monotonic::from_nanos(wire.received_ns)),
        applied_at: Monotonic::from_nanos(wire.applied_ns),
        applied_unix: UnixTime::from_nanos(wire.applied_unix_ns),
        missed: wire.missed,
    })
}

pub(super) fn status(wire: pb::ListQpsResponse) -> Result<Status, Error> {
    let pacing = match wire.pacing() {
        pb::PacingMeans::Edt => Means::Edt,
        pb::PacingMeans::Htb => Means::Htb,
        pb::PacingMeans::None => Means::None,
        pb::PacingMeans::Unspecified => return Err(unexpected("pacing", "has a value of a newer daemon")),
    };
    let counters = |list: Vec<pb::Counter>| list.into_iter().map(|c| (c.name, c.value)).collect();
    Ok(Status {
        qps: wire.qps.into_iter().map(|one| qp(Some(one))).collect::<Result<_, _>>()?,
        pacing,
        interface: wire.interface,
        line_rate: Rate::from_bps(wire.line_rate_bps),
        nodes: wire.nodes,
        received: counters(wire.received),
        outcomes: counters(wire.outcomes),
        actions: counters(wire.actions),
        at: Monotonic::from_nanos(wire.monotonic_ns),
    })
}

fn address(field: &str, octets: &[u8]) -> Result<Ipv6Addr, Error> {
    let octets = <[u8; 16]>::try_from(octets);
    octets.map(Ipv6Addr::from).map_err(|_| unexpected(field, "is not an IPv6 address of 16 octets"))
}

fn unexpected(field: &str, what: &str) -> Error {
    Error::Protocol(format!("{field} {what}: daemon and client are of different versions"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn invalid_fields_of_a_request_are_reported_by_name() {
        let good = OpenOptions::new(17, Ipv6Addr::LOCALHOST, 18);
        let field = |options: OpenOptions| match options.request().unwrap_err() {
            Error::Invalid { field, .. } => field,
            other => panic!("{other}"),
        };
        assert_eq!(good.request().unwrap().peer, Ipv6Addr::LOCALHOST.octets());
        assert_eq!(field(OpenOptions { qpn: 1, ..good }), "qpn");
        assert_eq!(field(OpenOptions { dest_qpn: 1 << 24, ..good }), "dest_qpn");
        assert_eq!(field(OpenOptions { min_rate: Some(Rate::ZERO), ..good }), "min_rate_bps");
    }

    #[test]
    fn an_answer_has_the_limiting_node_and_the_rest_of_a_pause() {
        let node: Ipv6Addr = "fcff::1".parse().unwrap();
        let wire = pb::PacedQp {
            peer: Ipv6Addr::LOCALHOST.octets().to_vec(),
            origin: pb::QpOrigin::Learned.into(),
            limited_by: node.octets().to_vec(),
            pause_left_ns: 7,
            ..pb::PacedQp::default()
        };
        let read = qp(Some(wire.clone())).unwrap();
        assert_eq!((read.limited_by, read.pause_left), (Some(LimitedBy::Node(node)), Some(Duration::from_nanos(7))));
        let read = qp(Some(pb::PacedQp { limited_by_peer: true, pause_left_ns: 0, ..wire.clone() })).unwrap();
        assert_eq!((read.limited_by, read.pause_left), (Some(LimitedBy::Peer(node)), None));
        assert!(qp(Some(pb::PacedQp { peer: vec![1], ..wire.clone() })).is_err());
        assert!(qp(Some(pb::PacedQp { origin: 0, ..wire })).is_err());
    }
}
