/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Copies of a decided packet, one per branch: encapsulated ones to child nodes first, then the outer header is removed once and each
 * receiver here gets its copy. The last copy is the packet itself.
 */
#ifndef CANOPY_COPY_H
#define CANOPY_COPY_H

#include "../common/ctx_tc.h"
#include "decision.h"
#include "drop.h"
#include "maps.h"
#include "prepared.h"

/*
 * A packet that is being copied. What one turn of the loop leaves to the next must be unknown to the verifier at the start, as values in
 * maps are: Linux before 6.7 verifies the callback of a loop once, with what is on the stack then, and removes what it takes for dead.
 */
struct copies {
	canopy_ctx *ctx;
	struct decision *d;
	struct canopy_state *s;
	struct canopy_slots todo;	/* branches that still need a copy */
	__u32 slot;			/* of the branch whose copy is being made */
	struct prepared *to;		/* what that copy needs */
};

/* Sends the finished copy as a clone, because the packet is needed for another one. */
static __always_inline void flush(struct copies *c)
{
	if (c->d->ready) {
		ctx_copy_to(c->ctx, c->d->ready);
		c->d->ready = 0;
	}
}

static __always_inline void count_copy(const struct copies *c)
{
	struct canopy_branch_stats *stats = &c->s->stats[c->slot & SLOT_MASK];

	__sync_fetch_and_add(&stats->packets, 1);
	__sync_fetch_and_add(&stats->bytes, c->d->l3_len);
}

/* Finds the next branch and what its copy needs. False if there is no copy to make; `more`: there may be other branches. */
static __always_inline bool next_branch(struct copies *c, bool *more)
{
	__u32 drop = DROP_STATE_MISSING;

	*more = slots_take(&c->todo, &c->slot);
	if (!*more)
		return false;
	c->to = prepared_for(c->d->group_id, c->slot);
	if (c->to)
		drop = canopy_prepare(c->ctx, c->d, c->to, c->slot);
	if (drop) {
		count_drop(c->d->group_id, drop);
		return false;
	}
	return true;
}

/* RFC 9524: the outer Destination Address becomes the child's SID; Segments Left stays. */
static long copy_to_child(__u32 i, struct copies *c)
{
	bool more;

	if (!next_branch(c, &more))
		return !more;
	flush(c);
	ctx_write(c->ctx, 0, &c->to->hop.macs, sizeof(struct macs));
	ctx_write(c->ctx, ETH_LEN + 24, &c->to->branch.dst, sizeof(struct canopy_addr));
	c->d->ready = c->to->branch.ifindex;
	count_copy(c);
	return 0;
}

/* The kernel's multicast route makes this copy; here it is only counted. */
static long count_child(__u32 i, struct copies *c)
{
	if (!slots_take(&c->todo, &c->slot))
		return 1;
	count_copy(c);
	return 0;
}

/*
 * Leaves the child nodes to the kernel's multicast route. True if the packet itself goes to the kernel, false if a copy of it was
 * sent because the packet is needed here.
 */
static __always_inline bool kernel_serves_children(struct copies *c, bool needed)
{
	bpf_loop(CANOPY_MAX_BRANCHES, count_child, c, 0);
	if (!needed)
		return true;
	if (ctx_copy_to_kernel(c->ctx))
		count_drop(c->d->group_id, DROP_NO_ROOM);
	return false;
}

/* Continues `delta`, the CRC register difference after the BTH, over a changed VA and R_Key. */
static __always_inline __u32 reth_delta(__u32 delta, __u64 va_xor, __u32 rkey_xor)
{
	delta = crc_word(delta, bpf_htonl(va_xor >> 32));
	delta = crc_word(delta, bpf_htonl((__u32)va_xor));
	return crc_word(delta, bpf_htonl(rkey_xor));
}

/* 32-bit words that differ in a copy, apart from the addresses and the PSN: DestQP, VA (2), R_Key, ICRC. */
#define CHANGED_WORDS 5

/* RFC 1624: updates the UDP checksum of a copy, which is still that of the source, for all that changed. Returns 0, or -1. */
static __noinline int update_udp_check(canopy_ctx *ctx, struct decision *d, const struct canopy_branch *b, __be32 *old, __be32 *new)
{
	__s64 pseudo = bpf_csum_diff((__be32 *)&d->source, 16, (__be32 *)&d->proxy, 16, 0);
	__s64 covered = bpf_csum_diff(&d->psn, 4, &d->head.bth.psn, 4, 0);

	pseudo = bpf_csum_diff((__be32 *)&d->proxy, 16, (__be32 *)&b->dst, 16, pseudo);
	covered = bpf_csum_diff(old, 4 * CHANGED_WORDS, new, 4 * CHANGED_WORDS, covered);
	return ctx_update_udp_check(ctx, ETH_LEN + IP6_LEN + offsetof(struct udp, check), pseudo, covered) ? -1 : 0;
}

