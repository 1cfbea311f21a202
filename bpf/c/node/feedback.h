/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Role: an ACK, NAK or CNP of a branch is received, and at most one packet is sent upstream. */
#ifndef CANOPY_FEEDBACK_H
#define CANOPY_FEEDBACK_H

#include "cnp.h"
#include "event.h"
#include "roles.h"
#include "upstream.h"

/* The register after the first octets of the ICRC's input: the LRH, for which RoCEv2 has 8 octets of ones. */
#define CRC_AFTER_LRH 0xDEBB20E3u

/* The CRC register after IPv6, UDP and BTH, with the variant fields set to ones. A global function: verified once. */
__noinline __u32 canopy_crc_of(const struct roce *h)
{
	const __be32 *ip6, *udp, *bth;
	__u32 crc = CRC_AFTER_LRH;

	if (!h)
		return 0;
	ip6 = (const __be32 *)&h->ip6;
	udp = (const __be32 *)&h->udp;
	bth = (const __be32 *)&h->bth;
	crc = crc_word(crc, ip6[0] | bpf_htonl(0x0FFFFFFF));	/* traffic class and flow label */
	crc = crc_word(crc, ip6[1] | bpf_htonl(0xFF));		/* hop limit */
#pragma unroll
	for (int i = 2; i < IP6_LEN / 4; i++)
		crc = crc_word(crc, ip6[i]);
	crc = crc_word(crc, udp[0]);
	crc = crc_word(crc, udp[1] | bpf_htonl(0xFFFF));	/* checksum */
	crc = crc_word(crc, bth[0]);
	crc = crc_word(crc, bth[1] | bpf_htonl(0xFF000000));	/* resv8a */
	return crc_word(crc, bth[2]);
}

/* Whether `wire` is the ICRC that belongs to the final register. */
static __always_inline bool icrc_ok(__u32 crc, __u32 wire)
{
	return bpf_htonl(__builtin_bswap32(wire)) == ~crc;
}

/* IBTA sections 9.6.1.1 and 9.6.1.4: what an endpoint refuses although the ICRC is right. */
static __always_inline bool bth_ok(const struct bth *b)
{
	return !(b->flags & BTH_VERSION) && pkey_is_default(b->pkey);
}

/* ACK or NAK, by the AETH syndrome. Returns -1 if it was accepted and `out` is what to send upstream, otherwise a verdict. */
static __noinline int feedback_ack(canopy_ctx *ctx, const struct canopy_group *g, const struct roce *h, __u32 slot,
				   struct canopy_feedback *out)
{
	struct canopy_state *s = bpf_map_lookup_elem(&states, &g->group_id);
	__u64 now = bpf_ktime_get_ns();
	struct canopy_received received = { .slot = slot, .epoch = bpf_ntohs(h->udp.sport), .psn = bth_psn(&h->bth) };
	struct {
		__be32 aeth;
		__u32 icrc;
	} end = {};
	__u32 drop, syndrome;

	if (!s)
		return count_drop(g->group_id, DROP_STATE_MISSING);
	if (h->ip6.payload_len != bpf_htons(ACK_PAYLOAD) || ctx_read(ctx, ROCE_LEN, &end))
		return count_drop(g->group_id, DROP_FEEDBACK_MALFORMED);
	if (!icrc_ok(crc_word(canopy_crc_of(h), end.aeth), end.icrc))
		return count_drop(g->group_id, DROP_FEEDBACK_ICRC);
	if (!bth_ok(&h->bth))
		return count_drop(g->group_id, DROP_FEEDBACK_MALFORMED);
	syndrome = bpf_ntohl(end.aeth) >> 24;
	received.msn = bpf_ntohl(end.aeth) & 0xFFFFFF;
	if (syndrome >= 0x61 && syndrome <= 0x64) {
		bpf_spin_lock(&s->lock);
		drop = receive_fatal(s, g, &received, syndrome);
		bpf_spin_unlock(&s->lock);
	} else if (syndrome >> 5 == 0) {
		bpf_spin_lock(&s->lock);
		drop = receive_ack(s, g, &received, syndrome & 0x1F, now, out);
		bpf_spin_unlock(&s->lock);
	} else if (syndrome == 0x60 || syndrome >> 5 == 1) {
		__u32 timer = syndrome & 0x1F;
		__u32 kind = syndrome == 0x60 ? KIND_NAK : (timer ? 32 - timer : 0);

		bpf_spin_lock(&s->lock);
		drop = receive_nak(s, g, &received, kind, now, out);
		bpf_spin_unlock(&s->lock);
	} else {
		drop = DROP_FEEDBACK_MALFORMED;
	}
	if (drop)
		return count_drop(g->group_id, drop);
	s->stats[slot & SLOT_MASK].last_received_ns = now;
	return -1;
}

