// SPDX-License-Identifier: Apache-2.0
//! Conversion of map keys and values to bytes and back.

/// A `#[repr(C)]` type without unnamed padding, generated from the BTF of an object.
///
/// # Safety
/// Every bit pattern must be a valid value, and padding bytes must not be read through [`bytes`]: the C headers name every padding
/// field.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($skel:ident: $($t:ident),* $(,)?) => {
        $(
            // SAFETY: generated from headers that hold integers and arrays of integers with named padding only; the `padding`
            // test compares the size of each type with the sum of its fields.
            unsafe impl Plain for crate::$skel::types::$t {}
        )*
    };
}

plain! {
    node_skel:
    canopy_addr, canopy_node, canopy_group, canopy_proxy, canopy_outer, canopy_slot_key, canopy_peer_key, canopy_peer,
    canopy_branch, canopy_branch_stats, canopy_state, canopy_cnp, canopy_drop_key, canopy_event,
    canopy_flow_key, canopy_flow, canopy_limits, canopy_port_stats, canopy_congested, canopy_cm,
}
plain! {
    pacer_skel:
    canopy_addr, pacer_key, pacer_control, pacer_pace, pacer_flow, pacer_answers, pacer_binding, pacer_notice,
}

// SAFETY: an integer has no padding and every bit pattern is valid.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}

/// The value's bytes.
pub fn bytes<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: `Plain` has no padding, so every byte is initialised; the slice borrows `value`.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// The value in `bytes`, or `None` if their length differs from the size of `T`.
pub fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    // SAFETY: the length is right and `Plain` accepts every bit pattern; the read needs no alignment.
    (bytes.len() == size_of::<T>()).then(|| unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}
