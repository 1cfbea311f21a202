// SPDX-License-Identifier: Apache-2.0
//! How receiver lists are distributed: in End.MT TLVs, as provisioned state, or a mix of both (decisions 2.6).
//!
//! An SRH has at most 2048 bytes, and the encapsulated packet must fit the smallest link between the tree's nodes.
//! Within that, `auto` keeps as many edges in-band as it can by taking the shortest lists first; the longest lists
//! become provisioned state.

use std::net::Ipv6Addr;

use canopy_model::FieldError;
use canopy_model::group::{EncodingChoice, EncodingMode};
use canopy_packet::bth::Bth;
use canopy_packet::end_mt;
use canopy_packet::immdt::ImmDt;
use canopy_packet::ipv6::Ipv6;
use canopy_packet::reth::Reth;
use canopy_packet::udp::Udp;
use canopy_packet::{icrc, srh};
use canopy_units::Octets;

/// The encoding chosen for a group, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodingReport {
    /// The mode in force.
    pub mode: EncodingMode,
    /// Why, with the numbers that decided it.
    pub reason: String,
    /// Size of the SRH, TLVs and padding included.
    pub srh: Octets,
    /// What encapsulation adds to each packet: the outer IPv6 header and the SRH.
    pub overhead: Octets,
    /// Segment List in wire order: `[0]` the Proxy Address, `[1]` the tree's first SID.
    pub segments: Vec<Ipv6Addr>,
    /// Edge nodes whose receiver lists are in End.MT TLVs, in the tree's order.
    pub in_band_edges: Vec<String>,
    /// Edge nodes that hold their receivers as provisioned state, in the tree's order.
    pub provisioned_edges: Vec<String>,
}

/// Segments of the list that a headend writes: the Proxy Address and the tree's first SID.
const SEGMENTS: usize = 2;
/// An SRH without TLVs.
const BARE_SRH: usize = srh::FIXED_LEN + SEGMENTS * srh::SEGMENT_LEN;
/// Every header around a packet's payload, the largest that occur: a WRITE ONLY with immediate.
const INNER_HEADERS: usize = Ipv6::LEN + Udp::LEN + Bth::LEN + Reth::LEN + ImmDt::LEN + icrc::LEN;

/// Bytes of a group's largest packet as a host sends and receives it.
pub(crate) fn inner_bytes(path_mtu: u32) -> usize {
    INNER_HEADERS + path_mtu as usize
}

/// A link and its MTU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TightLink {
    pub(crate) label: String,
    pub(crate) mtu: u32,
}

/// Inputs of the decision.
#[derive(Clone, Debug)]
pub(crate) struct Question<'a> {
    pub(crate) choice: EncodingChoice,
    pub(crate) path_mtu: u32,
    /// Receivers of each edge, in the tree's order.
    pub(crate) edges: &'a [usize],
    /// The link between two tree nodes with the smallest MTU, unless the tree is a single node.
    pub(crate) tightest: Option<TightLink>,
    /// The SRH has an HMAC TLV.
    pub(crate) signed: bool,
}

impl Question<'_> {
    /// Bytes of an SRH with `tlvs` bytes of End.MT TLVs. These are multiples of 4, so the padding is 0 or one PadN of 4.
    fn srh_bytes(&self, tlvs: usize) -> usize {
        (BARE_SRH + tlvs).next_multiple_of(8) + if self.signed { srh::HMAC_TLV_LEN } else { 0 }
    }
}

/// The decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) mode: EncodingMode,
    pub(crate) reason: String,
    pub(crate) srh_bytes: usize,
    /// Per edge, in the question's order.
    pub(crate) in_band: Vec<bool>,
}

impl Decision {
    /// Bytes that encapsulation adds to a packet.
    pub(crate) fn overhead_bytes(&self) -> usize {
        Ipv6::LEN + self.srh_bytes
    }
}

/// Checks that a host link can carry the decapsulated packet.
///
/// # Errors
/// Names the link and the path MTU that would fit.
pub(crate) fn check_host_link(path_mtu: u32, link: &TightLink) -> Result<(), FieldError> {
    let needed = inner_bytes(path_mtu);
    if needed <= link.mtu as usize { Ok(()) } else { Err(too_small(path_mtu, link, needed, INNER_HEADERS)) }
}

