// SPDX-License-Identifier: Apache-2.0
//! Arrays that a daemon and its BPF programs use at the same time: mapped, without a system call for each access.

use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use libbpf_rs::MapCore;

use crate::error::{Context, Result};

/// A value that others write while it is read.
///
/// # Safety
/// All its fields are atomics, and its size is a multiple of 8, as the kernel rounds it up to.
pub(crate) unsafe trait Shared: Sync {}

/// The values of an array with `BPF_F_MMAPABLE`, which lives as long as this.
pub(crate) struct Mapped<T> {
    values: NonNull<T>,
    count: usize,
}

// SAFETY: the mapping lives as long as this, and its values are atomics.
unsafe impl<T: Shared> Send for Mapped<T> {}
// SAFETY: as above.
unsafe impl<T: Shared> Sync for Mapped<T> {}

impl<T: Shared> Mapped<T> {
    /// Maps the values of `map`.
    ///
    /// # Errors
    /// Its values have another size, or the system does not map them.
    pub(crate) fn of(map: &impl MapCore) -> Result<Self> {
        const { assert!(size_of::<T>().is_multiple_of(8)) };
        let what = || format!("mapping the values of map {}", map.name().to_string_lossy());
        if map.value_size() as usize != size_of::<T>() {
            return Err("they have another size").with_context(what);
        }
        let count = map.max_entries() as usize;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (fd, length) = (map.as_fd().as_raw_fd(), count * size_of::<T>());
        // SAFETY: a new mapping of a map of this size; the result is checked.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error()).with_context(what);
        }
        let values = NonNull::new(start.cast()).ok_or("the system gave no address").with_context(what)?;
        Ok(Self { values, count })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The value at a place; `None`: the array has no such place.
    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        // SAFETY: the place is within the mapping; every bit pattern is a valid value, and all access to it is atomic.
        (place < self.count).then(|| unsafe { self.values.add(place).as_ref() })
    }
}

impl<T> std::fmt::Debug for Mapped<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mapped").field("count", &self.count).finish_non_exhaustive()
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: mapped in `of`, with this length, and used by nothing else.
        unsafe { libc::munmap(self.values.as_ptr().cast(), self.count * size_of::<T>()) };
    }
}
