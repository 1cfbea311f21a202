// SPDX-License-Identifier: Apache-2.0
//! Layers of the map.

use canopy_controller_core::map::{Layer, LayerView};
use canopy_controller_core::states::Troubles;

use crate::Controller;

impl Controller {
    /// What is drawn over the map; `None` before a topology was declared. Costs a pass over all links: callers keep it for a while.
    pub fn map_layer(&self, layer: Layer) -> Option<LayerView> {
        let troubles = if layer == Layer::State { self.troubles() } else { Troubles::new() };
        let now = self.now();
        self.read(|d| d.map_layer(layer, &troubles, now))
    }
}