/*
 * A CNP of a branch opens a window, or is counted in the open one. One CNP goes upstream per window (decisions 3.8, 3.12): with the
 * first that arrives after its end, so that it needs no timer and no agent. Returns -1 if this packet becomes that CNP, otherwise a
 * verdict.
 */
static __noinline int feedback_cnp(canopy_ctx *ctx, const struct canopy_group *g, const struct roce *h, __u32 slot)
{
	struct canopy_state *s = bpf_map_lookup_elem(&states, &g->group_id);
	struct canopy_cnp *c = bpf_map_lookup_elem(&cnps, &g->group_id);
	__u64 now = bpf_ktime_get_ns();
	struct {
		__be32 reserved[CNP_LEN / 4];
		__u32 icrc;
	} end = {};
	bool opens = false, ended = false, forgotten = false;
	__u32 crc, drop;

	if (!s || !c)
		return count_drop(g->group_id, DROP_STATE_MISSING);
	if (h->ip6.payload_len != bpf_htons(CNP_PAYLOAD) || ctx_read(ctx, ROCE_LEN, &end))
		return count_drop(g->group_id, DROP_FEEDBACK_MALFORMED);
	crc = canopy_crc_of(h);
#pragma unroll
	for (int i = 0; i < CNP_LEN / 4; i++)
		crc = crc_word(crc, end.reserved[i]);
	if (!icrc_ok(crc, end.icrc))
		return count_drop(g->group_id, DROP_FEEDBACK_ICRC);
	if (!bth_ok(&h->bth))
		return count_drop(g->group_id, DROP_FEEDBACK_MALFORMED);
	slot &= SLOT_MASK;
	bpf_spin_lock(&s->lock);
	drop = branch_counts(s, g, slot, bpf_ntohs(h->udp.sport));
	if (!drop && c->slot_last_ns[slot] && now - c->slot_last_ns[slot] < g->cnp_min_ns)
		drop = DROP_CNP_RATE;
	if (!drop) {
		/* The agent closes a window before that, if it knows of it. */
		forgotten = now > c->ends_ns + g->cnp_window_ns;
		ended = cnp_window_close(c, now);
		opens = !c->running;
		if (opens) {
			c->running = 1;
			/*
			 * Windows follow each other without a gap while CNPs arrive. One that started with the first CNP after the
			 * previous end would start a little later each time than the child's, which sends its CNPs one window
			 * apart: every second one would arrive just before the end, and wait for the next.
			 */
			c->ends_ns = (now < c->ends_ns + g->cnp_window_ns ? c->ends_ns : now) + g->cnp_window_ns;
		}
		c->slot_last_ns[slot] = now;
		if (c->slot_window[slot] != c->window) {
			c->slot_window[slot] = c->window;
			c->slot_count[slot] = 0;
		}
		c->slot_count[slot] += 1;
		c->cnps_in += 1;
		if (c->slot_count[slot] > c->best_count ||
		    (c->slot_count[slot] == c->best_count && slot < c->best_slot)) {
			c->best_count = c->slot_count[slot];
			c->best_slot = slot;
		}
	}
	bpf_spin_unlock(&s->lock);
	if (drop)
		return count_drop(g->group_id, drop);
	s->stats[slot].last_received_ns = now;
	/* While windows follow each other, the agent checks the group again by itself; it may have been dead, or have missed the event. */
	if (opens && (!ended || forgotten))
		emit_event(EVENT_CNP, g->group_id, slot, 0, now);
	return ended ? -1 : CTX_DROP;
}

