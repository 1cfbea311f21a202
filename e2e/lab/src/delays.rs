// SPDX-License-Identifier: Apache-2.0
//! Delays of a lab that is up: shown and changed.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::delay::{interfaces, netem, socket};
use crate::file::Link;
use crate::lab::Lab;
use crate::line::{self, LineReport};
use crate::means::Means;
use crate::units::Delay;
use crate::{netns, sh};

/// The delay of a link that has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkDelay {
    /// The delay of frames that are sent now.
    pub delay: Delay,
    /// The method.
    pub by: Means,
    /// The counters of the delay line; netem keeps its own counters, see `tc -s qdisc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<LineReport>,
}

impl Lab {
    /// The delay of every link, in the file's order; `None` for a link without one.
    ///
    /// # Errors
    /// A delay line does not answer, or `tc` fails.
    pub fn delays(&self) -> Result<Vec<Option<LinkDelay>>> {
        self.links().iter().enumerate().map(|(index, link)| self.delay(index, link)).collect()
    }

    fn delay(&self, index: usize, link: &Link) -> Result<Option<LinkDelay>> {
        let (Some(by), Some(_)) = (self.state.delay_means, link.delay) else { return Ok(None) };
        if by == Means::UserSpace {
            let line = line::ask(&socket(&self.state, index))?;
            return Ok(Some(LinkDelay { delay: Delay::new(line.delay), by, line: Some(line) }));
        }
        let (lines, [a, _]) = (self.state.instance.lines_namespace(), interfaces(index));
        let text = sh::run(netns::command(&lines, "tc").args(["-j", "qdisc", "show", "dev", &a]))?;
        let qdiscs: serde_json::Value = serde_json::from_str(&text).context("parsing the output of tc")?;
        let netem = qdiscs.as_array().into_iter().flatten().find(|q| q["kind"] == "netem");
        let seconds = netem.and_then(|q| q.pointer("/options/delay/delay")?.as_f64());
        let seconds = seconds.with_context(|| format!("netem is gone from the link of {}", link.a))?;
        let delay = Duration::from_nanos((seconds * 1e9).round() as u64);
        Ok(Some(LinkDelay { delay: Delay::new(delay), by, line: None }))
    }

    /// Sets the delay of frames that are sent on `link` from now on, in both directions. Nothing is lost or
    /// reordered: a frame that would overtake leaves right behind the one before it. `link` is as for
    /// [`Lab::set_loss`]; `all` means every link that has a delay.
    ///
    /// # Errors
    /// No such link; it has no delay in the lab file; its line does not answer, or `tc` fails.
    pub fn set_delay(&self, link: &str, delay: Delay) -> Result<()> {
        let chosen = self.select(link)?;
        let mut done = 0;
        for (index, l) in self.state.delayed().filter(|(_, l)| chosen.contains(l)) {
            match self.state.delay_means {
                Some(Means::Netem) => {
                    let lines = self.state.instance.lines_namespace();
                    for interface in interfaces(index) {
                        let words = format!("qdisc change dev {interface} {}", netem(delay, &l));
                        sh::run(netns::command(&lines, "tc").args(words.split(' ')))?;
                    }
                }
                _ => drop(line::set_delay(&socket(&self.state, index), delay)?),
            }
            done += 1;
        }
        ensure!(
            done > 0,
            "{link} came up as a plain wire: give it a delay in the lab file (0ms will do) so that it can be changed"
        );
        Ok(())
    }
}
