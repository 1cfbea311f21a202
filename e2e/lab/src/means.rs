// SPDX-License-Identifier: Apache-2.0
//! How links are delayed: what the running kernel supports.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::{netns, sh};

/// How links are delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Means {
    /// `sch_netem`, between the ends.
    Netem,
    /// A `canopy-lab delay-line` per link.
    UserSpace,
}

impl Means {
    /// The method that the running kernel supports; probed in namespace `ns`, which must be unused.
    pub(crate) fn detect(ns: &str) -> Result<Self> {
        let tc = |words: &str| sh::run(netns::command(ns, "tc").args(words.split(' ')));
        let has = tc("qdisc add dev lo root netem delay 1ms")
            .and_then(|_| tc("qdisc add dev lo clsact"))
            .and_then(|_| tc(&redirect("lo", "lo")));
        for place in ["root", "clsact"] {
            // Removing a qdisc that was not added fails: ignored.
            _ = tc(&format!("qdisc del dev lo {place}"));
        }
        Ok(if has.is_ok() { Self::Netem } else { Self::UserSpace })
    }

    /// The name in printed tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Netem => "netem",
            Self::UserSpace => "user space",
        }
    }
}

/// `tc` arguments that redirect what arrives at one interface to the other.
pub(crate) fn redirect(from: &str, to: &str) -> String {
    format!("filter add dev {from} ingress protocol all matchall action mirred egress redirect dev {to}")
}
