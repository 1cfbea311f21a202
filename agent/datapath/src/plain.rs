// SPDX-License-Identifier: Apache-2.0
//! Conversion of map keys and values to bytes and back.

/// A `#[repr(C)]` type without unnamed padding, generated from the BTF of the BPF programs.
///
/// # Safety
/// Every bit pattern must be a valid value, and padding bytes must not be read through [`bytes`]:
/// `shared.h` names every padding field.
pub(crate) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($skel:ident: $($t:ident = $size:literal),* $(,)?) => {
        $(
            // SAFETY: generated from shared.h and egress_shared.h, which hold integers and arrays of integers with named padding only.
            unsafe impl Plain for crate::$skel::types::$t {}
            const _: () = assert!(size_of::<crate::$skel::types::$t>() == $size);
        )*
    };
}

plain! {
    skel:
    canopy_addr = 16,
    canopy_node = 40,
    canopy_group = 224,
    canopy_outer = 2096,
    canopy_slot_key = 8,
    canopy_peer_key = 24,
    canopy_peer = 8,
    canopy_branch = 72,
    canopy_branch_stats = 24,
    canopy_state = 8936,
    canopy_cnp = 2616,
    canopy_drop_key = 8,
    canopy_event = 24,
}

plain! {
    egress_skel:
    canopy_flow_key = 40,
    canopy_flow = 48,
    canopy_limits = 40,
    canopy_port_stats = 72,
    canopy_port_state = 40,
    canopy_second_level = 56,
    canopy_cm = 48,
}

// SAFETY: an integer has no padding and every bit pattern is valid.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}

/// The value's bytes.
pub(crate) fn bytes<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: `Plain` has no padding, so every byte is initialised; the slice borrows `value`.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// The value in `bytes`, or `None` if their length differs from the size of `T`.
pub(crate) fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    // SAFETY: the length is right and `Plain` accepts every bit pattern; the read needs no alignment.
    (bytes.len() == size_of::<T>()).then(|| unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}
