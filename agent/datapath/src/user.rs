// SPDX-License-Identifier: Apache-2.0
//! The user that this process runs as.

/// Its effective user.
pub(crate) fn effective() -> u32 {
    // SAFETY: geteuid(2) only reads.
    unsafe { libc::geteuid() }
}