/// Chooses the encoding.
///
/// # Errors
/// `spec.pathMtu` when a link cannot carry even a packet without TLVs; `spec.encoding` when all lists were asked to be
/// in-band and cannot.
pub(crate) fn decide(q: &Question<'_>) -> Result<Decision, FieldError> {
    let (budget, limit) = budget(q)?;
    let lists: Vec<usize> = q.edges.iter().map(|&n| tlv_bytes(n)).collect();
    let whole = q.srh_bytes(lists.iter().sum());
    let all = |in_band: bool| vec![in_band; q.edges.len()];
    match q.choice {
        EncodingChoice::Provisioned => {
            let reason = format!(
                "spec.encoding asks for it; in-band lists would need an SRH of {whole} bytes of at most {limit}"
            );
            Ok(Decision { mode: EncodingMode::Provisioned, reason, srh_bytes: q.srh_bytes(0), in_band: all(false) })
        }
        EncodingChoice::Auto | EncodingChoice::InBand if whole <= budget => {
            let reason =
                format!("the lists of all {} edges fit: the SRH has {whole} bytes of at most {limit}", q.edges.len());
            Ok(Decision { mode: EncodingMode::InBand, reason, srh_bytes: whole, in_band: all(true) })
        }
        EncodingChoice::InBand => Err(FieldError::new(
            "spec.encoding",
            format!(
                "inBand would need an SRH of {whole} bytes, but there are at most {limit}: use auto or provisioned"
            ),
        )),
        EncodingChoice::Auto => Ok(shortest_lists(q, &lists, budget, whole, &limit)),
    }
}

/// As many edges in-band as fit: taking the shortest lists first leaves most edges in-band.
fn shortest_lists(q: &Question<'_>, lists: &[usize], budget: usize, whole: usize, limit: &str) -> Decision {
    let mut by_length: Vec<usize> = (0..lists.len()).collect();
    by_length.sort_by_key(|&i| (lists[i], i));
    let mut in_band = vec![false; lists.len()];
    let mut sum = 0;
    for i in by_length {
        if q.srh_bytes(sum + lists[i]) > budget {
            break;
        }
        sum += lists[i];
        in_band[i] = true;
    }
    let count = in_band.iter().filter(|&&b| b).count();
    let mode = if count == 0 { EncodingMode::Provisioned } else { EncodingMode::Hybrid };
    let why = format!("all {} lists would need an SRH of {whole} bytes, but there are at most {limit}", lists.len());
    let reason = match count {
        0 => format!("{why}; no list fits"),
        _ => format!(
            "{why}; the {} longest lists are provisioned, the SRH has {} bytes",
            lists.len() - count,
            q.srh_bytes(sum)
        ),
    };
    Decision { mode, reason, srh_bytes: q.srh_bytes(sum), in_band }
}

/// Largest size of the SRH, and the limit in words.
fn budget(q: &Question<'_>) -> Result<(usize, String), FieldError> {
    let (around, bare) = (Ipv6::LEN + inner_bytes(q.path_mtu), q.srh_bytes(0));
    let spec = (srh::MAX_LEN, format!("{}, the largest SRH there can be (RFC 8754)", srh::MAX_LEN));
    let Some(link) = &q.tightest else { return Ok(spec) };
    match (link.mtu as usize).checked_sub(around) {
        Some(left) if left >= srh::MAX_LEN => Ok(spec),
        Some(left) if left >= bare => Ok((
            left,
            format!("{left}: link {} has MTU {}, and packets with outer headers need {around}", link.label, link.mtu),
        )),
        _ => Err(too_small(q.path_mtu, link, around + bare, around + bare - q.path_mtu as usize)),
    }
}

fn too_small(path_mtu: u32, link: &TightLink, needed: usize, headers: usize) -> FieldError {
    let fits = [2048, 1024, 512, 256].into_iter().find(|m| m + headers <= link.mtu as usize);
    let mut detail = format!(
        "link {} has MTU {}, this group needs {needed} bytes ({path_mtu} of payload, {headers} of headers): raise the link's MTU",
        link.label, link.mtu
    );
    if let Some(smaller) = fits {
        detail.push_str(&format!(" or use pathMtu {smaller}"));
    }
    FieldError::new("spec.pathMtu", detail)
}

/// Bytes of the End.MT TLVs for one edge: as many full TLVs as needed.
fn tlv_bytes(receivers: usize) -> usize {
    receivers.div_ceil(end_mt::MAX_RECEIVERS) * end_mt::FIXED_LEN + receivers * end_mt::RECEIVER_LEN
}

#[cfg(test)]
mod tests;
