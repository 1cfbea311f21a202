/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * ACK and NAK aggregation, decisions.md section 3. Every function here runs under the state's lock
 * and calls no helper. The minimum over the branches is a tournament tree in an array: a change of
 * one branch costs log2(128) = 7 steps for any number of branches.
 */
#ifndef CANOPY_AGGREGATE_H
#define CANOPY_AGGREGATE_H

#include "slots.h"

#define TREE_MASK (2 * CANOPY_MAX_BRANCHES - 1)

/* Half of the epoch space: feedback between nodes carries 14 bits of the epoch. */
#define EPOCH_HALF 0x2000

/* From its first answer on, a queue pair that was reset answers a probe as one that expects the start PSN within this time. */
#define PROBE_FRESH_NS 1000000000ULL

enum canopy_feedback_kind {
	FEEDBACK_NONE = 0,
	FEEDBACK_ACK = 1,
	FEEDBACK_NAK = 2,
};

/* An ACK or NAK to send upstream. */
struct canopy_feedback {
	__u32 kind;			/* FEEDBACK_ */
	__u32 syndrome;
	__u32 psn;
	__u32 msn;
};

static __always_inline __u64 make_key(__u64 next, __u32 kind)
{
	return next << KIND_BITS | kind;
}

static __always_inline void min_pull(struct canopy_state *s, __u32 i)
{
	const struct canopy_min *l = &s->tree[(2 * i) & TREE_MASK], *r = &s->tree[(2 * i + 1) & TREE_MASK];
	struct canopy_min *to = &s->tree[i & TREE_MASK];

	to->key = l->key < r->key ? l->key : r->key;
	to->msn = l->msn < r->msn ? l->msn : r->msn;
	to->credits = l->credits < r->credits ? l->credits : r->credits;
}

static __always_inline void leaf_set(struct canopy_state *s, __u32 slot, __u64 key, __u64 msn, __u64 credits)
{
	struct canopy_min *leaf = &s->tree[(CANOPY_MAX_BRANCHES + (slot & SLOT_MASK)) & TREE_MASK];

	leaf->key = key;
	leaf->msn = msn;
	leaf->credits = credits;
}

static __always_inline void min_set(struct canopy_state *s, __u32 slot, __u64 key, __u64 msn, __u64 credits)
{
	__u32 i = CANOPY_MAX_BRANCHES + (slot & SLOT_MASK);

	leaf_set(s, slot, key, msn, credits);
	for (int level = 0; level < 7; level++) {
		i >>= 1;
		min_pull(s, i);
	}
}

/* The slot whose key is the root's. */
static __always_inline __u32 min_slot(const struct canopy_state *s)
{
	__u64 key = s->tree[1].key;
	__u32 i = 1;

	for (int level = 0; level < 7; level++) {
		i = 2 * i;
		if (s->tree[i & TREE_MASK].key != key)
			i += 1;
	}
	return i & SLOT_MASK;
}

static __always_inline void fill_feedback(struct canopy_feedback *out, __u32 kind, __u32 syndrome, __u64 psn, __u64 msn)
{
	out->kind = kind;
	out->syndrome = syndrome;
	out->psn = (__u32)psn & PSN_MASK;
	out->msn = (__u32)msn & PSN_MASK;
}

static __always_inline void make_ack(struct canopy_state *s, struct canopy_feedback *out)
{
	s->msn_sent = s->tree[1].msn;
	fill_feedback(out, FEEDBACK_ACK, s->tree[1].credits & 0x1F, (s->tree[1].key >> KIND_BITS) - 1, s->tree[1].msn);
	s->acks_out += 1;
}

/* kind 0..31: RNR NAK with timer (32 - kind) mod 32; otherwise PSN sequence NAK. */
static __always_inline void make_nak(struct canopy_state *s, struct canopy_feedback *out, __u32 kind, __u64 now)
{
	__u64 next = s->tree[1].key >> KIND_BITS;

	s->msn_sent = s->tree[1].msn;
	fill_feedback(out, FEEDBACK_NAK, kind < 32 ? 0x20 | ((32 - kind) & 0x1F) : 0x60, next, s->tree[1].msn);
	s->nak_key = make_key(next, kind);
	s->nak_ns = now;
	s->naks_out += 1;
}

