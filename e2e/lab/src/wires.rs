// SPDX-License-Identifier: Apache-2.0
//! Loss and counters of the links of a lab that is up.

use anyhow::{Result, bail};
use canopy_model::topology::Endpoint;
use canopy_units::Octets;
use serde::{Deserialize, Serialize};

use crate::file::Link;
use crate::lab::Lab;
use crate::loss::{self, EndCounters};
use crate::units::Loss;

/// Counters of a link, by direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkCounters {
    /// One end.
    pub a: Endpoint,
    /// The other end.
    pub b: Endpoint,
    /// Sent by `a` towards `b`.
    pub a_to_b: EndCounters,
    /// Sent by `b` towards `a`.
    pub b_to_a: EndCounters,
}

impl LinkCounters {
    /// Bytes that passed, both directions.
    pub fn octets(&self) -> Octets {
        self.a_to_b.passed_octets + self.b_to_a.passed_octets
    }
}

impl Lab {
    /// Counters of every link since the lab came up, in the file's order. The lab counts, not the code under test.
    ///
    /// # Errors
    /// The lab's counters are gone.
    pub fn link_counters(&self) -> Result<Vec<LinkCounters>> {
        let end = |e: &Endpoint| loss::read(&self.state.instance.end_pins(e));
        self.links()
            .into_iter()
            .map(|l| Ok(LinkCounters { a_to_b: end(&l.a)?, b_to_a: end(&l.b)?, a: l.a, b: l.b }))
            .collect()
    }

    /// Counters of every link since `before`, which [`Lab::link_counters`] returned.
    ///
    /// # Errors
    /// The lab's counters are gone.
    pub fn link_counters_since(&self, before: &[LinkCounters]) -> Result<Vec<LinkCounters>> {
        let mut now = self.link_counters()?;
        for (n, b) in now.iter_mut().zip(before) {
            n.a_to_b = n.a_to_b - b.a_to_b;
            n.b_to_a = n.b_to_a - b.b_to_a;
        }
        Ok(now)
    }

    /// Sets the loss probability of both directions of `link` from now on. `link` is `all`, one end (`n6/eth2`) or
    /// both (`n6/eth2--n4/eth1`, in either order).
    ///
    /// # Errors
    /// No such link.
    pub fn set_loss(&self, link: &str, loss: Loss) -> Result<()> {
        for l in self.select(link)? {
            for end in [&l.a, &l.b] {
                loss::set(&self.state.instance.end_pins(end), loss, 0)?;
            }
        }
        Ok(())
    }

    /// Sets the loss probability of one direction: that of packets sent by `end` (`n6/eth2`).
    ///
    /// # Errors
    /// No such end.
    pub fn set_loss_from(&self, end: &str, loss: Loss) -> Result<()> {
        self.set_loss_from_above(end, 0, loss)
    }

    /// The same for packets with more than `octets` octets, with the Ethernet header: an MTU on the way that neither end knows.
    ///
    /// # Errors
    /// No such end.
    pub fn set_loss_from_above(&self, end: &str, octets: u64, loss: Loss) -> Result<()> {
        let end = Endpoint::try_from(end.to_owned())?;
        self.select(&end.to_string())?;
        loss::set(&self.state.instance.end_pins(&end), loss, octets)
    }

    /// The current loss of a link, `a` to `b` and `b` to `a`.
    ///
    /// # Errors
    /// The lab's maps are gone.
    pub fn loss(&self, link: &Link) -> Result<(Loss, Loss)> {
        let end = |e: &Endpoint| loss::get(&self.state.instance.end_pins(e));
        Ok((end(&link.a)?, end(&link.b)?))
    }

    pub(crate) fn select(&self, name: &str) -> Result<Vec<Link>> {
        let matches = |l: &Link| {
            let (a, b) = (l.a.to_string(), l.b.to_string());
            name == "all" || name == a || name == b || name == format!("{a}--{b}") || name == format!("{b}--{a}")
        };
        let found: Vec<Link> = self.links().into_iter().filter(matches).collect();
        if found.is_empty() {
            bail!(
                "no link {name:?}: use all, or one end such as {}",
                self.links().first().map_or("n1/eth1".into(), |l| l.a.to_string())
            );
        }
        Ok(found)
    }
}
