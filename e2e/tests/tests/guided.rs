// SPDX-License-Identifier: Apache-2.0
//! `canopy-lab demo break` and `mend`: the product names what is broken, and nothing is left of it.
#![allow(clippy::unwrap_used)]

use canopy_e2e::{Bed, up};
use canopy_lab::guided::{Breakable, GROUP};

/// Status as an operator reads it.
fn status(bed: &Bed) -> String {
    bed.canopyctl(&["status"]).unwrap()
}

/// Catches a fault that is not the one that the guide leads to, one that is not mended, and a transfer that outlives it.
#[test]
fn a_guided_fault_is_named_and_mended() {
    let bed = up("figure1").unwrap();
    let lab = &bed.lab;
    for (what, code, then) in [
        (Breakable::Receiver, "ReceiverStalled", "top group guided"),
        (Breakable::Mtu, "its MTU is too small", "why host NAME"),
        (Breakable::Link, "LinkBlackHole", "why link NAME"),
    ] {
        let guide = lab.break_guided(what).unwrap();
        assert!(guide.contains(then) && guide.contains("demo mend"), "{guide}");
        let again = lab.break_guided(Breakable::Link).unwrap_err().to_string();
        assert!(again.contains("there already"), "{again}");
        lab.wait("status to name the fault", |_| Ok(status(&bed).contains(code))).unwrap();
        println!("{what:?}:\n{}", status(&bed));
        assert!(lab.mend_guided().unwrap() && !lab.mend_guided().unwrap());
        assert_eq!(lab.rest("GET", &format!("/api/v1/groups/{GROUP}"), None).unwrap().0, 404);
        lab.wait("nothing to be wrong", |_| {
            let (_, problems) = lab.rest("GET", "/api/v1/problems?root=true", None)?;
            Ok(problems["items"].as_array().is_some_and(|items| items.iter().all(|p| p["severity"] == "info")))
        })
        .unwrap();
    }
    assert!(lab.links().iter().all(|link| lab.loss(link).unwrap().0.to_string() == "0%"), "a link still loses packets");
}
