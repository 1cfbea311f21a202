// SPDX-License-Identifier: Apache-2.0
//! What an agent with another layout of its maps does at a node: `other-agent PIN_DIR` takes over the groups and the filters of every
//! interface of its network namespace, and ends.

use std::path::PathBuf;

use anyhow::{Context, Result};
use canopy_bpf::other_layout::{OBJECT, take_over};

fn main() -> Result<()> {
    let pin_dir = PathBuf::from(std::env::args_os().nth(1).context("usage: other-agent PIN_DIR")?);
    let interfaces: Vec<u32> =
        nix::net::if_::if_nameindex().context("listing interfaces")?.iter().map(|i| i.index()).collect();
    take_over(OBJECT.as_ref(), &pin_dir, &interfaces).map_err(|e| anyhow::anyhow!(canopy_bpf::chain(&e)))
}
