// SPDX-License-Identifier: Apache-2.0
//! The C ABI of `canopy-host`. `include/canopy_host.h` is the contract and documents each function; [`types`] has its
//! structures, and the C test checks that both have the same sizes and offsets.
//!
//! Every function goes through [`call::call`]: it fills the caller's `canopy_error` and catches panics.

#![allow(clippy::missing_safety_doc, reason = "the header states the preconditions")]

mod call;
mod guard;
mod text;
pub mod types;

use std::ffi::c_char;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use canopy_host::{Client, ConnectOptions, Error, Event, Events, Membership};

use call::call;
use guard::{Failure, millis, name, out, take};
use types::{CanopyConnection, CanopyError, CanopyEvent, CanopyJoinOptions, CanopyReady, E_END, E_TIMEOUT};

/// ABI version of the header.
pub const ABI_VERSION: u32 = 3;

/// Opaque to C.
pub struct CanopyEvents {
    inner: Mutex<Stream>,
}

struct Stream {
    events: Events,
    over: bool,
}

/// `canopy_abi_version`.
#[unsafe(no_mangle)]
pub extern "C" fn canopy_abi_version() -> u32 {
    ABI_VERSION
}

/// `canopy_client_connect`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn canopy_client_connect(
    path: *const c_char,
    client: *mut *mut Client,
    error: *mut CanopyError,
) -> i32 {
    // SAFETY: the header's contract; null is checked for.
    call(error, || unsafe {
        let client = out("client", client)?;
        *client = ptr::null_mut();
        *client = Box::into_raw(Box::new(Client::connect(name("path", path)?)?));
        Ok(())
    })
}

/// `canopy_client_connect_with_token`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn canopy_client_connect_with_token(
    path: *const c_char,
    token_file: *const c_char,
    client: *mut *mut Client,
    error: *mut CanopyError,
) -> i32 {
    // SAFETY: the header's contract; null is checked for.
    call(error, || unsafe {
        let client = out("client", client)?;
        *client = ptr::null_mut();
        let options = ConnectOptions::at(name("path", path)?).with_token_file(name("token_file", token_file)?);
        *client = Box::into_raw(Box::new(Client::connect_with(&options)?));
        Ok(())
    })
}

/// `canopy_client_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn canopy_client_free(client: *mut Client) {
    // SAFETY: the header's contract: it came from canopy_client_connect, or is null.
    unsafe { guard::free(client) }
}

/// `canopy_join`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn canopy_join(
    client: *mut Client,
    options: *const CanopyJoinOptions,
    membership: *mut *mut Membership,
    error: *mut CanopyError,
) -> i32 {
    // SAFETY: the header's contract; null is checked for.
    call(error, || unsafe {
        let membership = out("membership", membership)?;
        *membership = ptr::null_mut();
        let options = CanopyJoinOptions::read(options)?;
        *membership = Box::into_raw(Box::new(take("client", client)?.join(options)?));
        Ok(())
    })
}

/// `canopy_leave_host`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn canopy_leave_host(
    client: *mut Client,
    group: *const c_char,
    host: *const c_char,
    error: *mut CanopyError,
) -> i32 {
    // SAFETY: the header's contract; null is checked for.
    call(error, || unsafe { Ok(take("client", client)?.leave(name("group", group)?, name("host", host)?)?) })
}

/// `canopy_membership_connection`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn canopy_membership_connection(
    membership: *const Membership,
    connection: *mut CanopyConnection,
    error: *mut CanopyError,
) -> i32 {
    // SAFETY: the header's contract; null is checked for.
    call(error, || unsafe {
        *out("connection", connection)? = take("membership", membership)?.connection().into();
        Ok(())
    })
}

/// `canopy_wait_ready`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn canopy_wait_ready(
    membership: *mut Membership,
    receivers: u32,
    timeout_ms: i64,
    ready: *mut CanopyReady,
    error: *mut CanopyError,
) -> i32 {
    // SAFETY: the header's contract; null is checked for.
    call(error, || unsafe {
        let found = take("membership", membership)?.wait_ready(receivers, millis(timeout_ms)?)?;
        if let Some(ready) = ready.as_mut() {
            *ready = CanopyReady { receivers: found.receivers, reserved: 0, write_length: found.write_length };
        }
        Ok(())
    })
}

/// `canopy_leave`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn canopy_leave(membership: *mut Membership, error: *mut CanopyError) -> i32 {
    // SAFETY: the header's contract; null is checked for.
    call(error, || unsafe { Ok(take("membership", membership)?.leave()?) })
}

/// `canopy_membership_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn canopy_membership_free(membership: *mut Membership) {
    // SAFETY: the header's contract: it came from canopy_join, or is null.
    unsafe { guard::free(membership) }
}

/// `canopy_events_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn canopy_events_open(
    membership: *mut Membership,
    events: *mut *mut CanopyEvents,
    error: *mut CanopyError,
) -> i32 {
    // SAFETY: the header's contract; null is checked for.
    call(error, || unsafe {
        let events = out("events", events)?;
        *events = ptr::null_mut();
        let stream = Stream { events: take("membership", membership)?.events(), over: false };
        *events = Box::into_raw(Box::new(CanopyEvents { inner: Mutex::new(stream) }));
        Ok(())
    })
}

/// `canopy_events_next`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn canopy_events_next(
    events: *mut CanopyEvents,
    timeout_ms: i64,
    event: *mut CanopyEvent,
    error: *mut CanopyError,
) -> i32 {
    // SAFETY: the header's contract; null is checked for.
    call(error, || unsafe {
        let event = out("event", event)?;
        // A stream that a panic interrupted is still usable: at worst it starts again from the group's current state.
        let mut stream = take("events", events)?.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if stream.over {
            return Err(Failure::Code(E_END, "the group was deleted: no event follows".to_owned()));
        }
        match stream.events.next_within(millis(timeout_ms)?)? {
            Some(next) => {
                stream.over = next == Event::Deleted;
                *event = CanopyEvent::read(next)?;
                Ok(())
            }
            None => Err(Failure::Code(E_TIMEOUT, format!("no event within {timeout_ms} ms"))),
        }
    })
}

/// `canopy_events_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn canopy_events_free(events: *mut CanopyEvents) {
    // SAFETY: the header's contract: it came from canopy_events_open, or is null.
    unsafe { guard::free(events) }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}
