// SPDX-License-Identifier: Apache-2.0
//! Link directions, with the problems of links and ports.

use canopy_controller_core::fields::{FieldSelector, LinkField};
use canopy_controller_core::problem::Object;
use canopy_controller_core::states::{Trouble, Troubles};
use canopy_controller_core::view::{LinkView, Page};

use crate::Controller;

impl Controller {
    /// The first `most` link directions out of a node's port, in the topology's order, without their problems, and how many others there are.
    pub fn first_links(&self, most: usize) -> (Vec<LinkView>, usize) {
        let now = self.now();
        self.read(|d| d.first_links(now, most))
    }

    /// Up to `limit` (1..=1000) directions that `filter` lets pass, in the order of node and port, behind the port `after` of a node.
    pub fn links(
        &self,
        filter: &FieldSelector<LinkField>,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Page<LinkView> {
        let (troubles, now) = (self.troubles(), self.now());
        self.read(|d| d.links(filter, after, limit, &troubles, now))
    }

    /// The direction out of `port` of `node`.
    pub fn link(&self, node: &str, port: &str) -> Option<LinkView> {
        let (troubles, now) = (self.troubles(), self.now());
        self.read(|d| d.link(node, port, &troubles, now))
    }

    /// The worst open problem of each link and port that has one. Reads every open problem, and copies the names of these alone.
    pub(crate) fn troubles(&self) -> Troubles {
        let mut worst = Troubles::new();
        for key in self.health().open() {
            let trouble = Trouble { code: key.code, severity: key.code.info().severity };
            if let Object::Link(name) | Object::Port(name) = &key.object {
                let is = worst.entry(name.clone()).or_insert(trouble);
                *is = is.worse(trouble);
            }
        }
        worst
    }
}
