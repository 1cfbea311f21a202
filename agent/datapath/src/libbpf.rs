// SPDX-License-Identifier: Apache-2.0
//! What both objects need of libbpf: loading that signals do not stop, and its own words in the agent's log.

use std::sync::Once;

use canopy_agent_core::DatapathError;
use libbpf_rs::PrintLevel;
use libbpf_rs::skel::OpenSkel;

use crate::error::Doing;

/// How often loading is tried.
const ATTEMPTS: u32 = 20;
/// How libbpf begins what the kernel says to a netlink request that fails.
const KERNEL_SAYS: &str = "Kernel error message";

/// Loads what `open` opens; it opens anew for each attempt.
pub(crate) fn load<O: OpenSkel<'static>>(
    open: impl Fn() -> Result<O, DatapathError>,
    doing: impl Into<String>,
) -> Result<O::Output, DatapathError> {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| _ = libbpf_rs::set_print(Some((PrintLevel::Info, log))));
    attempt(|| Ok(open()?.load()))?.doing(doing)
}

/// The verifier stops when a signal comes in, whatever it is; libbpf tries again a few times only.
fn attempt<T>(
    load: impl Fn() -> Result<libbpf_rs::Result<T>, DatapathError>,
) -> Result<libbpf_rs::Result<T>, DatapathError> {
    let mut left = 1..ATTEMPTS;
    loop {
        match load()? {
            Err(e) if e.kind() == libbpf_rs::ErrorKind::WouldBlock && left.next().is_some() => {}
            loaded => return Ok(loaded),
        }
    }
}

/// Whoever called gets an error and says so where it matters: a filter that is not there yet, for one, does not.
fn log(level: PrintLevel, text: String) {
    let text = text.trim_end();
    match level {
        PrintLevel::Warn if !text.contains(KERNEL_SAYS) => {
            tracing::warn!("libbpf: {text}");
            // Tests have no log, and a refusal of the verifier is said here only.
            if cfg!(test) {
                eprintln!("{text}");
            }
        }
        _ => tracing::debug!("libbpf: {text}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn failing(errno: i32, times: u32) -> (Option<libbpf_rs::ErrorKind>, u32) {
        let calls = Cell::new(0);
        let loaded = attempt(|| {
            calls.set(calls.get() + 1);
            let failed = libbpf_rs::Error::from(std::io::Error::from_raw_os_error(errno));
            Ok(if calls.get() <= times { Err(failed) } else { Ok(()) })
        });
        (loaded.unwrap().err().map(|e| e.kind()), calls.get())
    }

    #[test]
    fn a_signal_does_not_stop_loading_and_a_refusal_does_at_once() {
        assert_eq!(failing(libc::EAGAIN, 7), (None, 8));
        assert_eq!(failing(libc::EAGAIN, u32::MAX), (Some(libbpf_rs::ErrorKind::WouldBlock), ATTEMPTS));
        assert_eq!(failing(libc::EACCES, 1), (Some(libbpf_rs::ErrorKind::PermissionDenied), 1));
    }
}
