// SPDX-License-Identifier: Apache-2.0
//! The types of the REST API (`canopy/v1`) with their JSON form and their OpenAPI description: what the server sends and
//! accepts, and what `canopyctl` sends and reads. A renamed field is a compile error at both ends.
//!
//! - `resource`: `{apiVersion, kind, metadata, spec, status}`, as in Kubernetes; [`Input`] as a client sends it.
//! - [`topology`], [`drain`], [`silence`], [`node`], [`link`], [`host`], [`group`], [`member`]: one file per resource: its status, and the conversion from
//!   the domain's view of it. Specs are those of `canopy_model`.
//! - [`hmac`]: the keys of the SRH HMAC TLV. [`health`]: what is wrong, and the domain on one screen. [`history`]: what
//!   operators wrote.
//! - [`identity`]: certificates of agents. [`authority`]: what signs them. [`sign_in`]: the way of a browser into the API. [`token`]: that of programs.
//! - [`log_level`]: filters of log lines. [`map`]: the map of the fabric.
//! - [`capture`], [`chart`], [`telemetry`], [`event`], [`check`], [`problem`], [`query`]: everything else that requests and responses contain.

/// Implements `From` for a type of this API and the domain's type of the same name, which has the same fields: those in
/// the first braces are moved, those in the second are converted. A field that one of the two lacks does not compile.
macro_rules! from_fields {
    ($module:ident::$name:ident { $($moved:ident),* $(,)? } $({ $($field:ident = $converted:expr),* $(,)? })?) => {
        impl From<$module::$name> for $name {
            fn from(view: $module::$name) -> Self {
                let $module::$name { $($moved,)* $($($field,)*)? } = view;
                Self { $($moved,)* $($($field: $converted,)*)? }
            }
        }
    };
    // The bracket names the view's fields from which the fields in the last braces are made.
    ($module:ident::$name:ident { $($moved:ident),* $(,)? } [ $($bound:ident),* $(,)? ] { $($field:ident = $converted:expr),* $(,)? }) => {
        impl From<$module::$name> for $name {
            fn from(view: $module::$name) -> Self {
                let $module::$name { $($moved,)* $($bound,)* } = view;
                Self { $($moved,)* $($field: $converted,)* }
            }
        }
    };
}

/// Declares a closed set of words of the API, the one that stands for an earlier version's silence, and the conversion from the domain's set.
macro_rules! words {
    ($(#[$doc:meta])* $module:ident::$name:ident, $default:ident { $($(#[$word_doc:meta])* $word:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        pub enum $name {
            $($(#[$word_doc])* $word,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self::$default
            }
        }

        impl From<$module::$name> for $name {
            fn from(of: $module::$name) -> Self {
                match of {
                    $($module::$name::$word => Self::$word,)+
                }
            }
        }
    };
}

pub mod authority;
pub mod capture;
pub mod change_set;
pub mod chart;
pub mod check;
pub mod commit;
pub mod condition;
pub mod controller;
pub mod drain;
pub mod event;
pub mod group;
pub mod health;
pub mod history;
pub mod hmac;
pub mod host;
pub mod identity;
pub mod incident;
mod input;
pub mod link;
pub mod log_level;
pub mod map;
pub mod member;
pub mod metadata;
pub mod node;
pub mod path;
pub mod problem;
pub mod prometheus;
pub mod query;
mod resource;
pub mod retirement;
pub mod sign_in;
pub mod silence;
pub mod telemetry;
pub mod tenant;
pub mod token;
pub mod topology;
pub mod version;
pub mod waited;

pub use canopy_controller_core::role;

pub use drain::DrainResource;
pub use group::GroupResource;
pub use host::HostResource;
pub use input::{Input, MetadataInput};
pub use link::LinkResource;
pub use member::MemberResource;
pub use node::NodeResource;
pub use resource::{API_VERSION, ApiVersion, Kind, List, ListMetadata};
pub use silence::SilenceResource;
pub use topology::TopologyResource;
