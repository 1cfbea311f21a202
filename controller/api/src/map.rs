// SPDX-License-Identifier: Apache-2.0
//! The map of the fabric: where nodes stand, and one octet per link direction or node for what is drawn over it.

use canopy_controller_core::map::{self, LayerView, MapView};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ApiVersion, Kind};

/// Nodes, hosts and links in the topology's order, without what a map does not show. A device is named by its place among the nodes
/// followed by the hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Map {
    /// `canopy/v1`.
    #[schema(value_type = String)]
    pub api_version: ApiVersion,
    /// `Map`.
    #[schema(value_type = String)]
    pub kind: Kind,
    /// Names this state of the topology: layers of another version belong to another map.
    pub version: String,
    /// Forwarding nodes.
    pub nodes: Vec<MapNode>,
    /// Hosts; they have tier 0, and the site of their node.
    pub hosts: Vec<MapHost>,
    /// Links: link i has the directions 2i, from `a` to `b`, and 2i + 1.
    pub links: Vec<MapLink>,
}

/// A node's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MapNode {
    /// Its name.
    pub name: String,
    /// Its number in the SRv6 locator, 1 and more: unique, and the same as long as the topology has the node.
    pub id: u16,
    /// As declared, else hops to the nearest host, 1 and more.
    pub tier: u32,
    /// As declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
}

from_fields!(map::MapNode { name, id, tier, site });

/// A host's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MapHost {
    /// Its name.
    pub name: String,
    /// Its node, by its place among the nodes.
    pub node: u32,
}

from_fields!(map::MapHost { name, node });

/// A link's ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MapLink {
    /// Device at one end.
    pub a: u32,
    /// Its port.
    pub a_port: String,
    /// Device at the other end.
    pub b: u32,
    /// Its port.
    pub b_port: String,
}

from_fields!(map::MapLink { a, a_port, b, b_port });

impl From<MapView> for Map {
    fn from(view: MapView) -> Self {
        let MapView { version, nodes, hosts, links } = view;
        Self {
            api_version: ApiVersion,
            kind: Kind::Map,
            version: version.to_string(),
            nodes: nodes.into_iter().map(Into::into).collect(),
            hosts: hosts.into_iter().map(Into::into).collect(),
            links: links.into_iter().map(Into::into).collect(),
        }
    }
}

/// What is drawn over the map, whole or what changed. Values of `state`: 0 in service, 1 drained, not reported (yet, or any more) or with a
/// problem of severity info, 2 a warning, 3 critical. `nodes`: 0 in sync, 1 not applied yet, 2 with errors, 3 not connected. `load`: percent of
/// the port's rate. `loss`: packets of a thousand. `queue`: below 100 percent of K_min, from 100 on the way from K_min (100) to K_max (200),
/// above 200 how much it is above K_max, in percent of K_max. `load`, `loss` and `queue` have 254 at most, and 255 where nothing was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MapLayer {
    /// `canopy/v1`.
    #[schema(value_type = String)]
    pub api_version: ApiVersion,
    /// `MapLayer`.
    #[schema(value_type = String)]
    pub kind: Kind,
    /// Which one.
    pub layer: String,
    /// Of the map that it belongs to.
    pub version: String,
    /// Names these values: `since` of the next request.
    pub revision: String,
    /// One octet per link direction, of `nodes` per node, in base64; absent where `changes` are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<String>,
    /// `[place, value]` of what changed since the revision of the request; absent if that is not known any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<[u32; 2]>>,
}

/// What of a layer is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerPart {
    /// All values, in base64.
    Whole(String),
    /// Places and values.
    Changes(Vec<[u32; 2]>),
}

impl MapLayer {
    /// An answer.
    pub fn new(layer: map::Layer, of: &LayerView, revision: String, part: LayerPart) -> Self {
        let (values, changes) = match part {
            LayerPart::Whole(values) => (Some(values), None),
            LayerPart::Changes(changes) => (None, Some(changes)),
        };
        let layer = layer.name().to_owned();
        Self {
            api_version: ApiVersion,
            kind: Kind::MapLayer,
            layer,
            version: of.version.to_string(),
            revision,
            values,
            changes,
        }
    }
}
