// SPDX-License-Identifier: Apache-2.0
//! Reads a whole hash map in few system calls. The iterator of libbpf-rs is not usable: it takes an incomplete batch for the last one,
//! but the kernel ends a batch wherever the next bucket does not fit.

use std::io;
use std::os::fd::AsRawFd;

use libbpf_rs::{MapCore, libbpf_sys};

use crate::error::{Context, Result};
use crate::map::name;
use crate::plain::{Plain, read};

/// Octets of values per call, about: the buffer of a first call has room for so many.
const BUFFER: usize = 1 << 18;
/// Initial number of entries per call, at most.
const BATCH: usize = 4096;
/// Length of the kernel's position in the map: four octets for a hash map, a key for others.
const POSITION: usize = 64;

/// All entries, each with `copies` values: one, or one for each processor. Entries that are added or removed during the call may be
/// missing.
pub(crate) fn batch<K: Plain, V: Plain>(map: &dyn MapCore, flags: u64, copies: usize) -> Result<Vec<(K, Vec<V>)>> {
    let sizes = (map.key_size() as usize, map.value_size() as usize);
    if sizes != (size_of::<K>(), size_of::<V>()) {
        return Err(format!("its entries have {sizes:?} octets")).with_context(|| format!("reading map {}", name(map)));
    }
    // The values of a per-processor map are rounded up to 8 octets.
    let one = if copies == 1 { size_of::<V>() } else { size_of::<V>().next_multiple_of(8) };
    let opts = libbpf_sys::bpf_map_batch_opts {
        sz: size_of::<libbpf_sys::bpf_map_batch_opts>() as _,
        elem_flags: flags,
        ..libbpf_sys::bpf_map_batch_opts::default()
    };
    let value_len = one * copies;
    let mut room = (BUFFER / value_len).clamp(16, BATCH);
    let (mut keys, mut values) = (vec![0u8; room * size_of::<K>()], vec![0u8; room * value_len]);
    let (mut position, mut next) = ([0u8; POSITION], [0u8; POSITION]);
    let (mut started, mut all) = (false, Vec::new());
    loop {
        let mut count = room as u32;
        // SAFETY: keys and values have room for `count` entries of the map's sizes, which are those of `K` and `V`; both
        // positions are longer than the kernel's.
        let code = unsafe {
            libbpf_sys::bpf_map_lookup_batch(
                map.as_fd().as_raw_fd(),
                if started { position.as_mut_ptr().cast() } else { std::ptr::null_mut() },
                next.as_mut_ptr().cast(),
                keys.as_mut_ptr().cast(),
                values.as_mut_ptr().cast(),
                &mut count,
                &opts,
            )
        };
        if code == -libc::ENOSPC {
            // One bucket has more entries than that.
            room *= 2;
            keys.resize(room * size_of::<K>(), 0);
            values.resize(room * value_len, 0);
            continue;
        }
        if code != 0 && code != -libc::ENOENT {
            return Err(io::Error::from_raw_os_error(-code)).with_context(|| format!("reading map {}", name(map)));
        }
        let entries = keys.chunks_exact(size_of::<K>()).zip(values.chunks_exact(value_len));
        let entry = |(key, of_key): (&[u8], &[u8])| {
            Some((read(key)?, of_key.chunks_exact(one).filter_map(|v| read(&v[..size_of::<V>()])).collect()))
        };
        all.extend(entries.take(count as usize).filter_map(entry));
        if code != 0 {
            return Ok(all);
        }
        (position, started) = (next, true);
    }
}
