// SPDX-License-Identifier: Apache-2.0
//! The `canopy-agent` binary: wires the real datapath, controller and clock into the event loop.

fn main() {}
