// SPDX-License-Identifier: Apache-2.0
//! Arguments of every function: null is refused by name.

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use canopy_host::Error;

/// Why a function returns a value other than 0.
pub(crate) enum Failure {
    Error(Error),
    /// A code that is not an error of the Rust library.
    Code(i32, String),
}

/// The caller's handle or structure.
///
/// # Safety
/// Null, or valid for `'a`.
pub(crate) unsafe fn take<'a, T>(field: &str, pointer: *const T) -> Result<&'a T, Failure> {
    // SAFETY: as above.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(field))
}

/// The caller's output pointer.
///
/// # Safety
/// Null, or valid for writing for `'a`.
pub(crate) unsafe fn out<'a, T>(field: &str, pointer: *mut T) -> Result<&'a mut T, Failure> {
    // SAFETY: as above.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(field))
}

/// The caller's string.
///
/// # Safety
/// Null, or terminated and valid for `'a`.
pub(crate) unsafe fn name<'a>(field: &str, pointer: *const c_char) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(null(field));
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(pointer) }.to_str().map_err(|_| invalid(field, "it is not UTF-8"))
}

pub(crate) fn millis(timeout_ms: i64) -> Result<Duration, Failure> {
    let positive = u64::try_from(timeout_ms).map(Duration::from_millis);
    positive.map_err(|_| invalid("timeout_ms", &format!("{timeout_ms} is negative: use 0 or more milliseconds")))
}

/// Drops what a handle owns.
///
/// # Safety
/// Null, or from `Box::into_raw`, and not in use by any thread, now or later.
pub(crate) unsafe fn free<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: as above. A panic while dropping cannot be reported.
        drop(catch_unwind(AssertUnwindSafe(|| drop(unsafe { Box::from_raw(pointer) }))));
    }
}

pub(crate) fn invalid(field: &str, reason: &str) -> Failure {
    Failure::Error(Error::Invalid { field: field.to_owned(), reason: reason.to_owned() })
}

fn null(field: &str) -> Failure {
    invalid(field, "it is NULL")
}