/* An EVENT_OTHER_MAC of one receiver at most as often. */
#define OTHER_MAC_NS 100000000

/*
 * Feedback from another link-layer address than the neighbour entry has: the receiver has another NIC now, or another host uses its
 * name. Nothing is learned from data: the agent solicits the receiver, and the kernel believes what that answers.
 */
static __noinline int compare_link_layer(canopy_ctx *ctx, const struct canopy_addr *receiver, __u32 group_id, __u32 slot)
{
	struct canopy_neighbour *known = bpf_map_lookup_elem(&neighbours, receiver);
	struct macs macs __attribute__((aligned(8))) = {};
	const __u16 *from = (const __u16 *)macs.src, *to;
	__u64 now;

	if (!known || ctx_read(ctx, 0, &macs))
		return 0;
	to = (const __u16 *)known->mac;
	if (from[0] == to[0] && from[1] == to[1] && from[2] == to[2])
		return 0;
	now = bpf_ktime_get_ns();
	if (known->reported_ns && now - known->reported_ns < OTHER_MAC_NS)
		return 0;
	known->reported_ns = now;
	emit_event(EVENT_OTHER_MAC, group_id, slot, 0, now);
	return 0;
}

/* Accepted from a current branch only, on the port of that branch (decisions 3.1) and to the Designated QPN. */
SEC("tc")
int canopy_feedback(struct __sk_buff *skb)
{
	const struct canopy_group *g = entered_for(skb);
	struct canopy_peer_key key = {};
	struct canopy_peer *peer;
	struct roce h = {};

	if (!g)
		return count_drop(0, DROP_GROUP_UNKNOWN);
	if (ctx_read(skb, ETH_LEN, &h.ip6) || ctx_read(skb, ETH_LEN + IP6_LEN, &h.udp) ||
	    ctx_read(skb, ETH_LEN + IP6_LEN + UDP_LEN, &h.bth) || h.udp.len != h.ip6.payload_len ||
	    ETH_LEN + IP6_LEN + bpf_ntohs(h.ip6.payload_len) > ctx_len(skb))
		return count_drop(g->group_id, DROP_TRUNCATED);
	key.group_id = g->group_id;
	key.address = h.ip6.src;
	peer = bpf_map_lookup_elem(&peers, &key);
	if (!peer)
		return count_drop(g->group_id, DROP_BRANCH_UNKNOWN);
	if (peer->ifindex != ctx_port(skb))
		return count_drop(g->group_id, DROP_WRONG_PORT);
	if (bth_qpn(&h.bth) != g->dqpn)
		return count_drop(g->group_id, DROP_FEEDBACK_MALFORMED);
	if (slot_in(&g->receivers, peer->slot))
		compare_link_layer(skb, &key.address, g->group_id, peer->slot);
	if (h.bth.opcode == OP_ACK) {
		struct canopy_feedback out = {};
		int verdict = feedback_ack(skb, g, &h, peer->slot, &out);

		/* Sending here and not in feedback_ack() keeps two frames off the BPF stack. */
		return verdict >= 0 ? verdict : send_upstream(skb, g, &out);
	}
	if (h.bth.opcode == OP_CNP) {
		int verdict = feedback_cnp(skb, g, &h, peer->slot);

		return verdict >= 0 ? verdict : send_cnp(skb, g);
	}
	return count_drop(g->group_id, DROP_FEEDBACK_MALFORMED);
}

#endif