/* The retransmission that the minimum branch requested has been forwarded since its NAK arrived. */
static __always_inline bool min_was_resent(const struct canopy_state *s)
{
	__u64 next = s->tree[1].key >> KIND_BITS;

	return s->retx_ns > s->nak_received_ns[min_slot(s)] && s->retx_from <= next && s->position > next;
}

/*
 * No data was forwarded, a branch is unconfirmed, or the state is not whole yet: then no feedback goes upstream (decisions 3.3 and
 * 3.9).
 */
static __always_inline bool minimum_is_unknown(const struct canopy_state *s)
{
	return !s->high || (s->carrying | s->unconfirmed.word[0] | s->unconfirmed.word[1]);
}

/*
 * Reports a minimum that rose (decisions 3.5), as a NAK if the minimum branch has one outstanding (3.6). False if there is
 * nothing new to report.
 */
static __always_inline bool report_advance(struct canopy_state *s, __u64 now, struct canopy_feedback *out)
{
	__u64 key = s->tree[1].key;
	__u32 kind = key & 63;

	if (minimum_is_unknown(s) || key == KEY_EMPTY || key >> KIND_BITS <= s->sent_next)
		return false;
	s->sent_next = key >> KIND_BITS;
	if (kind == KIND_NONE || (kind == KIND_NAK && min_was_resent(s)))
		make_ack(s, out);
	else
		make_nak(s, out, kind, now);
	return true;
}

/* Decisions 3.6 and 3.7: sends or merges a NAK that did not raise the minimum. */
static __always_inline void report_nak(struct canopy_state *s, const struct canopy_group *g, bool rnr, __u64 now,
				       struct canopy_feedback *out)
{
	__u64 key = s->tree[1].key;
	__u32 kind = key & 63;

	if (rnr && kind >= 32)
		return;		/* held: another branch has a lower next PSN, or misses data at the same one */
	if (kind == KIND_NONE)
		kind = KIND_NAK;	/* the minimum branch has no NAK outstanding: its next PSN is the ePSN */
	if (s->nak_ns && s->nak_key == make_key(key >> KIND_BITS, kind) && now - s->nak_ns < g->nak_merge_ns)
		return;
	make_nak(s, out, kind, now);
}

/* Feedback of a branch, as received. */
struct canopy_received {
	__u32 slot;
	__u32 epoch;		/* of a child node */
	__u32 psn;
	__u32 msn;
};

/*
 * Whether feedback of any kind counts (decisions 3.11): from a branch that counts, after data was sent and, from a child node, in an
 * epoch from since to the own one (3.9), because a child node with a newer epoch may have stopped counting a receiver that no other
 * branch of this node counts yet. Returns 0 or a drop reason.
 */
static __always_inline __u32 branch_counts(const struct canopy_state *s, const struct canopy_group *g, __u32 slot, __u32 epoch)
{
	slot &= SLOT_MASK;
	if (s->tree[(CANOPY_MAX_BRANCHES + slot) & TREE_MASK].key == KEY_EMPTY)
		return DROP_BRANCH_INACTIVE;
	if (!s->high)
		return DROP_FEEDBACK_WINDOW;
	if (slot_in(&s->receivers, slot))
		return 0;
	if ((epoch - s->since[slot]) & EPOCH_HALF)
		return DROP_EPOCH_OLD;
	return (g->epoch - epoch) & EPOCH_HALF ? DROP_EPOCH_AHEAD : 0;
}

/*
 * Decisions 3.3: the PSN is unwrapped relative to `high` and must be within [minimum - W, high], or [high - W, high] while the
 * minimum is unknown. While the state is carried over, programs of another layout may have forwarded beyond `high`. Returns 0 or a
 * drop reason.
 */
static __always_inline __u32 accept(const struct canopy_state *s, const struct canopy_group *g,
				    const struct canopy_received *h, __u64 *next)
{
	__u32 slot = h->slot & SLOT_MASK;
	__u64 base = minimum_is_unknown(s) ? s->high : s->tree[1].key >> KIND_BITS;
	__u32 psn = h->psn, drop = branch_counts(s, g, slot, h->epoch);

	if (drop)
		return drop;
	if (slot_in(&s->receivers, slot))
		psn += s->shift[slot];
	*next += unwrap_psn(s->high, psn);
	return *next > s->high + s->carrying * g->window || *next + g->window < base ? DROP_FEEDBACK_WINDOW : 0;
}

