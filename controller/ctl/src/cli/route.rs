// SPDX-License-Identifier: Apache-2.0
//! Arguments of `route`.

use clap::Args;

/// Arguments of `route`.
#[derive(Args)]
pub struct RouteArgs {
    /// Host that sends.
    pub from: String,
    /// Host that it sends to.
    pub to: String,
    /// Which path, counted from 1 in the order of `get paths`; without it, the first one without a mark.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub path: Option<u16>,
}
