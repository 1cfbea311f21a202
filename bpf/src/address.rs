// SPDX-License-Identifier: Apache-2.0
//! IPv6 addresses as the maps store them: 16 octets in wire order.

use std::net::Ipv6Addr;

macro_rules! address {
    ($t:ty) => {
        impl From<Ipv6Addr> for $t {
            fn from(a: Ipv6Addr) -> Self {
                let [hi, lo] = [0, 64].map(|shift| ((u128::from(a) << shift >> 64) as u64).to_be());
                Self { hi, lo }
            }
        }

        impl From<$t> for Ipv6Addr {
            fn from(a: $t) -> Self {
                Self::from(u128::from(u64::from_be(a.hi)) << 64 | u128::from(u64::from_be(a.lo)))
            }
        }
    };
}

address!(crate::node::types::canopy_addr);
address!(crate::pacer::types::canopy_addr);
address!(crate::steer::types::canopy_addr);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_octets_are_those_on_the_wire() {
        let a: Ipv6Addr = "2001:db8:1:2:3:4:5:6".parse().expect("an address");
        let stored = crate::node::types::canopy_addr::from(a);
        assert_eq!(crate::bytes(&stored), a.octets());
        assert_eq!(Ipv6Addr::from(stored), a);
    }
}
