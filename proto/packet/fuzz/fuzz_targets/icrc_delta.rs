// SPDX-License-Identifier: Apache-2.0
//! The ICRC by difference equals the ICRC recomputed, for any edit of any packet; the first octets select the edit.
#![no_main]

use canopy_packet::icrc::{self, Change};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, Vec<u8>, Vec<u8>)| {
    let (offset, edit, mut old) = input;
    if old.len() < icrc::HEADERS_LEN || edit.is_empty() || edit.len() > old.len() {
        return;
    }
    (old[0], old[6]) = (old[0] & 0x0f | 0x60, 17);
    let offset = usize::from(offset) % (old.len() - edit.len() + 1);
    let mut new = old.clone();
    new[offset..offset + edit.len()].copy_from_slice(&edit);
    (new[0], new[6]) = (new[0] & 0x0f | 0x60, 17);
    let end = offset + edit.len();
    let change = Change {
        offset,
        old: &old[offset..end],
        new: &new[offset..end],
    };
    let difference = icrc::delta(old.len(), &[change]).expect("the change lies in the packet");
    let icrc = |packet: &[u8]| icrc::compute(packet).expect("UDP in IPv6");
    assert_eq!(icrc(&old) ^ difference, icrc(&new));
});
