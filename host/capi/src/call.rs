// SPDX-License-Identifier: Apache-2.0
//! Common to every function: no panic crosses the ABI, errors go to the caller's structure.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::guard::Failure;
use crate::types::{CanopyError, E_INTERNAL};

pub(crate) fn call(error: *mut CanopyError, act: impl FnOnce() -> Result<(), Failure>) -> i32 {
    let failure = match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::Code(E_INTERNAL, "the library panicked: please report what standard error shows".to_owned()),
    };
    let described = CanopyError::from(failure);
    let code = described.code;
    // SAFETY: the caller's pointer is null or to a canopy_error of its own.
    if let Some(error) = unsafe { error.as_mut() } {
        *error = described;
    }
    code
}
