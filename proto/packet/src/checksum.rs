// SPDX-License-Identifier: Apache-2.0
//! The Internet checksum, RFC 1071: the one's complement of the one's complement sum of 16-bit words.

use core::net::Ipv6Addr;

/// The pseudo-header of RFC 8200 section 8.1, for a packet of `len` octets. One longer than a jumbogram does not exist.
pub(crate) fn pseudo_header(src: Ipv6Addr, dst: Ipv6Addr, len: usize, next_header: u8) -> Sum {
    let sum = Sum::default().add(&src.octets()).add(&dst.octets());
    sum.add(&(len as u32).to_be_bytes()).add(&[0, 0, 0, next_header])
}

/// A sum in progress. Every part but the last must have an even number of octets; an odd last one is padded with zero.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum(u64);

impl Sum {
    /// Adds octets.
    pub(crate) fn add(mut self, octets: &[u8]) -> Self {
        let (words, odd) = octets.as_chunks::<2>();
        for word in words {
            self.0 += u64::from(u16::from_be_bytes(*word));
        }
        if let [last] = odd {
            self.0 += u64::from(*last) << 8;
        }
        self
    }

    /// The sum folded to 16 bits: 0xffff over data that holds its own right checksum.
    pub(crate) fn fold(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// The checksum to write where the summed data held zero.
    pub(crate) fn checksum(self) -> u16 {
        !self.fold()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_rfc_1071_section_3() {
        let octets = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().add(&octets).fold(), 0xddf2);
        assert_eq!(Sum::default().add(&octets[..4]).add(&octets[4..]).checksum(), !0xddf2);
        assert_eq!(Sum::default().add(&[0x12]).fold(), 0x1200, "an odd octet is the upper one");
    }
}
