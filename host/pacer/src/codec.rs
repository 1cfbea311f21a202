// SPDX-License-Identifier: Apache-2.0
//! Keys and values of the maps in `bpf/include/tables.h`, octet by octet. [`crate::bpf`] compares the sizes with the
//! loaded maps.

use std::net::Ipv6Addr;

use crate::engine::Flow;

/// `struct flow_key`.
pub(crate) const KEY_LEN: usize = 20;
/// `struct control`.
pub(crate) const CONTROL_LEN: usize = 32;
/// `struct pace`.
pub(crate) const PACE_LEN: usize = 24;
/// `struct flow`.
pub(crate) const FLOW_LEN: usize = 56;
/// `struct answers`.
pub(crate) const ANSWERS_LEN: usize = 40;
/// `struct binding`.
pub(crate) const BINDING_LEN: usize = 16;
/// `struct notice` before its data.
const NOTICE_HEAD: usize = 16;

/// The `mode` of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Not = 0,
    Edt = 1,
    Htb = 2,
}

/// `struct control`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Control {
    pub(crate) alive_until_ns: u64,
    pub(crate) limit_known: u64,
    pub(crate) limit_unknown: u64,
    pub(crate) mode: Mode,
}

/// `struct pace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    pub(crate) octets_per_s: u64,
    pub(crate) pause_until_ns: u64,
    pub(crate) class_id: u32,
}

/// The content of `struct flow` and `struct answers` for user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Time of the first packet.
    pub(crate) first_ns: u64,
    /// Time of the last packet.
    pub(crate) last_ns: u64,
    /// Minimum RTT of the last 5 to 10 s; only in answers.
    pub(crate) rtt_ns: Option<u64>,
}

/// `struct notice`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) time_ns: u64,
    /// Length of the packet in octets.
    pub(crate) length: usize,
    /// Its first octets, up to the captured length.
    pub(crate) data: Vec<u8>,
}

/// A peer and a QP number.
pub(crate) fn key(flow: Flow) -> [u8; KEY_LEN] {
    let mut out = [0; KEY_LEN];
    out[..16].copy_from_slice(&flow.peer.octets());
    out[16..].copy_from_slice(&flow.qpn.to_ne_bytes());
    out
}

/// The key in `bytes`; `None` if the length is wrong.
pub(crate) fn read_key(bytes: &[u8]) -> Option<Flow> {
    let (peer, qpn) = <&[u8; KEY_LEN]>::try_from(bytes).ok()?.split_first_chunk::<16>()?;
    Some(Flow { peer: Ipv6Addr::from(*peer), qpn: u32::from_ne_bytes(qpn.try_into().ok()?) })
}

impl Control {
    pub(crate) fn bytes(self) -> [u8; CONTROL_LEN] {
        let mut out = [0; CONTROL_LEN];
        for (place, word) in out.chunks_exact_mut(8).zip([self.alive_until_ns, self.limit_known, self.limit_unknown]) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        out[24..28].copy_from_slice(&(self.mode as u32).to_ne_bytes());
        out
    }
}

impl Pace {
    pub(crate) fn bytes(self) -> [u8; PACE_LEN] {
        let mut out = [0; PACE_LEN];
        out[..8].copy_from_slice(&self.octets_per_s.to_ne_bytes());
        out[8..16].copy_from_slice(&self.pause_until_ns.to_ne_bytes());
        out[16..20].copy_from_slice(&self.class_id.to_ne_bytes());
        out
    }
}

impl Seen {
    /// From `struct flow`.
    pub(crate) fn flow(bytes: &[u8]) -> Option<Self> {
        (bytes.len() == FLOW_LEN).then_some(())?;
        Some(Self { first_ns: word(bytes, 2)?, last_ns: word(bytes, 3)?, rtt_ns: None })
    }

    /// From `struct answers`.
    pub(crate) fn answers(bytes: &[u8]) -> Option<Self> {
        (bytes.len() == ANSWERS_LEN).then_some(())?;
        let least = [word(bytes, 3)?, word(bytes, 4)?].into_iter().filter(|rtt| *rtt > 0).min();
        Some(Self { first_ns: word(bytes, 0)?, last_ns: word(bytes, 1)?, rtt_ns: least })
    }
}

impl Notice {
    /// From a record of the ring buffer.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (head, data) = bytes.split_at_checked(NOTICE_HEAD)?;
        let half = |at: usize| Some(u32::from_ne_bytes(head.get(at..at + 4)?.try_into().ok()?) as usize);
        let data = data.get(..half(12)?)?.to_vec();
        Some(Self { time_ns: word(head, 0)?, length: half(8)?, data })
    }
}

/// `struct binding`.
pub(crate) fn binding(dest_qpn: u32, since_ns: u64) -> [u8; BINDING_LEN] {
    let mut out = [0; BINDING_LEN];
    out[..8].copy_from_slice(&since_ns.to_ne_bytes());
    out[8..12].copy_from_slice(&dest_qpn.to_ne_bytes());
    out
}

pub(crate) fn word(bytes: &[u8], index: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(8 * index..8 * index + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_and_other_lengths_are_none() {
        let flow = Flow { peer: "fd00::9".parse().unwrap(), qpn: 0x12_3456 };
        assert_eq!(read_key(&key(flow)), Some(flow));
        assert_eq!(read_key(&key(flow)[1..]), None);
        assert_eq!(Seen::flow(&[0; FLOW_LEN + 8]), None);
    }

    #[test]
    fn the_rtt_is_the_lesser_of_two_windows_and_zero_is_none() {
        let words = |words: [u64; 5]| words.map(u64::to_ne_bytes).concat();
        assert_eq!(Seen::answers(&words([1, 2, 3, 40, 30])).unwrap().rtt_ns, Some(30));
        assert_eq!(Seen::answers(&words([1, 2, 3, 40, 0])).unwrap().rtt_ns, Some(40));
        assert_eq!(Seen::answers(&words([1, 2, 0, 0, 0])).unwrap(), Seen { first_ns: 1, last_ns: 2, rtt_ns: None });
    }

    #[test]
    fn a_notice_has_no_more_data_than_its_length_field() {
        let mut bytes = 7_u64.to_ne_bytes().to_vec();
        bytes.extend(300_u32.to_ne_bytes());
        bytes.extend(3_u32.to_ne_bytes());
        bytes.extend([1, 2, 3, 4]);
        let notice = Notice::read(&bytes).unwrap();
        assert_eq!((notice.time_ns, notice.length, notice.data), (7, 300, vec![1, 2, 3]));
        bytes[12] = 5;
        assert_eq!(Notice::read(&bytes), None);
    }
}