/*
 * Decisions 3.13: whether the queue pair of a late receiver is fresh. It is probed with a PSN far ahead of the start PSN, which a fresh one
 * refuses with a NAK of the start PSN, and with the one before the start PSN, which a fresh one may answer with an ACK of it (`fresh`
 * is what the answer has then). The time of the first other answer is kept: a queue pair that answers again and again, and never like
 * this, is not fresh. A single one may be left over from the former connection of a host that connects its queue pair later.
 * Where the node lost the state in which it may have started, no answer helps: the parent counts what that state acknowledged.
 * Returns 0 if it is fresh, or a drop reason.
 */
static __always_inline __u32 probe_answered(struct canopy_state *s, __u32 slot, __u32 psn, __u64 fresh, __u64 now)
{
	slot &= SLOT_MASK;
	if (s->nak_received_ns[slot] == PROBE_LOST || (psn ^ fresh) & PSN_MASK) {
		if (!s->nak_received_ns[slot])
			s->nak_received_ns[slot] = now;
		else if (s->nak_received_ns[slot] > PROBE_STALE && now - s->nak_received_ns[slot] > PROBE_FRESH_NS)
			s->nak_received_ns[slot] = PROBE_STALE;
		return DROP_BRANCH_INACTIVE;
	}
	slot_remove(&s->probing, slot);
	slot_add(&s->pending, slot);
	return 0;
}

/*
 * Stores the next PSN of a branch, which is confirmed from now on, and its NAK (`kind`). Counts the PSNs by which that raises the
 * minimum: it was the last branch without them. Where the minimum is not known, it is not known either which branch was the last.
 */
static __always_inline void branch_confirm(struct canopy_state *s, const struct canopy_received *h, __u64 next, __u32 kind,
					   __u64 credits)
{
	__u32 slot = h->slot & SLOT_MASK;
	__u64 msn = s->tree[(CANOPY_MAX_BRANCHES + slot) & TREE_MASK].msn, before = s->tree[1].key >> KIND_BITS;
	__u64 unknown = s->carrying | s->unconfirmed.word[0] | s->unconfirmed.word[1];

	slot_remove(&s->unconfirmed, slot);
	min_set(s, slot, make_key(next, kind), unwrap_psn(msn, h->msn + s->msn_base[slot]), credits);
	/* As minimum_is_unknown(), of a group that has sent data, without a branch: the verifier follows both sides of every one. */
	unknown |= -unknown;
	asm volatile("" : "+r"(unknown));
	s->stats[slot].completed_min += ((s->tree[1].key >> KIND_BITS) - before) & ((unknown >> 63) - 1);
}

/* ACK of everything up to its PSN. Returns 0 or a drop reason. */
static __always_inline __u32 receive_ack(struct canopy_state *s, const struct canopy_group *g,
					 const struct canopy_received *h, __u32 credits, __u64 now, struct canopy_feedback *out)
{
	__u32 slot = h->slot & SLOT_MASK;
	__u64 next = 1, old = s->tree[(CANOPY_MAX_BRANCHES + slot) & TREE_MASK].key;
	__u32 drop;

	if (slot_in(&s->probing, slot))
		return probe_answered(s, slot, h->psn, g->start - 1, now);
	drop = accept(s, g, h, &next);
	if (drop)
		return drop;
	s->acks_in += 1;
	if (next > old >> KIND_BITS || slot_in(&s->unconfirmed, slot)) {
		branch_confirm(s, h, next, KIND_NONE, credits);
		report_advance(s, now, out);
	} else if (s->sent_next && now - s->reack_ns >= g->reack_ns) {
		s->reack_ns = now;
		make_ack(s, out);
	}
	return 0;
}

