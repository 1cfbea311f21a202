// SPDX-License-Identifier: Apache-2.0
//! A packet that parses can be built again, and the result parses to the same value with a valid ICRC.
#![no_main]

use canopy_packet::frame::{RoceBuilder, RoceFrame};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(frame) = RoceFrame::parse(bytes) else {
        return;
    };
    let builder = RoceBuilder::from(&frame);
    let built = builder.build().expect("a parsed packet can be built");
    let again = RoceFrame::parse(&built).expect("a built packet can be parsed");
    assert_eq!(RoceBuilder::from(&again), builder);
    assert!(again.icrc_is_valid());
    assert_eq!(built.len(), frame.packet().len());
});
