/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Headers on the wire: IPv6 directly behind Ethernet, UDP and BTH directly behind IPv6. */
#ifndef CANOPY_PACER_WIRE_H
#define CANOPY_PACER_WIRE_H

#define ETH_LEN 14
#define ETH_IPV6 0x86DD
#define NEXTHDR_UDP 17
#define NEXTHDR_ICMPV6 58
#define ROCE_PORT 4791
#define ICMPV6_LONG_HAUL 200
#define FOR_THIS_HOST 0 /* PACKET_HOST of linux/if_packet.h */

#define OP_READ_REQUEST 0x0C
#define OP_READ_RESPONSE_FIRST 0x0D
#define OP_ATOMIC_ACK 0x12
#define OP_COMPARE_SWAP 0x13
#define OP_FETCH_ADD 0x14
#define OP_SEND_LAST_INV 0x16
#define OP_SEND_ONLY_INV 0x17
#define OP_CNP 0x81
#define QPN_MASK 0xFFFFFF
#define ACK_REQUEST 0x80000000

struct ip6 {
	__be32 vtf;
	__be16 payload_len;
	__u8 nexthdr;
	__u8 hop_limit;
	__u8 src[16];
	__u8 dst[16];
};

struct roce {
	__be16 sport;
	__be16 dport;
	__be16 len;
	__sum16 check;
	__u8 opcode;
	__u8 flags;
	__be16 pkey;
	__be32 qpn; /* resv8a, DestQP */
	__be32 psn; /* AckReq, resv7, PSN */
};

/* OpCodes of an RC requester. */
static __always_inline bool op_request(__u8 op)
{
	return op <= OP_READ_REQUEST || op == OP_COMPARE_SWAP || op == OP_FETCH_ADD || op == OP_SEND_LAST_INV ||
	       op == OP_SEND_ONLY_INV;
}

/* OpCodes of the answers: read responses, ACK and NAK, atomic ACK. */
static __always_inline bool op_answer(__u8 op)
{
	return op >= OP_READ_RESPONSE_FIRST && op <= OP_ATOMIC_ACK;
}

#endif
