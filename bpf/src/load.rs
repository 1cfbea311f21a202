// SPDX-License-Identifier: Apache-2.0
//! Loading of BPF objects that signals do not interrupt, and libbpf's messages in the log.

use std::sync::Once;

use libbpf_rs::PrintLevel;
use libbpf_rs::skel::OpenSkel;

use crate::error::{Context, Result};

/// Attempts to load an object.
const ATTEMPTS: u32 = 20;
/// Start of libbpf's message about a netlink request that the kernel rejected.
const KERNEL_ERROR: &str = "Kernel error message";

/// Loads the object that `open` opens; each attempt opens it again. `operation` is the context of an error.
pub(crate) fn load<O: OpenSkel<'static>>(
    open: impl Fn() -> Result<O>,
    operation: impl FnOnce() -> String,
) -> Result<O::Output> {
    static LOG_REDIRECTED: Once = Once::new();
    LOG_REDIRECTED.call_once(|| _ = libbpf_rs::set_print(Some((PrintLevel::Info, log))));
    attempt(|| Ok(open()?.load()))?.with_context(operation)
}

/// Retries: any signal interrupts the verifier with EAGAIN, and libbpf itself retries a few times only.
fn attempt<T>(load: impl Fn() -> Result<libbpf_rs::Result<T>>) -> Result<libbpf_rs::Result<T>> {
    let mut left = 1..ATTEMPTS;
    loop {
        match load()? {
            Err(e) if e.kind() == libbpf_rs::ErrorKind::WouldBlock && left.next().is_some() => {}
            loaded => return Ok(loaded),
        }
    }
}

/// Kernel errors are logged at debug level only, because the caller gets them as errors, and some are expected (a filter that does
/// not exist yet).
fn log(level: PrintLevel, text: String) {
    let text = text.trim_end();
    match level {
        PrintLevel::Warn if !text.contains(KERNEL_ERROR) => {
            tracing::warn!("libbpf: {text}");
            // Tests have no log, and libbpf reports why the verifier rejected a program only here.
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
