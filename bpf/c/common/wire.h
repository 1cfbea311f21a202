/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Headers in wire format, their offsets, and the OpCodes of the BTH. Shared by all programs. */
#ifndef CANOPY_WIRE_H
#define CANOPY_WIRE_H

#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define ETH_LEN 14
#define ETH_IPV6 0x86DD
#define ETH_VLAN 0x8100
#define ETH_SERVICE_VLAN 0x88A8
#define IP6_LEN 40
#define UDP_LEN 8
#define BTH_LEN 12
#define RETH_LEN 16
#define AETH_LEN 4
#define CNP_LEN 16
#define ICRC_LEN 4
/* RFC 3168: the ECN field of a traffic class. */
#define ECN_MASK 3
#define ECN_ECT_1 1
#define ECN_ECT_0 2
#define ECN_CE 3
#define ROCE_PORT 4791
#define NEXTHDR_HOP_BY_HOP 0
#define NEXTHDR_IPV4 4
#define NEXTHDR_UDP 17
#define NEXTHDR_IPV6 41
#define NEXTHDR_ROUTING 43
#define NEXTHDR_FRAGMENT 44
#define NEXTHDR_AUTHENTICATION 51
#define NEXTHDR_ICMPV6 58
#define NEXTHDR_DESTINATION 60
/* RFC 4443: types below are errors, and quote the packet that they are about behind 8 octets. */
#define ICMPV6_INFORMATIONAL 128
#define ICMPV6_QUOTED 8
#define ICMPV6_ROUTER_SOLICIT 133
#define ICMPV6_NEIGHBOUR_SOLICIT 135
#define ICMPV6_NEIGHBOUR_ADVERT 136
#define ICMPV6_REDIRECT 137
#define ICMPV6_LONG_HAUL 200
#define SRH_TYPE 4
/* Decisions 5.3: uNs are below, uAs begin behind it. */
#define USID_BEFORE_UA 0xE000
#define USID_LAST_UA 0xEFFF
#define TLV_PAD1 0
#define TLV_HMAC 5
#define TLV_END_MT 124

/* An IPv6 address in wire order. */
struct canopy_addr {
	__u64 hi;
	__u64 lo;
};

/* A prefix: addresses that are `address` where `mask` has ones. */
struct canopy_net {
	struct canopy_addr address;
	struct canopy_addr mask;
};

struct ip6 {
	__be32 vtf;		/* version, traffic class, flow label */
	__be16 payload_len;
	__u8 nexthdr;
	__u8 hop_limit;
	struct canopy_addr src;
	struct canopy_addr dst;
};

struct udp {
	__be16 sport;
	__be16 dport;
	__be16 len;
	__sum16 check;
};

struct bth {
	__u8 opcode;
	__u8 flags;		/* SE, M, pad count, version */
	__be16 pkey;
	__be32 qpn;		/* resv8a, DestQP */
	__be32 psn;		/* AckReq, resv7, PSN */
};

struct srh {
	__u8 nexthdr;
	__u8 hdrlen;
	__u8 type;
	__u8 segments_left;
	__u8 last_entry;
	__u8 flags;
	__be16 tag;
};

/*
 * Ethernet header to BTH of a plain RoCEv2 packet, read and written in one call at `eth`. The two bytes
 * before it align the addresses to 8 bytes, as the verifier requires on the stack.
 */
#define ROCE_FIELDS                 \
	__u8 align[2];              \
	__u8 eth[ETH_LEN];          \
	struct ip6 ip6;             \
	struct udp udp;             \
	struct bth bth

struct roce {
	ROCE_FIELDS;
};

/* UDP and BTH, behind IPv6. */
struct transport {
	struct udp udp;
	struct bth bth;
};

#define ROCE_LEN (ETH_LEN + IP6_LEN + UDP_LEN + BTH_LEN)