/* PSN sequence NAK (kind 62) or RNR NAK (kind 0..31) whose PSN is the next one expected. Returns 0 or a drop reason. */
static __always_inline __u32 receive_nak(struct canopy_state *s, const struct canopy_group *g,
					 const struct canopy_received *h, __u32 kind, __u64 now, struct canopy_feedback *out)
{
	__u32 slot = h->slot & SLOT_MASK;
	const struct canopy_min *m = &s->tree[(CANOPY_MAX_BRANCHES + slot) & TREE_MASK];
	__u64 next = 0, credits = m->credits;
	__u32 drop;

	if (slot_in(&s->probing, slot))
		return kind == KIND_NAK ? probe_answered(s, slot, h->psn, g->start, now) : DROP_BRANCH_INACTIVE;
	drop = accept(s, g, h, &next);
	if (drop)
		return drop;
	if (next < m->key >> KIND_BITS && !slot_in(&s->unconfirmed, slot))
		return DROP_NAK_GHOST;
	s->naks_in += 1;
	s->nak_received_ns[slot] = now;
	branch_confirm(s, h, next, kind, credits);
	if (!report_advance(s, now, out) && s->sent_next)
		report_nak(s, g, kind < 32, now, out);
	return 0;
}

/*
 * A fatal NAK (decisions 3.7, 3.11): the receiver's queue pair is in error. It is kept until the branch leaves, and changes nothing else.
 * A child node merges fatal NAKs as little as this node does, and sends none. Returns a drop reason.
 */
static __always_inline __u32 receive_fatal(struct canopy_state *s, const struct canopy_group *g,
					   const struct canopy_received *h, __u32 syndrome)
{
	__u32 slot = h->slot & SLOT_MASK, drop;
	__u64 next = 0;

	drop = accept(s, g, h, &next);
	if (drop)
		return drop;
	if (!slot_in(&s->receivers, slot))
		return DROP_FEEDBACK_MALFORMED;
	if (next < s->tree[(CANOPY_MAX_BRANCHES + slot) & TREE_MASK].key >> KIND_BITS && !slot_in(&s->unconfirmed, slot))
		return DROP_NAK_GHOST;
	if (!s->fatal[slot])
		s->fatal[slot] = syndrome << 24 | ((__u32)next & PSN_MASK);
	return DROP_NAK_FATAL;
}

/* `value` where `mask` has ones, else `old`: without a branch, because the verifier follows both sides of every one in a loop. */
static __always_inline __u64 choose(__u64 mask, __u64 value, __u64 old)
{
	return old ^ ((old ^ value) & mask);
}

/*
 * Makes the pending branches active: they count from the last forwarded PSN on. Their receivers get PSNs that continue what their QPs
 * expect. Sets the leaves first and then recomputes the whole tree once. Reads that PSN from the state, so that the verifier finds
 * the same registers here whatever path led here.
 */
static __always_inline void pending_start(struct canopy_state *s, __u64 start)
{
	__u64 msn = s->tree[1].key == KEY_EMPTY ? s->msn_sent ?: CANOPY_PSN_TURN : s->tree[1].msn;
	__u64 next = s->position - 1;
	__u64 key = make_key(next, KIND_NONE), shift = ((next - start) & PSN_MASK) | SHIFT_STARTED, msn_base = msn & PSN_MASK;

	for (__u32 slot = 0; slot < CANOPY_MAX_BRANCHES; slot++) {
		struct canopy_min *leaf = &s->tree[(CANOPY_MAX_BRANCHES + slot) & TREE_MASK];
		__u64 mask = -(s->pending.word[(slot >> 6) & 1] >> (slot & 63) & 1);

		leaf->key = choose(mask, key, leaf->key);
		leaf->msn = choose(mask, msn, leaf->msn);
		leaf->credits = choose(mask, 31, leaf->credits);
		s->shift[slot & SLOT_MASK] = choose(mask, shift, s->shift[slot & SLOT_MASK]);
		s->msn_base[slot & SLOT_MASK] = choose(mask, msn_base, s->msn_base[slot & SLOT_MASK]);
	}
	for (__u32 i = CANOPY_MAX_BRANCHES - 1; i > 0; i--)
		min_pull(s, i);
	s->late = s->pending;
	s->late_from = next;
	for (int i = 0; i < CANOPY_MAX_BRANCHES / 64; i++) {
		s->active.word[i] |= s->pending.word[i];
		s->pending.word[i] = 0;
	}
}

/*
 * Decisions 3.9: late branches become active at a message boundary, a receiver once its queue pair proved to be fresh (3.13). Other
 * branches become active at once, and no feedback goes upstream until each of them is confirmed; a receiver that joined late and
 * started already, with the shift and the MSN base that it started with.
 */
