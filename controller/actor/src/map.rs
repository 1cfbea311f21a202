// SPDX-License-Identifier: Apache-2.0
//! Layers of the map, with the problems of links and ports.

use std::collections::HashMap;

use canopy_controller_core::map::{Layer, LayerView, severity};
use canopy_controller_core::problem::Object;

use crate::Controller;

impl Controller {
    /// What is drawn over the map; `None` before a topology was declared. Costs a pass over all links: callers keep it for a while.
    pub fn map_layer(&self, layer: Layer) -> Option<LayerView> {
        let mut worst = HashMap::new();
        if layer == Layer::State {
            for problem in self.problems() {
                if let Object::Link(name) | Object::Port(name) = problem.key.object {
                    let value = severity(problem.key.code.info().severity);
                    let is = worst.entry(name).or_insert(value);
                    *is = value.max(*is);
                }
            }
        }
        let now = self.now();
        self.read(|d| d.map_layer(layer, &worst, now))
    }
}
