// SPDX-License-Identifier: Apache-2.0
//! The web UI in a browser: where its scenarios are, and what a machine needs for them.

use std::path::PathBuf;

/// The directory `web/`.
pub fn web() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../web")
}

/// What this machine lacks for scenarios in a browser.
pub fn missing() -> Option<String> {
    let installed = std::env::split_paths(&std::env::var_os("PATH")?).collect::<Vec<_>>();
    let is_there = |program: &str| installed.iter().any(|directory| directory.join(program).exists());
    if !is_there("node") || !web().join("node_modules/.bin/rolldown").exists() {
        return Some("without Node and the packages of web/: make web".into());
    }
    (!is_there("chromium")).then(|| "without chromium: make web".into())
}
