// SPDX-License-Identifier: Apache-2.0
//! What was refused at a limit or by attestation, so that an operator sees that callers are kept out.

use canopy_controller_kubernetes::Outcome;
use canopy_daemon::limits::Limit;
use canopy_metrics::{Description, Family, Page};

static REFUSED: Family<1> = Family::counter(
    "canopy_controller_refused",
    "Connections, calls, streams and messages that were refused or ended at a limit.",
    ["limit"],
);

static ATTESTATIONS: Family<1> = Family::counter(
    "canopy_controller_attestations",
    "Tokens of Kubernetes that agents have shown to enroll.",
    ["outcome"],
);

pub(super) fn families() -> Vec<Description> {
    vec![REFUSED.describe(), ATTESTATIONS.describe()]
}

pub(super) fn write(page: &mut Page<'_>) -> std::fmt::Result {
    page.write(&REFUSED, Limit::ALL.map(|limit| ([limit.name()], limit.refused())))?;
    page.write(&ATTESTATIONS, Outcome::ALL.map(|outcome| ([outcome.name()], outcome.counted())))
}