static __always_inline void branch_join(struct canopy_state *s, __u32 slot, __u32 flags, __u32 since, __u32 msn_base)
{
	slot &= SLOT_MASK;
	if (slot_in(&s->active, slot) && (flags & JOIN_AT_BOUNDARY || s->since[slot] == since))
		return;
	/* It waits already. */
	if (flags & JOIN_AT_BOUNDARY && s->since[slot] == since && (slot_in(&s->pending, slot) || slot_in(&s->probing, slot)))
		return;
	s->since[slot] = since;
	s->fatal[slot] = 0;
	/* What an earlier membership in this slot lost holds up nothing any more. */
	slot_remove(&s->unconfirmed, slot);
	slot_remove(&s->receivers, slot);
	if (flags & JOIN_RECEIVER)
		slot_add(&s->receivers, slot);
	/* Before any data a child node joins as unconfirmed: this node may have lost its state, so the child may lack data. */
	s->nak_received_ns[slot] = 0;
	if (flags & JOIN_AT_BOUNDARY && flags & JOIN_RECEIVER) {
		slot_remove(&s->pending, slot);
		slot_add(&s->probing, slot);
		/* The source must not believe that it holds what comes meanwhile: nothing goes upstream until it has been removed. */
		if (flags & JOIN_LOST) {
			s->nak_received_ns[slot] = PROBE_LOST;
			slot_add(&s->unconfirmed, slot);
			s->sent_next = 0;
		}
		return;
	}
	if (flags & JOIN_AT_BOUNDARY && s->high) {
		slot_add(&s->pending, slot);
		return;
	}
	slot_remove(&s->pending, slot);
	slot_remove(&s->probing, slot);
	slot_remove(&s->late, slot);
	slot_add(&s->active, slot);
	slot_add(&s->unconfirmed, slot);
	s->sent_next = 0;
	s->shift[slot] = flags >> JOIN_FLAGS;
	s->msn_base[slot] = msn_base;
	min_set(s, slot, make_key(0, KIND_NONE), CANOPY_PSN_TURN, 31);
}

/* Decisions 3.9: recomputes the minimum and reports it at once; without branches there is no ACK. */
static __always_inline void branch_leave(struct canopy_state *s, __u32 slot, __u64 now, struct canopy_feedback *out)
{
	slot_remove(&s->active, slot);
	slot_remove(&s->pending, slot);
	slot_remove(&s->probing, slot);
	slot_remove(&s->unconfirmed, slot);
	slot_remove(&s->late, slot);
	s->fatal[slot & SLOT_MASK] = 0;
	s->stats[slot & SLOT_MASK] = (struct canopy_branch_stats){};
	min_set(s, slot, KEY_EMPTY, ~0ULL, ~0ULL);
	report_advance(s, now, out);
}

/* Whether a branch waits for a message, or for its queue pair to prove that it is fresh. */
static __always_inline bool waits(const struct canopy_state *s)
{
	return s->pending.word[0] | s->pending.word[1] | s->probing.word[0] | s->probing.word[1];
}

/*
 * Decisions 3.9: a group that has only pending branches acknowledges the data forwarded so far, which is not meant for them.
 * Without that ACK the source would not finish its current message, and the pending branches would wait for the next message
 * for ever. Repeated after more data, because an ACK may be lost.
 */
static __always_inline void pending_only(struct canopy_state *s, struct canopy_feedback *out)
{
	bool forwarded = s->pending_checked_at != s->data_packets;

	s->pending_checked_at = s->data_packets;
	if (!forwarded || minimum_is_unknown(s) || s->active.word[0] || s->active.word[1] || !waits(s))
		return;
	s->sent_next = s->high;
	s->acks_out += 1;
	fill_feedback(out, FEEDBACK_ACK, 31, s->high - 1, s->msn_sent);
}

/*
 * Decisions 3.9: repeats the last ACK or NAK upstream after this node has adopted a new epoch. Its parent dropped the first one
 * if it had not adopted that epoch yet, and a receiver sends only one NAK per gap. Does nothing before the first one, and while
 * feedback or data passes between two calls: data causes feedback of its own, and a source whose window is full sends none.
 */
