// SPDX-License-Identifier: Apache-2.0
//! Reads a whole hash map in few system calls. The iterator of libbpf-rs is not usable: it takes an incomplete batch for the last one,
//! but the kernel ends a batch wherever the next bucket does not fit.

use std::io;
use std::os::fd::AsRawFd;

use libbpf_rs::{MapCore, libbpf_sys};

use crate::error::{Context, Result};
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
    let mut all = Vec::new();
    raw_batch(map, flags, copies, |key, values| {
        let key: Option<K> = read(key);
        all.extend(key.map(|key| (key, values.filter_map(|v| read(&v[..size_of::<V>()])).collect())));
    })?;
    Ok(all)
}

/// The first `count` values of an array.
pub(crate) fn first<V: Plain>(map: &dyn MapCore, count: u32) -> Result<Vec<V>> {
    let reading = || format!("reading map {}", name(map));
    if map.value_size() as usize != size_of::<V>() {
        return Err(format!("its entries have {} octets", map.value_size())).with_context(reading);
    }
    let mut count = count.min(map.max_entries());
    if count == 0 {
        return Ok(Vec::new());
    }
    let (mut keys, mut values) = (vec![0u32; count as usize], vec![0u8; count as usize * size_of::<V>()]);
    let opts = libbpf_sys::bpf_map_batch_opts {
        sz: size_of::<libbpf_sys::bpf_map_batch_opts>() as _,
        ..libbpf_sys::bpf_map_batch_opts::default()
    };
    let mut next = [0u8; POSITION];
    // SAFETY: keys and values have room for `count` entries of the map's sizes; the position is longer than the kernel's.
    let code = unsafe {
        libbpf_sys::bpf_map_lookup_batch(
            map.as_fd().as_raw_fd(),
            std::ptr::null_mut(),
            next.as_mut_ptr().cast(),
            keys.as_mut_ptr().cast(),
            values.as_mut_ptr().cast(),
            &mut count,
            &opts,
        )
    };
    // ENOENT: these are all.
    if code != 0 && code != -libc::ENOENT {
        return Err(io::Error::from_raw_os_error(-code)).with_context(reading);
    }
    Ok(values.chunks_exact(size_of::<V>()).take(count as usize).filter_map(read).collect())
}

/// As [`batch`], in octets: a key, and its values, which are padded to 8 octets if there are several.
pub(crate) fn raw_batch(
    map: &dyn MapCore,
    flags: u64,
    copies: usize,
    mut each: impl FnMut(&[u8], std::slice::ChunksExact<'_, u8>),
) -> Result<()> {
    let (key_len, one) = (map.key_size() as usize, map.value_size() as usize);
    // The values of a per-processor map are rounded up to 8 octets.
    let one = if copies == 1 { one } else { one.next_multiple_of(8) };
    let opts = libbpf_sys::bpf_map_batch_opts {
        sz: size_of::<libbpf_sys::bpf_map_batch_opts>() as _,
        elem_flags: flags,
        ..libbpf_sys::bpf_map_batch_opts::default()
    };
    let value_len = one * copies;
    let mut room = (BUFFER / value_len).clamp(16, BATCH);
    let (mut keys, mut values) = (vec![0u8; room * key_len], vec![0u8; room * value_len]);
    let (mut position, mut next) = ([0u8; POSITION], [0u8; POSITION]);
    let mut started = false;
    loop {
        let mut count = room as u32;
        // SAFETY: keys and values have room for `count` entries of the map's sizes; both positions are longer than the kernel's.
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
            keys.resize(room * key_len, 0);
            values.resize(room * value_len, 0);
            continue;
        }
        if code != 0 && code != -libc::ENOENT {
            return Err(io::Error::from_raw_os_error(-code)).with_context(|| format!("reading map {}", name(map)));
        }
        let entries = keys.chunks_exact(key_len).zip(values.chunks_exact(value_len));
        entries.take(count as usize).for_each(|(key, values)| each(key, values.chunks_exact(one)));
        if code != 0 {
            return Ok(());
        }
        (position, started) = (next, true);
    }
}

/// Name of a map, for error messages.
pub(crate) fn name(map: &dyn MapCore) -> String {
    map.name().to_string_lossy().into_owned()
}
