/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Reverse path: a branch's ACK, NAK or CNP comes in; at most one packet goes upstream. */
#ifndef CANOPY_FEEDBACK_H
#define CANOPY_FEEDBACK_H

/* A whole ACK packet. */
struct ack_frame {
	ROCE_FIELDS;
	__be32 aeth;
	__u32 icrc;		/* little endian on the wire */
};

#define ACK_PAYLOAD (UDP_LEN + BTH_LEN + AETH_LEN + ICRC_LEN)
#define CNP_PAYLOAD (UDP_LEN + BTH_LEN + CNP_LEN + ICRC_LEN)

/* What the ICRC covers, with the fields that change on the way set to ones. */
struct icrc_input {
	__u64 lrh;
	struct ip6 ip6;
	struct udp udp;
	struct bth bth;
	__u8 rest[CNP_LEN];
};

#define ICRC_BEFORE_REST offsetof(struct icrc_input, rest)

static __noinline bool feedback_icrc_ok(canopy_ctx *ctx, const struct roce *h, __u32 rest)
{
	struct icrc_input in = { .lrh = ~0ULL, .ip6 = h->ip6, .udp = h->udp, .bth = h->bth };
	const __u8 *bytes = (const __u8 *)&in;
	__u32 crc = ~0u, wire;

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

/* Makes the packet the upstream ACK or NAK that `say` asks for; 0, or a drop reason. */
static __noinline __u32 write_upstream(canopy_ctx *ctx, const struct canopy_group *g, const struct canopy_speech *say)
{
	struct ack_frame f = {};
	const __u8 *tail = (const __u8 *)&f.bth.psn;
	__u32 crc = g->ack_seed;
	__u32 drop = resolve(ctx, g->up_ifindex, &g->up_da, IP6_LEN + ACK_PAYLOAD, f.eth);

	if (drop)
		return drop;
	f.eth[12] = 0x86;
	f.eth[13] = 0xDD;
	f.ip6.vtf = bpf_htonl(0x60000000);
	f.ip6.payload_len = bpf_htons(ACK_PAYLOAD);
	f.ip6.nexthdr = NEXTHDR_UDP;
	f.ip6.hop_limit = 64;
	f.ip6.src = g->up_sa;
	f.ip6.dst = g->up_da;
	f.udp.sport = bpf_htons(g->up_sport);
	f.udp.dport = bpf_htons(ROCE_PORT);
	f.udp.len = bpf_htons(ACK_PAYLOAD);
	f.bth.opcode = OP_ACK;
	f.bth.flags = 0x40;	/* MigReq: migrated, as every endpoint sends it */
	f.bth.pkey = 0xFFFF;
	f.bth.qpn = bpf_htonl(g->up_qpn);
	f.bth.psn = bpf_htonl(say->psn);
	f.aeth = bpf_htonl(say->syndrome << 24 | say->msn);
#pragma unroll
	for (int i = 0; i < 8; i++)
		crc = crc_byte(crc, tail[i]);
	f.icrc = __builtin_bswap32(bpf_htonl(~crc));
	return ctx_store(ctx, 0, f.eth, ETH_LEN + IP6_LEN + ACK_PAYLOAD) ? DROP_TRUNCATED : 0;
}

static __always_inline int speak(canopy_ctx *ctx, const struct canopy_group *g, const struct canopy_speech *say)
{
	__u32 drop;

	if (say->what == SPEAK_NOTHING)
		return TC_ACT_SHOT;	/* merged: nothing lost, nothing to count */
	drop = write_upstream(ctx, g, say);
	if (drop)
		return count_drop(g->group_id, drop);
	return ctx_send_to(ctx, g->up_ifindex);
}

static __noinline int tell_event(const struct canopy_event *e)
{
	return bpf_ringbuf_output(&events, (void *)e, sizeof(*e), 0);
}

static __always_inline void tell(__u32 kind, __u32 group_id, __u32 slot, __u32 value, __u64 now)
{
	struct canopy_event e = { .time_ns = now, .kind = kind, .group_id = group_id, .slot = slot, .value = value };

	tell_event(&e);
}

/* The branch lives: it said something that was accepted. */
static __always_inline void note_heard(__u32 group_id, __u32 slot, __u64 now)
{
	struct canopy_slot_key key = { .group_id = group_id, .slot = slot };
	struct canopy_branch_stats *s = bpf_map_lookup_elem(&stats, &key);

	if (s)
		s->last_heard_ns = now;
}

/* ACK, NAK: the AETH says which. */
static __noinline int feedback_ack(canopy_ctx *ctx, const struct canopy_group *g, const struct roce *h, __u32 slot,
				   struct canopy_speech *out)
{
	struct canopy_state *s = bpf_map_lookup_elem(&states, &g->group_id);
	__u64 now = bpf_ktime_get_ns();
	struct canopy_heard heard = { .slot = slot, .epoch = bpf_ntohs(h->udp.sport), .psn = bth_psn(&h->bth) };
	__u32 drop, syndrome;
	__be32 aeth;

	if (!s)
		return count_drop(g->group_id, DROP_STATE_MISSING);
	if (h->ip6.payload_len != bpf_htons(ACK_PAYLOAD) || ctx_load(ctx, ROCE_LEN, &aeth, AETH_LEN))
		return count_drop(g->group_id, DROP_FEEDBACK_MALFORMED);
	if (!feedback_icrc_ok(ctx, h, AETH_LEN))
		return count_drop(g->group_id, DROP_FEEDBACK_ICRC);
	syndrome = bpf_ntohl(aeth) >> 24;
	heard.msn = bpf_ntohl(aeth) & 0xFFFFFF;
	if (syndrome >= 0x61 && syndrome <= 0x64) {
		tell(EVENT_FATAL_NAK, g->group_id, slot, syndrome, now);
		return count_drop(g->group_id, DROP_NAK_FATAL);
	}
	if (syndrome >> 5 == 0) {
		bpf_spin_lock(&s->lock);
		drop = heard_ack(s, g, &heard, syndrome & 0x1F, now, out);
		bpf_spin_unlock(&s->lock);
	} else if (syndrome == 0x60 || syndrome >> 5 == 1) {
		__u32 timer = syndrome & 0x1F;
		__u32 kind = syndrome == 0x60 ? KIND_NAK : (timer ? 32 - timer : 0);

		bpf_spin_lock(&s->lock);
		drop = heard_nak(s, g, &heard, kind, now, out);
		bpf_spin_unlock(&s->lock);
	} else {
		drop = DROP_FEEDBACK_MALFORMED;
	}
	if (drop)
		return count_drop(g->group_id, drop);
	note_heard(g->group_id, slot, now);
	return -1;
}

/* The window ended: one CNP for the branch that complained most, spoken from user space. */
static int cnp_window_ends(void *map, __u32 *group_id, struct canopy_cnp *c)
{
	struct canopy_state *s = bpf_map_lookup_elem(&states, group_id);
	__u32 id = *group_id, slot, count;

	if (!s)
		return 0;
	bpf_spin_lock(&s->lock);
	slot = c->best_slot;
	count = c->best_count;
	c->best_count = 0;
	c->running = 0;
	c->window += 1;
	c->cnps_out += 1;
	bpf_spin_unlock(&s->lock);
	tell(EVENT_CNP, id, slot, count, bpf_ktime_get_ns());
	return 0;
}

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
	if (!feedback_icrc_ok(ctx, h, CNP_LEN))
		return count_drop(g->group_id, DROP_FEEDBACK_ICRC);
	slot &= SLOT_MASK;
	bpf_spin_lock(&s->lock);
	fast = c->slot_last_ns[slot] && now - c->slot_last_ns[slot] < g->cnp_min_ns;
	if (!fast) {
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
		c->running = 1;
	}
	bpf_spin_unlock(&s->lock);
	if (fast)
		return count_drop(g->group_id, DROP_CNP_RATE);
	note_heard(g->group_id, slot, now);
	if (!start)
		return TC_ACT_SHOT;
	/* Only the first CNP of a group makes the timer; the kernel may be out of memory for it at that moment. */
	bpf_timer_init(&c->timer, &cnps, 1 /* CLOCK_MONOTONIC */);
	if (!bpf_timer_set_callback(&c->timer, cnp_window_ends) && !bpf_timer_start(&c->timer, g->cnp_window_ns, 0))
		return TC_ACT_SHOT;
	/* The next CNP tries again: a window that never ends would silence the group. */
	bpf_spin_lock(&s->lock);
	c->running = 0;
	bpf_spin_unlock(&s->lock);
	return count_drop(g->group_id, DROP_CNP_TIMER);
}

