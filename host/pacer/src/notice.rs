// SPDX-License-Identifier: Apache-2.0
//! Parses notifications: format, checksum and ICRC. The issuer and the QP are checked later.

use std::net::Ipv6Addr;

use canopy_model::instruction::{Action, Percent};
use canopy_packet::bth::{BthView, Opcode, RESV8A_BECN, RESV8A_E};
use canopy_packet::cnp::Cnp;
use canopy_packet::icmpv6;
use canopy_packet::icrc;
use canopy_packet::ipv6::{Ipv6, Ipv6View, NEXT_HEADER_ICMPV6, NEXT_HEADER_UDP};
use canopy_packet::long_haul_cnp::extension::{ExtensionsView, ObjectView};
use canopy_packet::long_haul_cnp::icmp::MessageView;
use canopy_packet::long_haul_cnp::roce::RoceView;
use canopy_packet::long_haul_cnp::{Action as WireAction, LongHaulCnp};
use canopy_packet::udp::{ROCE_PORT, Udp, UdpView};

/// The format of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// ICMPv6, the default.
    Icmpv6,
    /// RoCEv2 with bit E set.
    Rocev2,
    /// A plain CNP, or a packet handled as one.
    Cnp,
}

impl Format {
    /// The name in metrics and `status`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Icmpv6 => "icmpv6",
            Self::Rocev2 => "rocev2",
            Self::Cnp => "cnp",
        }
    }
}

/// The content of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A Long-haul CNP.
    LongHaul {
        /// The requested action.
        action: Action,
        /// Its Timestamp object.
        timestamp: Option<u64>,
    },
    /// A plain CNP, or a Long-haul CNP with unknown content.
    Cnp,
}

/// A well-formed notification, with its sender and QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification {
    /// IPv6 source address.
    pub from: Ipv6Addr,
    /// The QP's number, 24 bits.
    pub qpn: u32,
    /// Its format.
    pub format: Format,
    /// Its content.
    pub content: Content,
}

/// Why a packet is not a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// Longer than what the kernel copies (256 octets).
    TooLong,
    /// A length or a field that the format does not permit.
    Malformed,
    /// The ICMPv6 checksum is wrong.
    Checksum,
    /// The ICRC is wrong.
    Icrc,
}

impl Invalid {
    /// The name in metrics and `status`.
    pub fn name(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Malformed => "malformed",
            Self::Checksum => "checksum",
            Self::Icrc => "icrc",
        }
    }
}

/// Parses a packet of `length` octets, of which `bytes` are the first, from its IPv6 header on.
///
/// # Errors
/// It is not a notification; the error contains the format that it resembles.
pub fn read(bytes: &[u8], length: usize) -> Result<Notification, (Format, Invalid)> {
    let ip = Ipv6View::parse(bytes).map_err(|_| (Format::Icmpv6, Invalid::Malformed))?;
    let format = if ip.next_header() == NEXT_HEADER_UDP { Format::Cnp } else { Format::Icmpv6 };
    // Ethernet may have padded a short packet.
    let packet_len = Ipv6::LEN + usize::from(ip.payload_len());
    if packet_len > length {
        return Err((format, Invalid::Malformed));
    }
    let packet = bytes.get(..packet_len).ok_or((format, Invalid::TooLong))?;
    let payload = &packet[Ipv6::LEN..];
    match ip.next_header() {
        NEXT_HEADER_ICMPV6 => icmp(&ip, payload).map_err(|why| (format, why)),
        NEXT_HEADER_UDP => roce(&ip, packet, payload),
        _ => Err((format, Invalid::Malformed)),
    }
}

fn icmp(ip: &Ipv6View<'_>, message: &[u8]) -> Result<Notification, Invalid> {
    if !icmpv6::verify(ip.src(), ip.dst(), message) {
        return Err(if message.len() < icmpv6::Icmpv6::LEN { Invalid::Malformed } else { Invalid::Checksum });
    }
    let view = MessageView::parse(ip.src(), ip.dst(), message).map_err(|_| Invalid::Malformed)?;
    long_haul(ip.src(), Format::Icmpv6, view.cnp(), view.extensions())
}

fn roce(ip: &Ipv6View<'_>, packet: &[u8], payload: &[u8]) -> Result<Notification, (Format, Invalid)> {
    let malformed = |_| (Format::Cnp, Invalid::Malformed);
    let udp = UdpView::parse(payload).map_err(malformed)?;
    let bth = BthView::parse(udp.payload()).map_err(malformed)?;
    let with_e = bth.resv8a() & RESV8A_E != 0;
    let format = if with_e { Format::Rocev2 } else { Format::Cnp };
    let behind = bth.payload().len().checked_sub(icrc::LEN);
    // Required of every CNP: the right ports and lengths, BECN, and at least the reserved octets.
    let is_cnp = udp.dst_port() == ROCE_PORT
        && usize::from(udp.length()) == payload.len()
        && bth.opcode() == Opcode::CNP
        && bth.version() == 0
        && bth.resv8a() & RESV8A_BECN != 0
        && behind.is_some_and(|len| len == Cnp::LEN || with_e && len > Cnp::LEN);
    if !is_cnp {
        return Err((format, Invalid::Malformed));
    }
    if icrc::verify(packet) != Ok(true) {
        return Err((format, Invalid::Icrc));
    }
    let covered = &payload[Udp::LEN..payload.len() - icrc::LEN];
    let plain = Notification { from: ip.src(), qpn: bth.dest_qp(), format: Format::Cnp, content: Content::Cnp };
    if !with_e {
        return Ok(plain);
    }
    // Unknown content: handled as a CNP (decisions 4.7).
    let notification = RoceView::parse(covered)
        .map_err(|_| Invalid::Malformed)
        .and_then(|view| long_haul(ip.src(), Format::Rocev2, view.cnp(), view.extensions()));
    Ok(notification.unwrap_or(Notification { format: Format::Rocev2, ..plain }))
}

fn long_haul(
    from: Ipv6Addr,
    format: Format,
    cnp: LongHaulCnp,
    extensions: Option<ExtensionsView<'_>>,
) -> Result<Notification, Invalid> {
    let percent = |value| Percent::new(value).ok_or(Invalid::Malformed);
    let action = match cnp.action {
        WireAction::Notify => Action::Notify,
        WireAction::Pause { micros } => Action::Pause { micros },
        WireAction::RateReduce { percent: value } => Action::RateReduce(percent(value)?),
        WireAction::Resume { percent: value } => Action::Resume(percent(value)?),
    };
    let timestamp = extensions.iter().flat_map(ExtensionsView::objects).find_map(|object| match object {
        ObjectView::Timestamp(ntp) => Some(ntp),
        _ => None,
    });
    Ok(Notification { from, qpn: cnp.source_qp, format, content: Content::LongHaul { action, timestamp } })
}

#[cfg(test)]
mod tests;