static __always_inline void repeat_upstream(struct canopy_state *s, __u64 now, struct canopy_feedback *out)
{
	__u64 key = s->tree[1].key, passed = s->acks_out + s->naks_out + s->data_packets;
	__u32 kind = key & 63;
	bool recent = s->repeat_checked_at != passed;

	s->repeat_checked_at = passed;
	if (recent || minimum_is_unknown(s) || !s->sent_next)
		return;
	if (key == KEY_EMPTY) {
		if (!waits(s))
			return;
		s->repeat_checked_at += 1;
		s->acks_out += 1;
		fill_feedback(out, FEEDBACK_ACK, 31, s->sent_next - 1, s->msn_sent);
	} else {
		s->repeat_checked_at += 1;
		if (kind == KIND_NONE || min_was_resent(s))
			make_ack(s, out);
		else
			make_nak(s, out, kind, now);
	}
}

/* Adds the counters of a branch, which other programs may be counting up at the same time. */
static __always_inline void carry_counters(struct canopy_branch_stats *stats, const struct canopy_branch_stats *old)
{
	__sync_fetch_and_add(&stats->packets, old->packets);
	__sync_fetch_and_add(&stats->bytes, old->bytes);
	stats->completed_min += old->completed_min;
	if (stats->last_received_ns < old->last_received_ns)
		stats->last_received_ns = old->last_received_ns;
}

/*
 * Merges one branch of `old`, the state of the same group in the maps of programs with another layout, which worked beside these
 * since it was copied from there. Both only ever raise `high` and the next PSN of a branch, so the higher one is right. A branch that
 * old programs started at a message is started here in the same way: these start none while the group is carried. Whatever was
 * accepted beyond `high` meanwhile, no branch has more than was forwarded. `last`: the old programs have stopped.
 */
static __always_inline void carry_branch(struct canopy_state *s, const struct canopy_state *old, __u32 slot, bool last)
{
	__u32 i = (CANOPY_MAX_BRANCHES + (slot & SLOT_MASK)) & TREE_MASK;
	const struct canopy_min *from = &old->tree[i];
	struct canopy_min to = s->tree[i];

	slot &= SLOT_MASK;
	if (last)
		carry_counters(&s->stats[slot], &old->stats[slot]);
	if (slot_in(&old->active, slot) && old->since[slot] == s->since[slot]) {
		if (!s->fatal[slot])
			s->fatal[slot] = old->fatal[slot];
		if (slot_in(&s->pending, slot) || slot_in(&s->probing, slot)) {
			slot_remove(&s->pending, slot);
			slot_remove(&s->probing, slot);
			slot_add(&s->active, slot);
			if (slot_in(&old->unconfirmed, slot))
				slot_add(&s->unconfirmed, slot);
			if (slot_in(&old->late, slot))
				slot_add(&s->late, slot);
			s->shift[slot] = old->shift[slot];
			s->msn_base[slot] = old->msn_base[slot];
			to = *from;
		}
		if (!slot_in(&old->unconfirmed, slot))
			slot_remove(&s->unconfirmed, slot);
		/* Of equal next PSNs the one with a NAK. */
		if (slot_in(&s->active, slot) && (from->key ^ KIND_NONE) > (to.key ^ KIND_NONE)) {
			to = *from;
			s->nak_received_ns[slot] = old->nak_received_ns[slot];
		}
	}
	if (slot_in(&s->probing, slot) && slot_in(&old->pending, slot) && old->since[slot] == s->since[slot]) {
		slot_remove(&s->probing, slot);
		slot_add(&s->pending, slot);
	}
	if (!slot_in(&s->active, slot))
		return;
	if (to.key >> KIND_BITS > s->high)
		to.key = make_key(s->high, to.key & KIND_NONE);
	min_set(s, slot, to.key, to.msn, to.credits);
}

