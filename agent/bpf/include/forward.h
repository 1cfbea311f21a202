/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Downstream: one packet in, one copy per branch out. Encapsulated copies to child nodes are sent
 * first; then the outer header is removed once, and each receiver here gets its copy.
 */
#ifndef CANOPY_FORWARD_H
#define CANOPY_FORWARD_H

/* A packet that is being replicated. */
struct down {
	canopy_ctx *ctx;
	const struct canopy_group *g;
	struct canopy_slots todo;	/* branches that still need a copy */
	struct roce head;		/* inner headers as received */
	__u32 l3_len;			/* current length of the packet */
	__u32 ready;			/* output port of the copy that the packet holds now; 0 = none */
	__u32 outer_len;		/* outer IPv6 + SRH; 0 = plain */
	__u32 tail;			/* bytes between BTH and ICRC */
	__u32 icrc;			/* as sent by the source */
	__be32 psn;			/* as sent by the source, with AckReq */
	__u16 udp_check;		/* as sent by the source */
	__u64 va;			/* RETH, if the opcode has one */
	__u32 rkey;
	__u32 dma_len;
};

/* Position of the lowest bit set in a non-zero word, by halving. */
static __always_inline __u32 lowest_bit(__u64 w)
{
	__u32 n = 0;

	if (!(w & 0xFFFFFFFF)) {
		n += 32;
		w >>= 32;
	}
	if (!(w & 0xFFFF)) {
		n += 16;
		w >>= 16;
	}
	if (!(w & 0xFF)) {
		n += 8;
		w >>= 8;
	}
	if (!(w & 0xF)) {
		n += 4;
		w >>= 4;
	}
	if (!(w & 3)) {
		n += 2;
		w >>= 2;
	}
	return n + !(w & 1);
}

/* Removes the lowest slot from the set; false if the set is empty. */
static __always_inline bool slots_take(struct canopy_slots *s, __u32 *slot)
{
	if (s->word[0]) {
		*slot = lowest_bit(s->word[0]);
		s->word[0] &= s->word[0] - 1;
		return true;
	}
	if (s->word[1]) {
		*slot = 64 + lowest_bit(s->word[1]);
		s->word[1] &= s->word[1] - 1;
		return true;
	}
	return false;
}

/* Sends the finished copy as a clone, because the packet is needed for another one. */
static __always_inline void flush(struct down *d)
{
	if (d->ready) {
		ctx_copy_to(d->ctx, d->ready);
		d->ready = 0;
	}
}

static __always_inline void count_copy(const struct down *d, __u32 slot)
{
	struct canopy_slot_key key = { .group_id = d->g->group_id, .slot = slot };
	struct canopy_branch_stats *s = bpf_map_lookup_elem(&stats, &key);

	if (s) {
		__sync_fetch_and_add(&s->packets, 1);
		__sync_fetch_and_add(&s->bytes, d->l3_len);
	}
}

static __always_inline const struct canopy_branch *next_branch(struct down *d, __u32 *slot, __u8 *macs, bool *more)
{
	struct canopy_slot_key key = { .group_id = d->g->group_id };
	const struct canopy_branch *b;
	__u32 drop;

	*more = slots_take(&d->todo, slot);
	if (!*more)
		return NULL;
	key.slot = *slot;
	b = bpf_map_lookup_elem(&branches, &key);
	if (!b) {
		count_drop(d->g->group_id, DROP_STATE_MISSING);
		return NULL;
	}
	drop = resolve(d->ctx, b->ifindex, &b->address, d->l3_len, macs);
	if (drop) {
		count_drop(d->g->group_id, drop);
		return NULL;
	}
	return b;
}

/* RFC 9524: the outer Destination Address becomes the child's SID; Segments Left stays. */
static long copy_to_child(__u32 i, struct down *d)
{
	__u8 macs[12];
	__u32 slot;
	bool more;
	const struct canopy_branch *b = next_branch(d, &slot, macs, &more);

	if (!b)
		return !more;
	flush(d);
	ctx_store(d->ctx, 0, macs, sizeof(macs));
	ctx_store(d->ctx, ETH_LEN + 24, &b->dst, sizeof(b->dst));
	d->ready = b->ifindex;
	count_copy(d, slot);
	return 0;
}

/* The kernel's multicast route makes this copy; here it is only counted. */
static long count_child(__u32 i, struct down *d)
{
	__u32 slot;

	if (!slots_take(&d->todo, &slot))
		return 1;
	count_copy(d, slot);
	return 0;
}

/*
 * Leaves the child nodes to the kernel's multicast route. True if the packet itself goes to the kernel, false if a copy of it was
 * sent because the packet is needed here.
 */
static __noinline int kernel_serves_children(struct down *d, __u64 needed)
{
	bpf_loop(CANOPY_MAX_BRANCHES, count_child, d, 0);
	if (!needed)
		return 1;
	if (ctx_copy_to_kernel(d->ctx))
		count_drop(d->g->group_id, DROP_NO_ROOM);
	return 0;
}

