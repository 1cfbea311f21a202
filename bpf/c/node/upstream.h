/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The ACK or NAK that this node sends to its parent node or to the source. */
#ifndef CANOPY_UPSTREAM_H
#define CANOPY_UPSTREAM_H

#include "aggregate.h"
#include "drop.h"
#include "icrc.h"
#include "maps.h"
#include "nexthop.h"

/* Groups that have an entry at the same time; others replace them. A power of two. */
#define UP_HOPS 1024

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, UP_HOPS);
	__type(key, __u32);
	__type(value, struct known_hop);
} up_hops SEC(".maps");

/* An ACK frame from the Ethernet header to the ICRC. */
struct ack_frame {
	ROCE_FIELDS;
	__be32 aeth;
	__u32 icrc;		/* little endian on the wire */
};

#define ACK_PAYLOAD (UDP_LEN + BTH_LEN + AETH_LEN + ICRC_LEN)
#define CNP_PAYLOAD (UDP_LEN + BTH_LEN + CNP_LEN + ICRC_LEN)

/* Finds the next hop upstream for a packet of `l3_len` octets. Returns 0 or a drop reason. */
static __always_inline __u32 resolve_upstream(canopy_ctx *ctx, const struct canopy_group *g, __u32 l3_len, struct hop *hop)
{
	__u32 index = g->group_id & (UP_HOPS - 1);
	struct known_hop *known = bpf_map_lookup_elem(&up_hops, &index);

	return known ? resolve_known(ctx, known, bpf_ktime_get_ns(), g->up_ifindex, &g->up_da, l3_len, hop) : DROP_STATE_MISSING;
}

/* Link-layer addresses, IPv6, UDP, and the part of the BTH that all packets upstream have in common; the rest of it is zero. */
static __always_inline void fill_upstream(struct roce *f, const struct canopy_group *g, const struct hop *hop, __u16 payload)
{
	__builtin_memcpy(f->eth, &hop->macs, sizeof(hop->macs));
	f->eth[12] = ETH_IPV6 >> 8;
	f->eth[13] = ETH_IPV6 & 0xFF;
	f->ip6.vtf = bpf_htonl(0x60000000);
	f->ip6.payload_len = bpf_htons(payload);
	f->ip6.nexthdr = NEXTHDR_UDP;
	f->ip6.hop_limit = 64;
	f->ip6.src = g->up_sa;
	f->ip6.dst = g->up_da;
	f->udp.sport = bpf_htons(g->up_sport);
	f->udp.dport = bpf_htons(ROCE_PORT);
	f->udp.len = bpf_htons(payload);
	f->bth.flags = 0x40;	/* MigReq: migrated, as RoCEv2 endpoints send it */
	f->bth.pkey = 0xFFFF;
	f->bth.qpn = bpf_htonl(g->up_qpn);
}

/*
 * Overwrites the frame with `f`, which has the same `payload` octets behind its IPv6 header; nothing stays behind them. A UDP checksum
 * that was there is updated, and never becomes 0: where it was left to the hardware, that would still fill it in. Returns 0 or a drop
 * reason.
 */
static __always_inline __u32 overwrite(canopy_ctx *ctx, struct roce *f, __u32 payload)
{
	__u8 was[32 + CNP_PAYLOAD] __attribute__((aligned(8))) = {};
	__s64 pseudo, covered;
	__be16 check = 0;

	if (ctx_read(ctx, ETH_LEN + IP6_LEN + offsetof(struct udp, check), &check))
		return DROP_TRUNCATED;
	if (check && ctx_load(ctx, ETH_LEN + offsetof(struct ip6, src), was, 32 + payload))
		return DROP_TRUNCATED;
	f->udp.check = check;
	if (ctx_store(ctx, 0, f->eth, ETH_LEN + IP6_LEN + payload) || ctx_trim(ctx, ETH_LEN + IP6_LEN + payload))
		return DROP_TRUNCATED;
	if (!check)
		return 0;
	pseudo = bpf_csum_diff((__be32 *)was, 32, (__be32 *)&f->ip6.src, 32, 0);
	covered = bpf_csum_diff((__be32 *)(was + 32), payload, (__be32 *)&f->udp, payload, 0);
	return ctx_update_udp_check(ctx, ETH_LEN + IP6_LEN + offsetof(struct udp, check), pseudo, covered) ? DROP_TRUNCATED : 0;
}

/* Overwrites the packet with the upstream ACK or NAK `fb`. Returns 0 or a drop reason. */
__noinline __u32 canopy_write_upstream(struct __sk_buff *ctx, const struct canopy_group *g, const struct canopy_feedback *fb)
{
	struct ack_frame f = {};
	struct hop hop = {};
	__u32 crc, drop;

	if (!g || !fb)
		return DROP_STATE_MISSING;
	/* No receiver has what was forwarded since the last receiver left: it is acknowledged once a receiver is about to start. */
	if (g->flags & GROUP_HELD)
		return DROP_NO_RECEIVER;
	drop = resolve_upstream(ctx, g, IP6_LEN + ACK_PAYLOAD, &hop);
	if (drop)
		return drop;
	fill_upstream((struct roce *)&f, g, &hop, ACK_PAYLOAD);
	f.bth.opcode = OP_ACK;
	f.bth.psn = bpf_htonl(fb->psn);
	f.aeth = bpf_htonl(fb->syndrome << 24 | fb->msn);
	crc = crc_word(crc_word(g->ack_seed, f.bth.psn), f.aeth);
	f.icrc = __builtin_bswap32(bpf_htonl(~crc));
	return overwrite(ctx, (struct roce *)&f, ACK_PAYLOAD);
}

static __always_inline int send_upstream(canopy_ctx *ctx, const struct canopy_group *g, const struct canopy_feedback *fb)
{
	__u32 drop;

	if (fb->kind == FEEDBACK_NONE)
		return CTX_DROP;	/* merged, not lost: not counted as a drop */
	drop = canopy_write_upstream(ctx, g, fb);
	if (drop)
		return count_drop(g->group_id, drop);
	return ctx_send_to(ctx, g->up_ifindex);
}

#endif
