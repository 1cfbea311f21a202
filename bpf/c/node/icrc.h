/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * ICRC by difference. CRC-32 is linear: if header bits change, the new ICRC is the old one XOR the
 * CRC register difference after the change, multiplied by x^(8n) for the n bytes that follow.
 * Reflected representation: bit 31 of the register is x^0.
 */
#ifndef CANOPY_ICRC_H
#define CANOPY_ICRC_H

#include "shared.h"

#define CRC_POLY 0xEDB88320u

/* Filled by the loader: crc_table[n][b] = the register after octet b and n octets of zero; xpow8[n] = x^(8n) mod P. */
const volatile __u32 crc_table[4][256] = {};
const volatile __u32 xpow8[CANOPY_MAX_TAIL] = {};

/* The register after four more octets, as a word in wire order. */
static __always_inline __u32 crc_word(__u32 crc, __be32 word)
{
	__u32 i = crc ^ __builtin_bswap32(bpf_ntohl(word));

	barrier_var(i);	/* keeps the masks after the XOR: Linux 6.1 loses the bounds of an XOR of masked halves */
	return crc_table[3][i & 0xFF] ^ crc_table[2][(i >> 8) & 0xFF] ^ crc_table[1][(i >> 16) & 0xFF] ^
	       crc_table[0][(i >> 24) & 0xFF];
}

/* a * b mod P. By multiplication, not by masks: the verifier forks on arithmetic-shift masks. Global: verified once. */
__noinline __u32 canopy_gf_mul(__u32 a, __u32 b)
{
	__u32 r = 0;

#pragma unroll
	for (int i = 31; i >= 0; i--) {
		r ^= ((b >> i) & 1) * a;
		a = (a >> 1) ^ ((a & 1) * CRC_POLY);
	}
	return r;
}

/* `delta` moved over `n` unchanged bytes. */
static __always_inline __u32 icrc_shift(__u32 delta, __u32 n)
{
	if (n >= CANOPY_MAX_TAIL)
		return 0;
	return canopy_gf_mul(delta, xpow8[n]);
}

#endif
