// SPDX-License-Identifier: Apache-2.0
//! A child process of a test.

use std::process::Child;

/// Kills and reaps a child process when dropped.
#[derive(Debug)]
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Already ended: nothing to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
