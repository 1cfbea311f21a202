// SPDX-License-Identifier: Apache-2.0
//! Layouts of map keys and values, from BTF: which field is where. Two layouts are matched by the names of their fields.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use libbpf_rs::btf::types::{Array, Composite, Enum, Int, MemberAttr};
use libbpf_rs::btf::{Btf, BtfType, HasSize, TypeId};
use libbpf_rs::{AsRawLibbpf, OpenObject, libbpf_sys};
use sha2::{Digest, Sha256};

use crate::error::{Context, Result};

/// Numbers of the roles: programs of two objects are in one array while one replaces the other.
const ROLES: &str = "canopy_role";
/// Octets of the digest in an identifier.
const ID: usize = 8;

/// An integer, or an array of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Leaf {
    offset: usize,
    size: usize,
    count: usize,
}

/// The fields of a key or value, by their paths such as `tree[3].key`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    size: usize,
    leaves: BTreeMap<String, Leaf>,
    /// It has a lock, under which it is read and written.
    pub(crate) locked: bool,
}

impl Layout {
    /// The layout of a type.
    pub(crate) fn of(btf: &Btf<'_>, id: u32) -> Result<Self> {
        let reading = || format!("reading BTF type {id}");
        let ty: BtfType<'_> = btf.type_by_id(TypeId::from(id)).ok_or("it is missing").with_context(reading)?;
        let mut layout = Self { size: size(ty).with_context(reading)?, ..Self::default() };
        layout.add(btf, ty, "", 0).with_context(reading)?;
        Ok(layout)
    }

    fn add(&mut self, btf: &Btf<'_>, ty: BtfType<'_>, path: &str, offset: usize) -> Result<(), String> {
        let ty = ty.skip_mods_and_typedefs();
        if let Ok(array) = Array::try_from(ty) {
            let of = array.contained_type().skip_mods_and_typedefs();
            let one = size(of)?;
            if Int::try_from(of).is_ok() || Enum::try_from(of).is_ok() {
                self.leaves.insert(path.to_owned(), Leaf { offset, size: one, count: array.capacity() });
                return Ok(());
            }
            return (0..array.capacity())
                .try_for_each(|i| self.add(btf, of, &format!("{path}[{i}]"), offset + i * one));
        }
        let Ok(composite) = Composite::try_from(ty) else {
            self.leaves.insert(path.to_owned(), Leaf { offset, size: size(ty)?, count: 1 });
            return Ok(());
        };
        match composite.name().and_then(|n| n.to_str()) {
            Some("bpf_spin_lock") => self.locked = true,
            Some("bpf_timer") => {}
            _ => {
                for member in composite.iter() {
                    let MemberAttr::Normal { offset: bits } = member.attr else {
                        return Err(format!("{path} has a bit field"));
                    };
                    let name = member.name.and_then(|n| n.to_str()).unwrap_or_default();
                    let of: BtfType<'_> = btf.type_by_id(member.ty).ok_or("a member without a type")?;
                    let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                    self.add(btf, of, &path, offset + bits as usize / 8)?;
                }
            }
        }
        Ok(())
    }

    /// Sets an integer of a value; a field that this layout does not have stays away.
    pub(crate) fn set(&self, value: &mut [u8], path: &str, to: u64) {
        if let Some(leaf) = self.leaves.get(path) {
            let bytes = to.to_le_bytes();
            let end = leaf.offset + leaf.size.min(bytes.len());
            value[leaf.offset..end].copy_from_slice(&native(&bytes[..end - leaf.offset]));
        }
    }

    /// An integer of a value; 0 if this layout does not have it.
    pub(crate) fn get(&self, value: &[u8], path: &str, index: usize) -> u64 {
        self.leaves.get(path).filter(|leaf| index < leaf.count).map_or(0, |leaf| integer(value, leaf, index))
    }
}

/// How values of one layout become values of another: every field that both have is copied, all others are zero.
#[derive(Clone, Debug)]
pub(crate) struct Conversion {
    moves: Vec<(Leaf, Leaf)>,
    len: usize,
}

impl Conversion {
    /// From `old` to `new`.
    ///
    /// # Errors
    /// A field is an array in both, of different lengths: an index of one may mean something else in the other. Octet strings may
    /// differ.
    pub(crate) fn between(old: &Layout, new: &Layout) -> Result<Self, String> {
        let mut moves = Vec::new();
        for (path, to) in &new.leaves {
            let Some(from) = old.leaves.get(path) else { continue };
            if from.count != to.count && (from.size, to.size) != (1, 1) {
                return Err(format!("{path} has {} elements there and {} here", from.count, to.count));
            }
            moves.push((*from, *to));
        }
        Ok(Self { moves, len: new.size })
    }

