// SPDX-License-Identifier: Apache-2.0
//! The one home of BPF: the C of the programs, shared by the node's agent and the daemons of hosts, and everything between that C and
//! safe Rust: loading, pinning, typed maps, TC filters, ring buffers, test runs.
//!
//! Types, sizes and closed sets come from the BTF of the objects: nothing of the C headers is written again in Rust. The only crate
//! with `unsafe` code for BPF.
//!
//! - [`node`]: the object of a node, `c/node.bpf.c`; those of a source host: [`pacer`], `c/pacer.bpf.c`, and [`steer`], `c/steer.bpf.c`;
//! - [`Map`], [`PerCpu`]: typed views of maps; [`Filter`]: a program at a TC hook; [`ring`]: ring buffers;
//! - [`choices`], [`left`], [`probes`]: arrays that BPF and a daemon use at the same time, without system calls;
//! - [`handover`]: from maps of one layout to those of another.

mod address;
mod batch;
#[cfg(feature = "testbed")]
pub mod by_hand;
pub mod choices;
mod error;
mod filter;
pub mod handover;
mod layout;
pub mod left;
#[cfg(feature = "testbed")]
pub mod live;
mod load;
mod map;
mod mapped;
pub mod memory;
pub mod node;
#[cfg(feature = "testbed")]
pub mod other_layout;
pub mod pacer;
mod pins;
mod plain;
pub mod probes;
pub mod ring;
mod run;
pub mod steer;

pub use error::{Context, Error, Result, chain};
pub use filter::{Filter, Hook, Slot};
pub use map::{Map, PerCpu};
pub use plain::{Plain, bytes, read};
pub use run::{Run, monotonic};

#[allow(missing_docs, unreachable_pub, clippy::all, clippy::unwrap_used, dead_code, non_camel_case_types)]
mod node_skel {
    include!(concat!(env!("OUT_DIR"), "/node.skel.rs"));
}
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::unwrap_used, dead_code, non_camel_case_types)]
mod pacer_skel {
    include!(concat!(env!("OUT_DIR"), "/pacer.skel.rs"));
}
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::unwrap_used, dead_code, non_camel_case_types)]
mod steer_skel {
    include!(concat!(env!("OUT_DIR"), "/steer.skel.rs"));
}
