// SPDX-License-Identifier: Apache-2.0
//! The memory of a daemon, which has keys.

/// Keeps the memory of this process out of core dumps, whatever their limit and pattern are, and from debuggers of the same user.
///
/// Files below `/proc/PID` that show it belong to root from then on. It is for the program's first line: what was started before by the
/// same user could have attached to it.
pub fn keep_private() {
    // The kernel refuses nothing but another value than true and false.
    _ = nix::sys::prctl::set_dumpable(false);
}

#[cfg(test)]
mod tests {
    use nix::sys::prctl::get_dumpable;

    #[test]
    fn a_daemon_leaves_no_core_dump() {
        assert_eq!(get_dumpable(), Ok(true));
        super::keep_private();
        assert_eq!(get_dumpable(), Ok(false));
    }
}
