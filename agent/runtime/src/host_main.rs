// SPDX-License-Identifier: Apache-2.0
//! The `canopy-host-agent` binary: `canopy-agent host` for machines that are no nodes, without what nodes need.

use std::process::ExitCode;

fn main() -> ExitCode {
    canopy_daemon::memory::keep_private();
    canopy_agent_runtime::host_agent::main("canopy-host-agent", std::env::args_os())
}