/* Merges what belongs to no branch. `last`: the old programs have stopped, their branches are merged, and feedback goes upstream. */
static __always_inline void carry_group(struct canopy_state *s, const struct canopy_state *old, bool last)
{
	if (s->high < old->high)
		s->high = old->high;
	if (s->late_from < old->late_from)
		s->late_from = old->late_from;
	if (s->msn_sent < old->msn_sent)
		s->msn_sent = old->msn_sent;
	if (!s->data_packets) {
		s->position = old->position;
		s->retx_from = old->retx_from;
		s->retx_ns = old->retx_ns;
	}
	if (old->nak_ns > s->retx_ns) {
		s->nak_key = old->nak_key;
		s->nak_ns = old->nak_ns;
	}
	if (!last)
		return;
	s->acks_in += old->acks_in;
	s->acks_out += old->acks_out;
	s->naks_in += old->naks_in;
	s->naks_out += old->naks_out;
	s->data_packets += old->data_packets;
	s->data_bytes += old->data_bytes;
	s->fresh_packets += old->fresh_packets;
	s->carrying = 0;
	/* For repeat_upstream(), which follows: nothing passed since the last repetition. */
	s->repeat_checked_at = s->acks_out + s->naks_out + s->data_packets;
	s->sent_next = old->sent_next;
	if (minimum_is_unknown(s))
		s->sent_next = 0;
	else if (s->tree[1].key != KEY_EMPTY)
		s->sent_next = s->tree[1].key >> KIND_BITS;
}

/* A data packet, and the parts of its group's configuration that decide whether it is accepted. */
struct canopy_data {
	__u64 start;
	__u64 window;
	__u64 flight;
	__u32 psn;
	__u32 bytes;
	bool message_start;
};

/*
 * Decisions 3.13: before the session's first packet no branch is confirmed, and a source that waited for late receivers sends
 * it for them too. So pending branches start with it, also where it comes again because a link lost it; but not where this node
 * has acknowledged it, or has lost its state and does not know whether it has.
 */
static __always_inline bool starts_with_first(const struct canopy_state *s, __u64 start, __u64 v)
{
	return v == start && !s->lost && !s->acks_out && s->nak_key >> KIND_BITS <= start && s->late_from <= start;
}

/*
 * A branch lacks the session's first packet: it comes again, and pending branches wait for it. Not where this node has acknowledged something:
 * one that comes into the tree of a long session takes its packets for older than the first.
 */
static __always_inline bool lacks_first(const struct canopy_state *s, __u64 start)
{
	return !s->lost && !s->acks_out && s->tree[1].key >> KIND_BITS <= start;
}

/* Accounts for a data packet and sets `to` to the branches that get a copy. Returns 0 or a drop reason. */
static __always_inline __u32 data_passes(struct canopy_state *s, const struct canopy_data *data, __u64 now,
					 struct canopy_slots *to)
{
	__u64 v = unwrap_psn(s->high ?: data->start, data->psn);
	bool starts;

	/* Decisions 3.11: a packet that no source sends does not move the window. */
	if (data->flight && (s->high ? v >= s->high + data->flight : !s->lost && v - data->start > data->flight))
		return DROP_PSN_FLIGHT;
	if (!s->high) {
		s->high = v;
		s->position = v;
	}
	if (v > s->high + data->window || v + data->window < s->high)
		return DROP_PSN_WINDOW;
	if (v < s->position) {
		s->retx_from = v;
		s->retx_ns = now;
		if (v <= s->nak_key >> KIND_BITS)
			s->nak_ns = 0;
	}
	s->position = v + 1;
	/*
	 * Pending branches start at a new message, and only once the minimum has reached the late_from of the previous start, so
	 * that one late_from is enough. Not while a branch is unconfirmed: a node that has lost its state does not know yet what is
	 * new. Without active branches they also start at a retransmitted message that this node has not acknowledged: its first
	 * copy was lost, and no other message may follow it.
	 */
	starts = data->message_start && !s->carrying && (s->pending.word[0] | s->pending.word[1]) &&
		 (starts_with_first(s, data->start, v) ||
		  (!(s->unconfirmed.word[0] | s->unconfirmed.word[1]) &&
		   ((v >= s->high && s->sent_next >= s->late_from && !lacks_first(s, data->start)) ||
		    (!(s->active.word[0] | s->active.word[1]) && v >= s->sent_next))));
	if (v >= s->high) {
		s->high = v + 1;
		s->fresh_packets += 1;
	}
	s->data_packets += 1;
	s->data_bytes += data->bytes;
	if (starts)
		pending_start(s, data->start);
	*to = s->active;
	v = s->position - 1;
	if (v < s->late_from) {
		to->word[0] &= ~s->late.word[0];
		to->word[1] &= ~s->late.word[1];
	}
	return 0;
}

#endif