/*
 * RoCEv2 that is not the source's data: from a current branch on its own port (decisions 3.1), addressed to the
 * Designated QPN, or nothing at all.
 */
static __noinline int feedback(canopy_ctx *ctx, const struct canopy_group *g)
{
	struct canopy_peer_key key = { .group_id = g->group_id };
	struct canopy_peer *peer;
	struct roce h;

	if (ctx_load(ctx, 0, h.eth, ROCE_LEN) || h.udp.len != h.ip6.payload_len ||
	    ETH_LEN + IP6_LEN + bpf_ntohs(h.ip6.payload_len) > ctx_len(ctx))
		return count_drop(g->group_id, DROP_TRUNCATED);
	key.address = h.ip6.src;
	peer = bpf_map_lookup_elem(&peers, &key);
	if (!peer)
		return count_drop(g->group_id, DROP_BRANCH_UNKNOWN);
	if (peer->ifindex != ctx_port(ctx))
		return count_drop(g->group_id, DROP_WRONG_PORT);
	if (bth_qpn(&h.bth) != g->dqpn)
		return count_drop(g->group_id, DROP_FEEDBACK_MALFORMED);
	if (h.bth.opcode == OP_ACK) {
		struct canopy_speech out = {};
		int verdict = feedback_ack(ctx, g, &h, peer->slot, &out);

		/* Spoken from here: two frames fewer on the stack than from in there. */
		return verdict >= 0 ? verdict : speak(ctx, g, &out);
	}
	if (h.bth.opcode == OP_CNP)
		return feedback_cnp(ctx, g, &h, peer->slot);
	return count_drop(g->group_id, DROP_FEEDBACK_MALFORMED);
}

#endif
