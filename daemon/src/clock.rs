// SPDX-License-Identifier: Apache-2.0
//! The monotonic clock; that of the wall is `canopy_units::UnixTime::now`.

use canopy_units::Monotonic;
use nix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC`: the clock of BPF programs and of fq.
pub fn monotonic() -> Monotonic {
    // The call only fails for clocks that do not exist.
    let nanos =
        clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64);
    Monotonic::from_nanos(nanos)
}
