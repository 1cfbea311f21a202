// SPDX-License-Identifier: Apache-2.0
//! Limits: what is in force is less than what was asked for. They are shown, and none raises an alert.

use serde_json::{Value, json};

use super::bench::{Fault, Made, Watched, put_links};

/// Links on which a packet of `g` with all lists of receivers does not fit.
pub(super) const MTU: u32 = 4330;

const LINK: [&str; 2] = ["n5/eth2", "n2/eth2"];

pub(super) const FAULTS: [Fault; 1] = [Fault { name: "clamped K_max", make: clamped }];

/// A link with a long round-trip time and a short queue.
fn clamped(w: &mut Watched) -> Made {
    let before = put_links(&w.bed, |link| {
        if link["a"] == LINK[0] {
            (link["rttUs"], link["bufferBytes"]) = (json!(100_000), json!(1_000_000));
        }
    });
    let causes = LINK.map(|port| format!("ThresholdClamped port/{port}")).into();
    let made = Made::new("", "node n5", "K_max is 1000000 bytes");
    Made { causes, ..made }.mended_by(move |w| {
        let of = |link: &Value| before.as_array().unwrap().iter().find(|l| l["a"] == link["a"]).unwrap().clone();
        put_links(&w.bed, |link| *link = of(link));
    })
}

/// The lists of receivers do not fit the packets: edges hold some of them as provisioned state, and `describe` has why.
pub(super) fn tlvs_too_long(w: &mut Watched) {
    w.proves_mended("in-band TLVs too long", "", |w| {
        let encoding = w.bed.group("g").unwrap()["encoding"].clone();
        println!("in-band TLVs too long: {encoding}");
        assert_ne!(encoding["mode"], "inBand", "{encoding}");
        let reason = encoding["reason"].as_str().unwrap();
        let shown = w.canopyctl(&["describe", "group", "g"]);
        assert!(reason.contains("MTU") && shown.contains(reason), "{reason}: {shown}");
    });
}
