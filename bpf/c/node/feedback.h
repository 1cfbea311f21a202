/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Role: an ACK, NAK or CNP of a branch is received, and at most one packet is sent upstream. */
#ifndef CANOPY_FEEDBACK_H
#define CANOPY_FEEDBACK_H

#include "cnp.h"
#include "event.h"
#include "roles.h"
#include "upstream.h"

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
	bool opens = false, ended = false, forgotten = false, fast;

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
		/* The agent closes a window before that, if it knows of it. */
		forgotten = now > c->ends_ns + g->cnp_window_ns;
		ended = cnp_window_close(c, now);
		opens = !c->running;
		if (opens) {
			c->running = 1;
			c->ends_ns = now + g->cnp_window_ns;
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
	if (fast)
		return count_drop(g->group_id, DROP_CNP_RATE);
	s->stats[slot].last_received_ns = now;
	/* While windows follow each other, the agent checks the group again by itself; it may have been dead, or have missed the event. */
	if (opens && (!ended || forgotten))
		emit_event(EVENT_CNP, g->group_id, slot, 0, now);
	return ended ? -1 : CTX_DROP;
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
	if (h.bth.opcode == OP_CNP) {
		int verdict = feedback_cnp(skb, g, &h, peer->slot);

		return verdict >= 0 ? verdict : send_cnp(skb, g);
	}
	return count_drop(g->group_id, DROP_FEEDBACK_MALFORMED);
}

#endif