/*
 * Makes the packet the copy for one receiver (decisions 2.4): SA = Proxy Address, DA = receiver, DestQP = the receiver's; the ICRC is
 * updated by difference. `shift` is subtracted from the PSN. Returns 0, or -1 if the packet is too short.
 */
__noinline int canopy_write_receiver(struct __sk_buff *ctx, struct decision *d, struct prepared *p, __u32 shift)
{
	__be32 old[CHANGED_WORDS] = {}, new[CHANGED_WORDS] = {};
	const struct canopy_branch *b;
	struct roce *h;
	__u32 diff, tail;

	if (!d || !p)
		return -1;
	b = &p->branch;
	h = &d->head;
	diff = b->icrc_delta;
	tail = d->tail;
	old[0] = bpf_htonl(d->dqpn);
	old[4] = d->icrc;
	new[0] = bpf_htonl(b->qpn);
	h->bth.psn = d->psn;
	if (shift) {
		__u32 was = bpf_ntohl(d->psn), is = (was & ~PSN_MASK) | ((was - shift) & PSN_MASK);

		h->bth.psn = bpf_htonl(is);
		diff ^= crc_word(0, bpf_htonl(was ^ is));
	}
	__builtin_memcpy(h->eth, &p->hop.macs, sizeof(p->hop.macs));
	h->ip6.src = d->proxy;
	h->ip6.dst = b->dst;
	h->bth.qpn = (h->bth.qpn & bpf_htonl(~QPN_MASK)) | new[0];
	h->udp.check = d->udp_check;
	if (op_has_reth(h->bth.opcode)) {
		__u64 va = d->va - d->write_base + b->va;

		old[1] = bpf_htonl(d->va >> 32);
		old[2] = bpf_htonl((__u32)d->va);
		old[3] = bpf_htonl(d->rkey);
		new[1] = bpf_htonl(va >> 32);
		new[2] = bpf_htonl((__u32)va);
		new[3] = bpf_htonl(b->rkey);
		diff = reth_delta(diff, va ^ d->va, b->rkey ^ d->rkey);
		tail -= 12;
		if (ctx_write(ctx, ROCE_LEN, &new[1], 12))
			return -1;
	}
	new[4] = d->icrc ^ prepare_icrc(p, diff, tail);
	if (ctx_write(ctx, ROCE_LEN + d->tail, &new[4], ICRC_LEN) || ctx_write(ctx, 0, h->eth, ROCE_LEN))
		return -1;
	return d->udp_check ? update_udp_check(ctx, d, b, old, new) : 0;
}

static long copy_to_receiver(__u32 i, struct copies *c)
{
	bool more;

	if (!next_branch(c, &more))
		return !more;
	flush(c);
	if (canopy_write_receiver(c->ctx, c->d, c->to, c->s->shift[c->slot & SLOT_MASK])) {
		count_drop(c->d->group_id, DROP_TRUNCATED);
		return 0;
	}
	c->d->ready = c->to->branch.ifindex;
	count_copy(c);
	return 0;
}

/*
 * Sends the copies to the branches in `to`. If the kernel replicates to child nodes, it gets the packet itself, or a copy if receivers
 * here need the packet too.
 */
static __always_inline int send_copies(canopy_ctx *ctx, struct decision *d, struct canopy_state *s,
				       const struct canopy_slots *to)
{
	struct copies c = { .ctx = ctx, .d = d, .s = s };
	struct canopy_slots receivers = d->receivers;

	d->ready = 0;
	ctx_mark_copy(ctx, true);
	slots_and(&receivers, to);
	c.todo.word[0] = d->children.word[0] & (to->word[0] | d->standby.word[0]);
	c.todo.word[1] = d->children.word[1] & (to->word[1] | d->standby.word[1]);
	if (slots_any(&c.todo)) {
		if (!(d->flags & GROUP_MULTICAST))
			bpf_loop(CANOPY_MAX_BRANCHES, copy_to_child, &c, 0);
		else if (kernel_serves_children(&c, slots_any(&receivers)))
			return ctx_pass_to_fabric(ctx);
	}
	if (slots_any(&receivers)) {
		flush(&c);
		if (d->outer_len && ctx_resize(ctx, -(__s32)d->outer_len))
			return count_drop(d->group_id, DROP_NO_ROOM);
		d->l3_len = IP6_LEN + bpf_ntohs(d->head.ip6.payload_len);
		c.todo = receivers;
		bpf_loop(CANOPY_MAX_BRANCHES, copy_to_receiver, &c, 0);
	}
	return d->ready ? ctx_send_to(ctx, d->ready) : CTX_DROP;
}

#endif