/* Adds to `delta`, the CRC register difference after the BTH, that of a changed last word of the BTH. */
static __always_inline __u32 word_delta(__u32 delta, __u32 word_xor)
{
	__u32 own = 0;

	for (int i = 24; i >= 0; i -= 8)
		own = crc_byte(own, word_xor >> i & 0xFF);
	return delta ^ own;
}

/* What is subtracted from the group's PSNs in copies to a late receiver. */
static __always_inline __u32 shift_of(const struct down *d, __u32 slot)
{
	const struct canopy_state *s = bpf_map_lookup_elem(&states, &d->g->group_id);

	return s ? s->shift[slot & SLOT_MASK] : 0;
}

/* Continues `delta`, the CRC register difference after the BTH, over a changed VA and R_Key. */
static __noinline __u32 reth_delta(__u32 delta, __u64 va_xor, __u32 rkey_xor)
{
	for (int i = 56; i >= 0; i -= 8)
		delta = crc_byte(delta, va_xor >> i & 0xFF);
	for (int i = 24; i >= 0; i -= 8)
		delta = crc_byte(delta, rkey_xor >> i & 0xFF);
	return delta;
}

/* 32-bit words that differ in a copy, apart from the addresses and the PSN: DestQP, VA (2), R_Key, ICRC. */
#define CHANGED_WORDS 5

/* RFC 1624: updates the UDP checksum for all changes of a copy; 0 is sent as all ones (RFC 768). */
static __noinline __u16 udp_check_of(struct down *d, const struct canopy_branch *b, __be32 *old, __be32 *new)
{
	const struct canopy_group *g = d->g;
	__u64 sum = bpf_csum_diff((__be32 *)&g->source, 16, (__be32 *)&g->proxy, 16, (__u16)~d->udp_check);

	sum = bpf_csum_diff(&d->psn, 4, &d->head.bth.psn, 4, sum);
	sum = bpf_csum_diff((__be32 *)&g->proxy, 16, (__be32 *)&b->dst, 16, sum);
	sum = bpf_csum_diff(old, 4 * CHANGED_WORDS, new, 4 * CHANGED_WORDS, sum);
	sum = (sum & 0xFFFF) + (sum >> 16);
	sum = (sum & 0xFFFF) + (sum >> 16);
	return ~sum & 0xFFFF ?: 0xFFFF;
}

/* Decisions 2.4: SA = Proxy Address, DA = receiver, DestQP = the receiver's; the ICRC is updated by difference. */
static __noinline int write_receiver(struct down *d, const struct canopy_branch *b, const __u8 *macs, __u32 shift)
{
	const struct canopy_group *g = d->g;
	struct roce *h = &d->head;
	__be32 old[CHANGED_WORDS] = { bpf_htonl(g->dqpn), 0, 0, 0, d->icrc };
	__be32 new[CHANGED_WORDS] = { bpf_htonl(b->qpn) };
	__u32 diff = b->icrc_delta, tail = d->tail;

	h->bth.psn = d->psn;
	if (shift) {
		__u32 was = bpf_ntohl(d->psn), is = (was & 0xFF000000) | ((was - shift) & 0xFFFFFF);

		h->bth.psn = bpf_htonl(is);
		diff = word_delta(diff, was ^ is);
	}

	__builtin_memcpy(h->eth, macs, 12);
	h->eth[12] = 0x86;
	h->eth[13] = 0xDD;
	h->ip6.src = g->proxy;
	h->ip6.dst = b->dst;
	h->bth.qpn = (h->bth.qpn & bpf_htonl(0xFF000000)) | new[0];
	h->udp.check = d->udp_check;
	if (op_has_reth(h->bth.opcode)) {
		__u64 va = d->va - g->write_base + b->va;

		old[1] = bpf_htonl(d->va >> 32);
		old[2] = bpf_htonl((__u32)d->va);
		old[3] = bpf_htonl(d->rkey);
		new[1] = bpf_htonl(va >> 32);
		new[2] = bpf_htonl((__u32)va);
		new[3] = bpf_htonl(b->rkey);
		diff = reth_delta(diff, va ^ d->va, b->rkey ^ d->rkey);
		tail -= 12;
		if (ctx_store(d->ctx, ROCE_LEN, &new[1], 12))
			return -1;
	}
	/* The ICRC is little endian on the wire; the CRC register is its numeric value. */
	new[4] = d->icrc ^ __builtin_bswap32(bpf_htonl(icrc_shift(diff, tail)));
	if (d->udp_check)
		h->udp.check = udp_check_of(d, b, old, new);
	if (ctx_store(d->ctx, ROCE_LEN + d->tail, &new[4], ICRC_LEN))
		return -1;
	return ctx_store(d->ctx, 0, h->eth, ROCE_LEN);
}

