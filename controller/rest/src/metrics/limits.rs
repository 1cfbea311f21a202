// SPDX-License-Identifier: Apache-2.0
//! What was refused at a limit, so that an operator sees that callers are kept out.

use canopy_daemon::limits::Limit;
use canopy_metrics::{Description, Family, Page};

static REFUSED: Family<1> = Family::counter(
    "canopy_controller_refused",
    "Connections, calls, streams and messages that were refused or ended at a limit.",
    ["limit"],
);

pub(super) fn families() -> Vec<Description> {
    vec![REFUSED.describe()]
}

pub(super) fn write(page: &mut Page<'_>) -> std::fmt::Result {
    page.write(&REFUSED, Limit::ALL.map(|limit| ([limit.name()], limit.refused())))
}
