// SPDX-License-Identifier: Apache-2.0
//! The CRC-32 register and its field, GF(2)\[x\] modulo P.
//!
//! Everything is in the reflected representation of the register: bit 31 is the coefficient of `x^0`, bit 0 that of
//! `x^31`. So one is 0x8000_0000, and multiplying by `x` is a shift to the right.

/// P = x^32+x^26+x^23+x^22+x^16+x^12+x^11+x^10+x^8+x^7+x^5+x^4+x^2+x+1 without its x^32, reflected.
pub const POLY: u32 = 0xedb8_8320;

const ONE: u32 = 0x8000_0000;
/// x^8.
const X8: u32 = ONE >> 8;

/// The register's step by one octet: `r' = r >> 8 ^ TABLE[(r ^ octet) & 0xff]`.
pub const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut octet = 0;
    while octet < table.len() {
        table[octet] = gf_mul(octet as u32, X8);
        octet += 1;
    }
    table
};

/// The raw CRC-32 register, without initial value and final inversion unless a name states them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Crc(pub u32);

impl Crc {
    /// The register from which differences are computed.
    pub const ZERO: Self = Self(0);

    /// Feeds octets.
    #[must_use]
    pub const fn update(self, octets: &[u8]) -> Self {
        let mut register = self.0;
        let mut i = 0;
        while i < octets.len() {
            register = register >> 8 ^ TABLE[((register ^ octets[i] as u32) & 0xff) as usize];
            i += 1;
        }
        Self(register)
    }

    /// Feeds `octets` octets of zero, in time logarithmic in their number: multiplies by x^(8 `octets`) mod P.
    #[must_use]
    pub const fn shift_zeros(self, octets: usize) -> Self {
        Self(gf_mul(self.0, xpow8(octets)))
    }

    /// The register inverted: the ICRC, when all covered octets were fed to [`Crc::START`].
    pub const fn icrc(self) -> u32 {
        !self.0
    }
}

/// `a * b mod P`.
pub const fn gf_mul(a: u32, b: u32) -> u32 {
    let mut product = 0;
    let mut a_times_xi = a;
    let mut i = 0;
    while i < 32 {
        if b & (ONE >> i) != 0 {
            product ^= a_times_xi;
        }
        let carry = a_times_xi & 1;
        a_times_xi = a_times_xi >> 1 ^ if carry == 0 { 0 } else { POLY };
        i += 1;
    }
    product
}

/// `x^(8 octets) mod P`: the factor of a difference that `octets` octets follow.
pub const fn xpow8(octets: usize) -> u32 {
    let mut power = ONE;
    let mut square = X8;
    let mut exponent = octets;
    while exponent != 0 {
        if exponent & 1 != 0 {
            power = gf_mul(power, square);
        }
        square = gf_mul(square, square);
        exponent >>= 1;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn the_published_check_value_of_crc_32_comes_out() {
        assert_eq!(Crc(u32::MAX).update(b"123456789").icrc(), 0xcbf4_3926);
    }

    #[test]
    fn x_to_the_32_is_the_polynomial() {
        assert_eq!(xpow8(4), POLY);
        assert_eq!(xpow8(0), ONE);
    }

    /// zlib's x2n_table: x^64, x^128 and x^256 mod P.
    #[test]
    fn powers_of_x_are_those_that_zlib_lists() {
        assert_eq!([8, 16, 32].map(xpow8), [0xb1e6_b092, 0xa06a_2517, 0xed62_7dae]);
    }

    proptest! {
        #[test]
        fn shifting_zeros_is_feeding_zeros(register: u32, octets in 0_usize..5000) {
            let fed = Crc(register).update(&vec![0; octets]);
            prop_assert_eq!(Crc(register).shift_zeros(octets), fed);
        }

        #[test]
        fn the_register_is_linear(a: Vec<u8>, register: u32, other: u32, key: u8) {
            let b: Vec<u8> = a.iter().map(|octet| octet.wrapping_mul(key)).collect();
            let xor: Vec<u8> = a.iter().zip(&b).map(|(a, b)| a ^ b).collect();
            let sum = Crc(register).update(&a).0 ^ Crc(other).update(&b).0;
            prop_assert_eq!(Crc(register ^ other).update(&xor).0, sum);
        }

        #[test]
        fn multiplication_is_that_of_a_commutative_ring(a: u32, b: u32, c: u32) {
            prop_assert_eq!(gf_mul(a, b), gf_mul(b, a));
            prop_assert_eq!(gf_mul(gf_mul(a, b), c), gf_mul(a, gf_mul(b, c)));
            prop_assert_eq!(gf_mul(a, b ^ c), gf_mul(a, b) ^ gf_mul(a, c));
            prop_assert_eq!(gf_mul(a, ONE), a);
        }

        #[test]
        fn powers_add(a in 0_usize..1 << 20, b in 0_usize..1 << 20) {
            prop_assert_eq!(gf_mul(xpow8(a), xpow8(b)), xpow8(a + b));
        }
    }
}