static long copy_to_receiver(__u32 i, struct down *d)
{
	__u8 macs[12];
	__u32 slot;
	bool more;
	const struct canopy_branch *b = next_branch(d, &slot, macs, &more);

	if (!b)
		return !more;
	flush(d);
	if (write_receiver(d, b, macs, shift_of(d, slot))) {
		count_drop(d->g->group_id, DROP_TRUNCATED);
		return 0;
	}
	d->ready = b->ifindex;
	count_copy(d, slot);
	return 0;
}

/* Reads the inner packet, whose IPv6 header is at `off`, and checks that it is data of this group. Returns 0 or a drop reason. */
static __noinline __u32 read_inner(struct down *d, __u32 off)
{
	struct roce *h = &d->head;
	__be32 reth[4];
	__u32 len, at;

	if (ctx_load(d->ctx, off - ETH_LEN, h->eth, ROCE_LEN))
		return DROP_TRUNCATED;
	len = bpf_ntohs(h->ip6.payload_len);
	if (bpf_ntohl(h->ip6.vtf) >> 28 != 6 || h->ip6.nexthdr != NEXTHDR_UDP || h->udp.dport != bpf_htons(ROCE_PORT) ||
	    h->udp.len != h->ip6.payload_len || len < UDP_LEN + BTH_LEN + ICRC_LEN || (h->bth.flags & 0x0F))
		return DROP_INNER_MALFORMED;
	if (off + IP6_LEN + len > ctx_len(d->ctx))
		return DROP_TRUNCATED;
	if (!addr_eq(&h->ip6.dst, &d->g->proxy))
		return DROP_INNER_MALFORMED;
	if (!addr_eq(&h->ip6.src, &d->g->source) || bth_qpn(&h->bth) != d->g->dqpn)
		return DROP_SOURCE_UNREGISTERED;
	if (!op_multicast(h->bth.opcode))
		return DROP_OPCODE_REFUSED;
	if (h->ip6.hop_limit <= 1)
		return DROP_HOP_LIMIT;
	d->udp_check = h->udp.check;
	d->psn = h->bth.psn;
	d->tail = len - UDP_LEN - BTH_LEN - ICRC_LEN;
	if (d->tail >= CANOPY_MAX_TAIL)
		return DROP_MTU;
	at = off + IP6_LEN + UDP_LEN + BTH_LEN;
	if (ctx_load(d->ctx, at + d->tail, &d->icrc, ICRC_LEN))
		return DROP_TRUNCATED;
	if (op_has_reth(h->bth.opcode)) {
		if (d->tail < RETH_LEN || ctx_load(d->ctx, at, reth, RETH_LEN))
			return DROP_INNER_MALFORMED;
		d->va = (__u64)bpf_ntohl(reth[0]) << 32 | bpf_ntohl(reth[1]);
		d->rkey = bpf_ntohl(reth[2]);
		d->dma_len = bpf_ntohl(reth[3]);
	}
	return 0;
}

/* Decisions 2.8: an RDMA WRITE must fit the smallest memory region that the receivers here registered. */
static __always_inline bool write_allowed(const struct down *d)
{
	__u64 at = d->va - d->g->write_base;

	return !op_has_reth(d->head.bth.opcode) ||
	       (d->rkey == d->g->write_rkey && at <= d->g->write_length && d->dma_len <= d->g->write_length - at);
}

/*
 * Sends the copies to child nodes, then to the receivers in `here`. The packet is encapsulated if d->outer_len is not 0. If the
 * kernel replicates to child nodes, it gets the packet itself, or a copy if receivers here need the packet too.
 */
static __always_inline int send_down(struct down *d, const struct canopy_slots *to, const struct canopy_slots *here)
{
	struct canopy_slots receivers;

	d->todo.word[0] = d->g->children.word[0] & (to->word[0] | d->g->standby.word[0]);
	d->todo.word[1] = d->g->children.word[1] & (to->word[1] | d->g->standby.word[1]);
	receivers.word[0] = here->word[0] & to->word[0] & d->g->receivers.word[0];
	receivers.word[1] = here->word[1] & to->word[1] & d->g->receivers.word[1];
	if (d->todo.word[0] | d->todo.word[1]) {
		if (!(d->g->flags & GROUP_MULTICAST))
			bpf_loop(CANOPY_MAX_BRANCHES, copy_to_child, d, 0);
		else if (kernel_serves_children(d, receivers.word[0] | receivers.word[1]))
			return TC_ACT_OK;
	}
	if (receivers.word[0] | receivers.word[1]) {
		flush(d);
		d->ready = 0;	/* 0 already after flush(), but set again: one state for the verifier */
		if (d->outer_len && ctx_resize(d->ctx, -(__s32)d->outer_len))
			return count_drop(d->g->group_id, DROP_NO_ROOM);
		d->outer_len = 0;
		d->l3_len = IP6_LEN + bpf_ntohs(d->head.ip6.payload_len);
		d->todo = receivers;
		bpf_loop(CANOPY_MAX_BRANCHES, copy_to_receiver, d, 0);
	}
	return d->ready ? ctx_send_to(d->ctx, d->ready) : TC_ACT_SHOT;
}

#endif
