// SPDX-License-Identifier: Apache-2.0
//! The header's structures and numbers. They may only change by growing at the end.

use std::ffi::c_char;
use std::mem::{MaybeUninit, offset_of};
use std::net::Ipv6Addr;
use std::ptr;

use canopy_host::{Connection, Error, Event, JoinOptions, MemoryRegion, Role};

use crate::guard::{Failure, invalid, millis, name};
use crate::text::array;

/// `CANOPY_NAME_MAX`.
pub const NAME_MAX: usize = 64;
/// `CANOPY_TEXT_MAX`.
pub const TEXT_MAX: usize = 1024;
/// What `CANOPY_START_PSN` sets: PSN 0 can be fixed, and 0 fixes none.
const FIXED_PSN: u32 = 1 << 31;
/// `CANOPY_JOIN_WITHOUT_LEASE`.
const JOIN_WITHOUT_LEASE: u64 = 1;
/// `CANOPY_E_TIMEOUT`.
pub const E_TIMEOUT: i32 = 10;
/// `CANOPY_E_INTERNAL`.
pub const E_INTERNAL: i32 = 12;
/// `CANOPY_E_END`.
pub const E_END: i32 = 13;

/// `canopy_error`.
#[repr(C)]
#[allow(missing_docs, reason = "documented in the header")]
pub struct CanopyError {
    pub code: i32,
    pub field: [c_char; NAME_MAX],
    pub message: [c_char; TEXT_MAX],
}

/// `canopy_join_options`.
#[repr(C)]
#[allow(missing_docs, reason = "documented in the header")]
pub struct CanopyJoinOptions {
    pub size: usize,
    pub group: *const c_char,
    pub host: *const c_char,
    pub role: u32,
    pub qpn: u32,
    pub address: [u8; 16],
    pub va: u64,
    pub length: u64,
    pub rkey: u32,
    pub start_psn: u32,
    pub timeout_ms: i64,
    pub flags: u64,
}

/// `canopy_connection`.
#[repr(C)]
#[allow(missing_docs, reason = "documented in the header")]
pub struct CanopyConnection {
    pub proxy_address: [u8; 16],
    pub designated_qpn: u32,
    pub start_psn: u32,
    pub path_mtu: u32,
    pub write_rkey: u32,
    pub write_base_va: u64,
    pub write_length: u64,
}

/// `canopy_ready`.
#[repr(C)]
#[allow(missing_docs, reason = "documented in the header")]
pub struct CanopyReady {
    pub receivers: u32,
    pub reserved: u32,
    pub write_length: u64,
}

/// `canopy_event`.
#[repr(C)]
#[allow(missing_docs, reason = "documented in the header")]
pub struct CanopyEvent {
    pub kind: u32,
    pub receivers: u32,
    pub write_length: u64,
    pub host: [c_char; NAME_MAX],
    pub reason: [c_char; TEXT_MAX],
}

