// SPDX-License-Identifier: Apache-2.0
//! An SRH that parses encodes to one that parses to the same, never longer than Hdr Ext Len can express.
#![no_main]

use canopy_packet::srh::{MAX_LEN, Srh, SrhView};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(view) = SrhView::parse(bytes) {
        assert!(view.wire_len() <= bytes.len().min(MAX_LEN));
        assert!(view.tlvs().count() <= view.wire_len());
    }
    let Ok(srh) = Srh::parse(bytes) else { return };
    match srh.to_vec() {
        Ok(encoded) => assert_eq!(Srh::parse(&encoded), Ok(srh)),
        // The sender used Pad1 or less padding; our PadN may need more octets than were left.
        Err(_) => assert!(srh.wire_len() > MAX_LEN),
    }
});
