/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Role: an ACK, NAK or CNP of a branch is received, and at most one packet is sent upstream. */
#ifndef CANOPY_FEEDBACK_H
#define CANOPY_FEEDBACK_H

#include "event.h"
#include "roles.h"
#include "upstream.h"

#define CNP_PAYLOAD (UDP_LEN + BTH_LEN + CNP_LEN + ICRC_LEN)

/* Input of the ICRC, with the variant fields set to ones. */
struct icrc_input {
	__u64 lrh;
	struct ip6 ip6;
	struct udp udp;
	struct bth bth;
	__u8 rest[CNP_LEN];
};

#define ICRC_BEFORE_REST offsetof(struct icrc_input, rest)

/* Whether the ICRC of feedback with `rest` bytes between BTH and ICRC is right. A global function: verified once. */
__noinline int canopy_icrc_ok(struct __sk_buff *ctx, const struct roce *h, __u32 rest)
{
	struct icrc_input in = {};
	const __u8 *bytes = (const __u8 *)&in;
	__u32 crc = ~0u, wire;

	if (!h)
		return false;
	in.lrh = ~0ULL;
	in.ip6 = h->ip6;
	in.udp = h->udp;
	in.bth = h->bth;
	in.ip6.vtf |= bpf_htonl(0x0FFFFFFF);
	in.ip6.hop_limit = 0xFF;
	in.udp.check = 0xFFFF;
	in.bth.qpn |= bpf_htonl(0xFF000000);
	if (rest == AETH_LEN) {
		if (ctx_load(ctx, ROCE_LEN, in.rest, AETH_LEN))
			return false;
	} else {
		rest = CNP_LEN;
		if (ctx_load(ctx, ROCE_LEN, in.rest, CNP_LEN))
			return false;
	}
	if (ctx_load(ctx, ROCE_LEN + rest, &wire, ICRC_LEN))
		return false;
	for (__u32 i = 0; i < ICRC_BEFORE_REST + CNP_LEN; i++) {
		if (i >= ICRC_BEFORE_REST + rest)
			break;
		crc = crc_byte(crc, bytes[i]);
	}
	return bpf_htonl(__builtin_bswap32(wire)) == ~crc;
}

/* Records the time of the last accepted feedback of a branch. */
static __always_inline void note_received(__u32 group_id, __u32 slot, __u64 now)
{
	struct canopy_slot_key key = { .group_id = group_id, .slot = slot };
	struct canopy_branch_stats *s = bpf_map_lookup_elem(&stats, &key);

	if (s)
		s->last_received_ns = now;
}

/* ACK or NAK, by the AETH syndrome. Returns -1 if it was accepted and `out` is what to send upstream, otherwise a verdict. */
static __noinline int feedback_ack(canopy_ctx *ctx, const struct canopy_group *g, const struct roce *h, __u32 slot,
				   struct canopy_feedback *out)
{
	struct canopy_state *s = bpf_map_lookup_elem(&states, &g->group_id);
	__u64 now = bpf_ktime_get_ns();
	struct canopy_received received = { .slot = slot, .epoch = bpf_ntohs(h->udp.sport), .psn = bth_psn(&h->bth) };
	__u32 drop, syndrome;
	__be32 aeth;