    /// Converts a value. An integer that does not fit into a smaller field is an error.
    pub(crate) fn convert(&self, old: &[u8]) -> Result<Vec<u8>, String> {
        let mut new = vec![0; self.len];
        for (from, to) in &self.moves {
            if from.size == to.size {
                let len = from.size * from.count.min(to.count);
                new[to.offset..to.offset + len].copy_from_slice(&old[from.offset..from.offset + len]);
                continue;
            }
            for i in 0..from.count.min(to.count) {
                let value = integer(old, from, i).to_le_bytes();
                if value[to.size.min(8)..].iter().any(|b| *b != 0) {
                    return Err(format!("a value of {} octets does not fit into {}", from.size, to.size));
                }
                let at = to.offset + i * to.size;
                new[at..at + to.size].copy_from_slice(&native(&value[..to.size]));
            }
        }
        Ok(new)
    }
}

fn size(ty: BtfType<'_>) -> Result<usize, String> {
    let ty = ty.skip_mods_and_typedefs();
    if let Ok(array) = Array::try_from(ty) {
        Ok(array.capacity() * size(array.contained_type())?)
    } else if let Ok(composite) = Composite::try_from(ty) {
        Ok(composite.size())
    } else if let Ok(int) = Int::try_from(ty) {
        Ok(int.size())
    } else {
        Enum::try_from(ty).map(|e| e.size()).map_err(|t| format!("a field of kind {:?}", t.kind()))
    }
}

fn integer(value: &[u8], leaf: &Leaf, index: usize) -> u64 {
    let at = leaf.offset + index * leaf.size;
    let mut bytes = [0; 8];
    bytes[..leaf.size].copy_from_slice(&native(&value[at..at + leaf.size]));
    u64::from_le_bytes(bytes)
}

/// Little-endian octets in this machine's order, and back.
fn native(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if cfg!(target_endian = "big") {
        bytes.reverse();
    }
    bytes
}

/// Values of an enum by name. A program may have the name of the enum.
pub(crate) fn enumerators(btf: &Btf<'_>, name: &str) -> BTreeMap<String, i64> {
    let found = btf.type_by_kind::<Enum<'_>>().find(|e| e.name().is_some_and(|n| n == name));
    let Some(found) = found else { return BTreeMap::new() };
    let of = |m: libbpf_rs::btf::types::EnumMember<'_>| Some((m.name?.to_str()?.to_owned(), m.value));
    found.iter().filter_map(of).collect()
}

/// Whether a map of an opened object is to be pinned.
pub(crate) fn outlives(map: &impl AsRawLibbpf<LibbpfType = libbpf_sys::bpf_map>) -> bool {
    // SAFETY: the pointer is that of a map whose object is alive; the function only reads it.
    unsafe { !libbpf_sys::bpf_map__pin_path(map.as_libbpf_object().as_ptr()).is_null() }
}

/// Identifies the layout of an object's pinned maps, and the numbers of its roles: objects with the same one can use the same maps,
/// and run beside each other.
pub(crate) fn id(object: &OpenObject) -> Result<String> {
    // SAFETY: the pointer is valid for as long as the object, which is borrowed.
    let raw = unsafe { object.as_libbpf_object().as_ref() };
    let reading = "reading the layout of the BPF maps";
    let btf = Btf::from_bpf_object(raw).context(reading)?.ok_or("the object has no BTF").context(reading)?;
    let mut lines = BTreeMap::new();
    for map in object.maps().filter(outlives) {
        let name = map.name().to_string_lossy().into_owned();
        let pointer = map.as_libbpf_object().as_ptr();
        // SAFETY: the pointer is that of a map of the borrowed object; the functions only read it.
        let (numbers, types) = unsafe {
            use libbpf_sys::*;
            (
                [
                    bpf_map__type(pointer),
                    bpf_map__key_size(pointer),
                    bpf_map__value_size(pointer),
                    bpf_map__max_entries(pointer),
                    bpf_map__map_flags(pointer),
                ],
                [bpf_map__btf_key_type_id(pointer), bpf_map__btf_value_type_id(pointer)],
            )
        };
        let mut line = format!("{numbers:?}");
        for ty in types.into_iter().filter(|ty| *ty != 0) {
            let layout = Layout::of(&btf, ty)?;
            write!(line, " {} {:?}", layout.size, layout.leaves).unwrap_or_default();
        }
        lines.insert(name, line);
    }
    lines.insert(ROLES.to_owned(), format!("{:?}", enumerators(&btf, ROLES)));
    let digest = Sha256::digest(format!("{lines:?}"));
    Ok(digest.iter().take(ID).map(|b| format!("{b:02x}")).collect())
}
