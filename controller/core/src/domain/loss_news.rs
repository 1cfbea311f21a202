// SPDX-License-Identifier: Apache-2.0
//! What follows for groups from a link that loses packets, or no longer does (decisions 3.14).

use std::collections::BTreeSet;

use canopy_model::ids::GroupId;
use canopy_model::topology::Endpoint;

use super::links::{Verdict, label_at};
use super::reports::Reports;
use super::state::State;
use crate::resource::{LossMeasure, LossyLink};
use crate::status::percent;

/// A link that loses packets from now on, or no longer does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossNews {
    /// Its name, `a--b`.
    pub link: String,
    /// The node whose report led to it.
    pub node: String,
    /// Whether it loses packets now.
    pub is_lossy: bool,
    /// The measurement, for operators.
    pub detail: String,
    /// Groups whose conditions changed, sorted.
    pub groups: Vec<String>,
}

/// Stores the verdict at both ends.
pub(super) fn apply(state: &mut State, verdict: Verdict) -> LossNews {
    let Verdict { ends, permille, loss, by } = verdict;
    let link = state.network().map_or_else(|| ends[0].to_string(), |network| label_at(network, &ends[0]));
    let mut groups = BTreeSet::new();
    for end in &ends {
        groups.extend(set(
            state,
            end,
            (permille > 0).then(|| LossyLink { link: link.clone(), permille, by: by.clone() }),
        ));
    }
    let (drops, counts) = match by {
        LossMeasure::Echo => {
            let drops = match loss.queue_drops {
                0 => "no queue at its ends dropped any".to_owned(),
                n => format!("the queues at its ends dropped no more than {n}"),
            };
            let (lost, all) = (loss.lost, loss.requests);
            (drops, format!("{lost} of the last {all} Echo Requests of both ends have no reply"))
        }
        LossMeasure::Data(_) if loss.requests == 0 => {
            (String::new(), "no data has passed for 30 s, so nothing is known of it".to_owned())
        }
        LossMeasure::Data(from) => {
            let drops = match loss.queue_drops {
                0 => format!("the queue of {from} dropped none"),
                n => format!("the queue of {from} dropped no more than {n}"),
            };
            let (lost, all) = (loss.lost, loss.requests);
            (
                drops,
                format!("{lost} of the last {all} data packets of groups out of {from} did not arrive in their turn"),
            )
        }
    };
    let detail = if permille > 0 {
        format!(
            "link {link} loses {} of the packets although its carrier is up and {drops}: {counts}; check optics, cables and what is between its \
             ends",
            percent(permille)
        )
    } else {
        format!("link {link} no longer loses packets: {counts}")
    };
    let [Endpoint { device: node, .. }, _] = ends;
    LossNews { link, node, is_lossy: permille > 0, detail, groups: groups.into_iter().collect() }
}

fn set(state: &mut State, end: &Endpoint, lossy: Option<LossyLink>) -> Vec<String> {
    let Some(at) = state.index(&end.device) else { return Vec::new() };
    let link = state.network().and_then(|network| network.link_at(end));
    let touched: BTreeSet<GroupId> = link.into_iter().flat_map(|link| state.groups.trees().using(link)).collect();
    Reports(state).observe(at, &touched, |n| match lossy {
        Some(lossy) => _ = n.lossy.insert(end.port.clone(), lossy),
        None => _ = n.lossy.remove(&end.port),
    })
}