#define OP_SEND_FIRST 0x00
#define OP_SEND_LAST_IMM 0x03
#define OP_SEND_ONLY 0x04
#define OP_SEND_ONLY_IMM 0x05
#define OP_WRITE_FIRST 0x06
#define OP_WRITE_ONLY 0x0A
#define OP_WRITE_ONLY_IMM 0x0B
#define OP_READ_REQUEST 0x0C
#define OP_READ_RESPONSE_FIRST 0x0D
#define OP_ACK 0x11
#define OP_ATOMIC_ACK 0x12
#define OP_COMPARE_SWAP 0x13
#define OP_FETCH_ADD 0x14
#define OP_SEND_LAST_INV 0x16
#define OP_SEND_ONLY_INV 0x17
#define OP_UD_SEND_ONLY 0x64
#define OP_CNP 0x81

/* The transport of an OpCode, and the operation within it. */
#define OP_CLASS 0xE0
#define OP_CLASS_UC 0x20
#define OP_CLASS_UD 0x60
#define OP_KIND 0x1F

/* Transport header version, in the second octet of the BTH: 0 is the only one (IBTA section 9.2.4). */
#define BTH_VERSION 0x0F

#define PSN_MASK 0xFFFFFF
#define PSN_HALF 0x800000
#define QPN_MASK 0xFFFFFF
#define QP1 1
/* AckReq, in host order of the last word of the BTH. */
#define ACK_REQUEST 0x80000000

static __always_inline bool addr_eq(const struct canopy_addr *a, const struct canopy_addr *b)
{
	return a->hi == b->hi && a->lo == b->lo;
}

static __always_inline bool addr_in(const struct canopy_addr *a, const struct canopy_net *net)
{
	return !(((a->hi ^ net->address.hi) & net->mask.hi) | ((a->lo ^ net->address.lo) & net->mask.lo));
}

/* RFC 4291: fe80::/10. */
static __always_inline bool addr_is_link_local(const struct canopy_addr *a)
{
	return (bpf_be64_to_cpu(a->hi) & 0xFFC0000000000000) == 0xFE80000000000000;
}

/* RFC 4291: ff00::/8. */
static __always_inline bool addr_is_multicast(const struct canopy_addr *a)
{
	return *(const __u8 *)a == 0xFF;
}

static __always_inline __u32 traffic_class(__be32 vtf)
{
	return (bpf_ntohl(vtf) >> 20) & 0xFF;
}

static __always_inline __be32 with_traffic_class(__be32 vtf, __u32 tc)
{
	return bpf_htonl((bpf_ntohl(vtf) & 0xF00FFFFF) | (tc & 0xFF) << 20);
}

/* SEND and WRITE, with and without immediate, can be multicast (decisions 2.8). */
static __always_inline bool op_multicast(__u8 op)
{
	return op <= OP_WRITE_ONLY_IMM;
}

static __always_inline bool op_has_reth(__u8 op)
{
	return op == OP_WRITE_FIRST || op == OP_WRITE_ONLY || op == OP_WRITE_ONLY_IMM;
}

/* FIRST or ONLY: the packet starts a message. */
static __always_inline bool op_starts_message(__u8 op)
{
	return op == OP_SEND_FIRST || op == OP_SEND_ONLY || op == OP_SEND_ONLY_IMM || op_has_reth(op);
}

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

static __always_inline __u32 bth_qpn(const struct bth *b)
{
	return bpf_ntohl(b->qpn) & QPN_MASK;
}

static __always_inline __u32 bth_psn(const struct bth *b)
{
	return bpf_ntohl(b->psn) & PSN_MASK;
}

/* RoCE ports have one P_Key, the default partition's, with full or limited membership in the top bit (IBTA annex A16). */
static __always_inline bool pkey_is_default(__be16 pkey)
{
	return (pkey | bpf_htons(0x8000)) == 0xFFFF;
}

/* The 64-bit PSN nearest to `base` whose low 24 bits are `psn`. */
static __always_inline __u64 unwrap_psn(__u64 base, __u32 psn)
{
	__s32 d = (__s32)((psn - (__u32)base) << 8) >> 8;

	return base + (__s64)d;
}

#endif