impl CanopyJoinOptions {
    /// # Safety
    /// Null, or to as many bytes as its `size`, with strings that are null or terminated.
    pub(crate) unsafe fn read(options: *const Self) -> Result<JoinOptions, Failure> {
        if options.is_null() {
            return Err(invalid("options", "it is NULL"));
        }
        // SAFETY: as above; `size` comes first in every version.
        let size = unsafe { *options.cast::<usize>() };
        // A program that was compiled before there were leases has none.
        let is_before_flags = size == offset_of!(Self, flags);
        if size != size_of::<Self>() && !is_before_flags {
            let reason = format!("{size} in place of {}: begin with CANOPY_JOIN_OPTIONS_INIT", size_of::<Self>());
            return Err(invalid("size", &reason));
        }
        // SAFETY: as above; every field may be zero.
        let mut o = unsafe {
            let mut o = MaybeUninit::<Self>::zeroed();
            ptr::copy_nonoverlapping(options.cast::<u8>(), o.as_mut_ptr().cast::<u8>(), size);
            o.assume_init()
        };
        if is_before_flags {
            o.flags = JOIN_WITHOUT_LEASE;
        }
        if o.flags & !JOIN_WITHOUT_LEASE != 0 {
            return Err(invalid(
                "flags",
                &format!("{:#x} has unknown bits: use 0 or CANOPY_JOIN_WITHOUT_LEASE", o.flags),
            ));
        }
        // SAFETY: as above.
        let (group, host) = unsafe { (name("group", o.group)?, name("host", o.host)?) };
        let mut join = match o.role {
            1 => JoinOptions::source(group, host, o.qpn),
            2 => JoinOptions::receiver(group, host, o.qpn),
            role => {
                return Err(invalid("role", &format!("{role} is neither CANOPY_ROLE_SOURCE nor CANOPY_ROLE_RECEIVER")));
            }
        };
        let address = Ipv6Addr::from(o.address);
        join.address = (!address.is_unspecified()).then_some(address);
        join.memory = (o.length > 0).then_some(MemoryRegion { va: o.va, rkey: o.rkey, length: o.length });
        if join.role == Role::Receiver && o.length == 0 && (o.va, o.rkey) != (0, 0) {
            return Err(invalid("length", "0 bytes of memory: give its length, or leave va and rkey 0"));
        }
        join.start_psn = match o.start_psn {
            0 => None,
            fixed if fixed & FIXED_PSN != 0 => Some(fixed & !FIXED_PSN),
            bare => {
                return Err(invalid("start_psn", &format!("{bare} is a bare number: use CANOPY_START_PSN({bare})")));
            }
        };
        join.lease = o.flags & JOIN_WITHOUT_LEASE == 0;
        if o.timeout_ms != 0 {
            join.timeout = millis(o.timeout_ms)?;
        }
        Ok(join)
    }
}

impl From<&Connection> for CanopyConnection {
    fn from(c: &Connection) -> Self {
        Self {
            proxy_address: c.proxy_address.octets(),
            designated_qpn: c.designated_qpn.get(),
            start_psn: c.start_psn.get(),
            path_mtu: c.path_mtu,
            write_rkey: c.write_rkey,
            write_base_va: c.write_base_va,
            write_length: c.write_length,
        }
    }
}

impl CanopyEvent {
    pub(crate) fn read(event: Event) -> Result<Self, Failure> {
        let plain = |kind| (kind, 0, 0, String::new(), String::new());
        let reasoned = |kind, reason| (kind, 0, 0, String::new(), reason);
        let (kind, receivers, write_length, host, reason) = match event {
            Event::Waiting { reason } => reasoned(1, reason),
            Event::Ready { receivers, write_length } => (2, receivers, write_length, String::new(), String::new()),
            Event::Degraded { reason } => reasoned(3, reason),
            Event::ReceiverJoined { receivers } => (4, receivers, 0, String::new(), String::new()),
            Event::ReceiverLeft { receivers } => (5, receivers, 0, String::new(), String::new()),
            Event::Evicted { host, reason } => (6, 0, 0, host, reason),
            Event::Failed { reason } => reasoned(7, reason),
            Event::Disconnected { reason } => reasoned(8, reason),
            Event::Reconnected => plain(9),
            Event::Deleted => plain(10),
            Event::SessionEnded => plain(11),
            other => return Err(Failure::Code(E_INTERNAL, format!("{other:?} has no number in the header"))),
        };
        Ok(Self { kind, receivers, write_length, host: array(&host), reason: array(&reason) })
    }
}

impl From<Failure> for CanopyError {
    fn from(failure: Failure) -> Self {
        let (code, field, message) = match failure {
            Failure::Code(code, message) => (code, String::new(), message),
            Failure::Error(error) => {
                let message = error.to_string();
                let (code, field) = match error {
                    Error::Socket { .. } => (1, String::new()),
                    Error::Invalid { field, .. } => (2, field),
                    Error::NotPermitted(_) => (3, String::new()),
                    Error::NoSuchGroup(_) => (4, String::new()),
                    Error::AlreadyJoined(_) => (5, String::new()),
                    Error::GroupFailed(_) => (6, String::new()),
                    Error::NotPossible(_) => (7, String::new()),
                    Error::Limit(_) => (8, String::new()),
                    Error::Unavailable(_) => (9, String::new()),
                    Error::Timeout { .. } => (E_TIMEOUT, String::new()),
                    Error::Protocol(_) => (11, String::new()),
                    _ => (E_INTERNAL, String::new()),
                };
                (code, field, message)
            }
        };
        Self { code, field: array(&field), message: array(&message) }
    }
}
