// SPDX-License-Identifier: Apache-2.0
//! Reading wire fields: lengths and presence, with the path of the field in every error.

use std::net::Ipv6Addr;

use canopy_model::FieldError;
use ipnet::Ipv6Net;

use crate::pb;

/// Puts `outer.` (or `outer` before an index) in front of the field that an inner conversion named.
pub(crate) fn within<T>(outer: impl std::fmt::Display, result: Result<T, FieldError>) -> Result<T, FieldError> {
    result.map_err(|e| FieldError::new(format!("{outer}.{}", e.field), e.detail))
}

/// Converts each element; an error's path starts with `field[index]`.
pub(crate) fn each<W, M: TryFrom<W, Error = FieldError>>(field: &str, items: Vec<W>) -> Result<Vec<M>, FieldError> {
    items.into_iter().enumerate().map(|(i, item)| within(format_args!("{field}[{i}]"), M::try_from(item))).collect()
}

/// A message that must be there.
pub(crate) fn required<T>(field: &str, value: Option<T>) -> Result<T, FieldError> {
    value.ok_or_else(|| FieldError::new(field, "is missing"))
}

/// An IPv6 address, 16 bytes in network order.
pub(crate) fn address(field: &str, bytes: &[u8]) -> Result<Ipv6Addr, FieldError> {
    match <[u8; 16]>::try_from(bytes) {
        Ok(octets) => Ok(Ipv6Addr::from(octets)),
        Err(_) => Err(FieldError::new(field, format!("{} bytes, an IPv6 address has 16", bytes.len()))),
    }
}

/// An IPv6 address, or nothing.
pub(crate) fn optional_address(field: &str, bytes: &[u8]) -> Result<Option<Ipv6Addr>, FieldError> {
    if bytes.is_empty() { Ok(None) } else { address(field, bytes).map(Some) }
}

/// A prefix whose host bits are zero.
pub(crate) fn prefix(field: &str, wire: Option<pb::Prefix>) -> Result<Ipv6Net, FieldError> {
    let wire = required(field, wire)?;
    let address = address(&format!("{field}.address"), &wire.address)?;
    let net = u8::try_from(wire.length).ok().and_then(|length| Ipv6Net::new(address, length).ok());
    match net {
        Some(net) if net.trunc() == net => Ok(net),
        Some(net) => Err(FieldError::new(
            format!("{field}.address"),
            format!("{address} has bits set behind its /{}: {} is meant", net.prefix_len(), net.trunc()),
        )),
        None => Err(FieldError::new(
            format!("{field}.length"),
            format!("{} is not an IPv6 prefix length: use 0..=128", wire.length),
        )),
    }
}

/// Wire form of an address.
pub(crate) fn octets(address: Ipv6Addr) -> Vec<u8> {
    address.octets().to_vec()
}

/// Wire form of an optional address.
pub(crate) fn optional_octets(address: Option<Ipv6Addr>) -> Vec<u8> {
    address.map(octets).unwrap_or_default()
}

impl From<Ipv6Net> for pb::Prefix {
    fn from(net: Ipv6Net) -> Self {
        Self { address: octets(net.addr()), length: u32::from(net.prefix_len()) }
    }
}
