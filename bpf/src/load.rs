// SPDX-License-Identifier: Apache-2.0
//! Loading of BPF objects that signals do not interrupt, and libbpf's messages in the log.

use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use libbpf_rs::PrintLevel;
use libbpf_rs::skel::OpenSkel;

use crate::error::{Context, Result};

/// Attempts to load an object.
const ATTEMPTS: u32 = 20;
/// Start of libbpf's message about a netlink request that the kernel rejected.
const KERNEL_ERROR: &str = "Kernel error message";
/// Octets of libbpf's messages that an error has: the end, where the verifier names the instruction.
const REASON: usize = 2048;

/// libbpf's warnings since the last attempt began. Loads of several threads mix theirs.
static WARNINGS: Mutex<String> = Mutex::new(String::new());

/// Loads the object that `open` opens; each attempt opens it again. `operation` is the context of an error, which ends with libbpf's
/// warnings: only they have the reason why the verifier rejected a program.
pub(crate) fn load<O: OpenSkel<'static>>(
    open: impl Fn() -> Result<O>,
    operation: impl FnOnce() -> String,
) -> Result<O::Output> {
    static LOG_REDIRECTED: Once = Once::new();
    LOG_REDIRECTED.call_once(|| _ = libbpf_rs::set_print(Some((PrintLevel::Info, log))));
    let loaded = attempt(|| {
        warnings().clear();
        Ok(open()?.load())
    })?;
    loaded.map_err(|e| format!("{e}; libbpf: {}", end_of(&warnings()))).with_context(operation)
}

fn warnings() -> MutexGuard<'static, String> {
    // The text is whole after every statement.
    WARNINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last [`REASON`] octets, from the start of a line on.
fn end_of(text: &str) -> &str {
    let from = text.char_indices().map(|(at, _)| at).find(|at| text.len() - at <= REASON).unwrap_or(text.len());
    match text[from..].find('\n') {
        Some(line) if from > 0 => text[from + line..].trim(),
        _ => text[from..].trim(),
    }
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

/// Warnings become part of the error of a load. A netlink request that the kernel rejected is no warning: the caller gets an error for
/// it, and some are expected (a filter that does not exist yet).
fn log(level: PrintLevel, text: String) {
    let text = text.trim_end();
    if matches!(level, PrintLevel::Warn) && !text.contains(KERNEL_ERROR) {
        let mut all = warnings();
        all.push_str(text);
        all.push('\n');
    }
    tracing::debug!("libbpf: {text}");
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
    fn an_error_has_the_end_of_the_messages() {
        let text = (0..1000).map(|n| format!("line {n}\n")).collect::<String>();
        let end = end_of(&text);
        assert!(end.starts_with("line ") && end.ends_with("line 999") && end.len() <= REASON, "{end}");
        assert_eq!(end_of("one line\n"), "one line");
    }

    #[test]
    fn a_signal_does_not_stop_loading_and_a_refusal_does_at_once() {
        assert_eq!(failing(libc::EAGAIN, 7), (None, 8));
        assert_eq!(failing(libc::EAGAIN, u32::MAX), (Some(libbpf_rs::ErrorKind::WouldBlock), ATTEMPTS));
        assert_eq!(failing(libc::EACCES, 1), (Some(libbpf_rs::ErrorKind::PermissionDenied), 1));
    }
}
