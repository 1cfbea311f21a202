// SPDX-License-Identifier: Apache-2.0
//! A network of real agents on one machine: namespaces for nodes and hosts, veth pairs for links.
//!
//! - [`file`], [`units`]: the lab file and its quantities; [`names`]: names and paths of an instance.
//! - `network`, [`loss`]: namespaces, links, rates; random loss and byte counters, by a BPF program of the lab's own.
//! - `order`: a veth pair delivers the packets of a flow in the order in which they were sent, as a wire does.
//! - `delay`, [`delays`], `means`, [`line`]: delay of links, by the kernel or by a process between two veth pairs.
//! - [`lab`]: [`Lab`], a lab that is up. `control` runs the programs under test, `wires` reads and sets links.
//! - [`transfer`], [`report`]: one transfer with `canopy-rc`. [`demo`], [`paths`], [`table`]: the demonstration. [`guided`]: something to find.
//! - `down`, [`state`]: everything that is created is recorded first, so that it can be removed.
//! - `host`, `netns`, [`process`], `sh`, `http`: the machine underneath.
//!
//! Needs root. Nothing here is part of the product: the product never runs `ip`.

pub mod delays;
pub mod demo;
pub mod file;
pub mod guided;
pub mod lab;
pub mod line;
pub mod loss;
pub mod names;
pub mod paths;
pub mod process;
mod prometheus;
pub mod report;
pub mod state;
pub mod table;
pub mod transfer;
pub mod units;

mod control;
mod delay;
mod down;
mod host;
mod host_agents;
pub mod http;
mod management;
mod means;
mod netns;
mod network;
mod order;
mod output;
mod sh;
mod steer;
mod wires;

pub use down::down;
pub use file::LabFile;
pub use lab::{Lab, Options};
pub use means::Means;
pub use names::Instance;
pub use report::TransferReport;
pub use transfer::{Op, Transfer, TransferSpec};
pub use wires::LinkCounters;