	if (!s)
		return count_drop(g->group_id, DROP_STATE_MISSING);
	if (h->ip6.payload_len != bpf_htons(ACK_PAYLOAD) || ctx_load(ctx, ROCE_LEN, &aeth, AETH_LEN))
		return count_drop(g->group_id, DROP_FEEDBACK_MALFORMED);
	if (!canopy_icrc_ok(ctx, h, AETH_LEN))
		return count_drop(g->group_id, DROP_FEEDBACK_ICRC);
	syndrome = bpf_ntohl(aeth) >> 24;
	received.msn = bpf_ntohl(aeth) & 0xFFFFFF;
	if (syndrome >= 0x61 && syndrome <= 0x64) {
		emit_event(EVENT_FATAL_NAK, g->group_id, slot, syndrome, now);
		return count_drop(g->group_id, DROP_NAK_FATAL);
	}
	if (syndrome >> 5 == 0) {
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
	note_received(g->group_id, slot, now);
	return -1;
}

/* The next CNP opens a window, in which no branch has a CNP yet. */
static __always_inline void close_window(struct canopy_cnp *c)
{
	c->best_count = 0;
	c->running = 0;
	c->window += 1;
}

/* Timer: ends the CNP window. User space sends one CNP, for the branch with the highest count. */
static int cnp_window_ends(void *map, __u32 *group_id, struct canopy_cnp *c)
{
	struct canopy_state *s = bpf_map_lookup_elem(&states, group_id);
	__u32 id = *group_id, slot, count;

	if (!s)
		return 0;
	bpf_spin_lock(&s->lock);
	slot = c->best_slot;
	count = c->best_count;
	close_window(c);
	if (count)
		c->cnps_out += 1;
	bpf_spin_unlock(&s->lock);
	if (count)
		emit_event(EVENT_CNP, id, slot, count, bpf_ktime_get_ns());
	return 0;
}

/*
 * A CNP of a branch opens a window, or is counted in the open one. One CNP goes upstream per window: at its end, or at its start if
 * the kernel has no memory for a timer at that moment, which can last as long as the congestion.
 */
static __noinline int feedback_cnp(canopy_ctx *ctx, const struct canopy_group *g, const struct roce *h, __u32 slot)
{
	struct canopy_state *s = bpf_map_lookup_elem(&states, &g->group_id);
	struct canopy_cnp *c = bpf_map_lookup_elem(&cnps, &g->group_id);
	__u64 now = bpf_ktime_get_ns();
	bool start = false, fast;

	if (!s || !c)
		return count_drop(g->group_id, DROP_STATE_MISSING);
	if (h->ip6.payload_len != bpf_htons(CNP_PAYLOAD))
		return count_drop(g->group_id, DROP_FEEDBACK_MALFORMED);
	if (!canopy_icrc_ok(ctx, h, CNP_LEN))
		return count_drop(g->group_id, DROP_FEEDBACK_ICRC);
	slot &= SLOT_MASK;
	bpf_spin_lock(&s->lock);
	fast = c->slot_last_ns[slot] && now - c->slot_last_ns[slot] < g->cnp_min_ns;
	if (!fast) {
		if (c->running && now >= c->ends_ns)
			close_window(c);
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
		start = !c->running;
		if (start) {
			c->running = 1;
			/* A timer may be late by a window before it counts as lost. */
			c->ends_ns = now + 2 * g->cnp_window_ns;
		}
	}
	bpf_spin_unlock(&s->lock);
	if (fast)
		return count_drop(g->group_id, DROP_CNP_RATE);
	note_received(g->group_id, slot, now);
	if (!start)
		return CTX_DROP;
	/* The timer is allocated with the first CNP of a group; that allocation can fail. */
	bpf_timer_init(&c->timer, &cnps, 1 /* CLOCK_MONOTONIC */);
	if (!bpf_timer_set_callback(&c->timer, cnp_window_ends) && !bpf_timer_start(&c->timer, g->cnp_window_ns, 0))
		return CTX_DROP;
	bpf_spin_lock(&s->lock);
	c->ends_ns = now + g->cnp_window_ns;
	c->cnps_out += 1;
	bpf_spin_unlock(&s->lock);
	emit_event(EVENT_CNP, g->group_id, slot, 1, now);
	return count_drop(g->group_id, DROP_CNP_TIMER);
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
	if (ctx_load(skb, 0, h.eth, ROCE_LEN) || h.udp.len != h.ip6.payload_len ||
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
	if (h.bth.opcode == OP_ACK) {
		struct canopy_feedback out = {};
		int verdict = feedback_ack(skb, g, &h, peer->slot, &out);

		/* Sending here and not in feedback_ack() keeps two frames off the BPF stack. */
		return verdict >= 0 ? verdict : send_upstream(skb, g, &out);
	}
	if (h.bth.opcode == OP_CNP)
		return feedback_cnp(skb, g, &h, peer->slot);
	return count_drop(g->group_id, DROP_FEEDBACK_MALFORMED);
}

#endif
