// SPDX-License-Identifier: Apache-2.0
//! Conversion of map keys and values to bytes and back.

/// A `#[repr(C)]` type without unnamed padding, generated from the BTF of an object.
///
/// # Safety
/// Every bit pattern must be a valid value, and padding bytes must not be read through [`bytes`]: the C headers name every padding
/// field.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($names:ident of $skel:ident: $($t:ident),* $(,)?) => {
        $(
            // SAFETY: generated from headers that hold integers and arrays of integers with named padding only; the test below
            // compares each type with its fields.
            unsafe impl Plain for crate::$skel::types::$t {}
        )*
        #[cfg(test)]
        const $names: &[&str] = &[$(stringify!($t)),*];
    };
}

plain! {
    NODE of node_skel:
    canopy_addr, canopy_node, canopy_group, canopy_proxy, canopy_outer, canopy_hmac, canopy_hmac_key, canopy_slot_key, canopy_peer_key, canopy_peer,
    canopy_branch, canopy_state, canopy_cnp, canopy_summary, canopy_capture, canopy_captured, canopy_drop_key, canopy_port, canopy_neighbour, canopy_port_drop_key, canopy_event,
    canopy_path_link, canopy_path_key, canopy_prefix, canopy_ends, canopy_uns, canopy_flow_key, canopy_flow, canopy_limits, canopy_port_stats, canopy_congested, canopy_cm,
}
plain! {
    PACER of pacer_skel:
    canopy_addr, pacer_key, pacer_control, pacer_pace, pacer_flow, pacer_answers, pacer_binding, pacer_notice,
}
plain! {
    STEER of steer_skel:
    canopy_addr, steer_control, steer_prefix, steer_program, steer_traffic, steer_probing,
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

#[cfg(test)]
mod tests {
    use libbpf_rs::btf::types::{Array, Composite, Enum, Int, MemberAttr};
    use libbpf_rs::btf::{Btf, BtfType, HasSize};

    const OBJECTS: [(&str, &[&str]); 3] = [
        (concat!(env!("OUT_DIR"), "/node.bpf.o"), super::NODE),
        (concat!(env!("OUT_DIR"), "/pacer.bpf.o"), super::PACER),
        (concat!(env!("OUT_DIR"), "/steer.bpf.o"), super::STEER),
    ];

    fn size(of: BtfType<'_>) -> usize {
        let of = of.skip_mods_and_typedefs();
        if let Ok(array) = Array::try_from(of) {
            array.capacity() * size(array.contained_type())
        } else if let Ok(composite) = Composite::try_from(of) {
            composite.size()
        } else if let Ok(int) = Int::try_from(of) {
            int.size()
        } else {
            Enum::try_from(of).map(|e| e.size()).unwrap_or_else(|t| panic!("a field of kind {:?}", t.kind()))
        }
    }

    /// The first octet of a struct that belongs to no field.
    fn hole(btf: &Btf<'_>, of: &Composite<'_>) -> Option<usize> {
        let mut end = 0;
        for member in of.iter() {
            let MemberAttr::Normal { offset } = member.attr else { panic!("a bit field") };
            if offset as usize != 8 * end {
                return Some(end);
            }
            let field: BtfType<'_> = btf.type_by_id(member.ty).unwrap_or_else(|| panic!("a field without a type"));
            end += size(field);
        }
        (end != of.size()).then_some(end)
    }

    #[test]
    fn no_type_has_unnamed_padding() {
        for (object, names) in OBJECTS {
            let btf = Btf::from_path(object).unwrap_or_else(|e| panic!("{object}: {e}"));
            for name in names {
                let of: Composite<'_> = btf.type_by_name(name).unwrap_or_else(|| panic!("{name} is not in BTF"));
                assert_eq!(hole(&btf, &of), None, "{name}: an octet without a field");
            }
            // Types within those types.
            for name in ["canopy_addr", "canopy_net", "canopy_slots", "canopy_min"] {
                let of: Option<Composite<'_>> = btf.type_by_name(name);
                assert_eq!(of.and_then(|of| hole(&btf, &of)), None, "{name}: an octet without a field");
            }
        }
    }
}
