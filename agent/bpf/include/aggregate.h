/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * ACK and NAK aggregation, decisions.md section 3. Every function here runs under the state's lock
 * and calls no helper. The minimum over the branches is a tournament tree in an array: a change of
 * one branch costs log2(128) = 7 steps however many branches there are.
 */
#ifndef CANOPY_AGGREGATE_H
#define CANOPY_AGGREGATE_H

#define TREE_MASK (2 * CANOPY_MAX_BRANCHES - 1)
#define SLOT_MASK (CANOPY_MAX_BRANCHES - 1)

#define SPEAK_NOTHING 0
#define SPEAK_ACK 1
#define SPEAK_NAK 2

/* What goes upstream. */
struct canopy_speech {
	__u32 what;
	__u32 syndrome;
	__u32 psn;
	__u32 msn;
};

static __always_inline bool slot_in(const struct canopy_slots *s, __u32 slot)
{
	return s->word[(slot >> 6) & 1] >> (slot & 63) & 1;
}

static __always_inline void slot_add(struct canopy_slots *s, __u32 slot)
{
	s->word[(slot >> 6) & 1] |= 1ULL << (slot & 63);
}

static __always_inline void slot_remove(struct canopy_slots *s, __u32 slot)
{
	s->word[(slot >> 6) & 1] &= ~(1ULL << (slot & 63));
}

static __always_inline __u64 make_key(__u64 next, __u32 kind)
{
	return next << 6 | kind;
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

static __always_inline void say(struct canopy_speech *out, __u32 what, __u32 syndrome, __u64 psn, __u64 msn)
{
	out->what = what;
	out->syndrome = syndrome;
	out->psn = (__u32)psn & 0xFFFFFF;
	out->msn = (__u32)msn & 0xFFFFFF;
}

static __always_inline void say_ack(struct canopy_state *s, struct canopy_speech *out)
{
	say(out, SPEAK_ACK, s->tree[1].credits & 0x1F, (s->tree[1].key >> 6) - 1, s->tree[1].msn);
	s->acks_out += 1;
}

/* kind 0..31 = RNR with timer (32 - kind) mod 32, else PSN sequence error. */
static __always_inline void say_nak(struct canopy_state *s, struct canopy_speech *out, __u32 kind, __u64 now)
{
	__u64 next = s->tree[1].key >> 6;

	say(out, SPEAK_NAK, kind < 32 ? 0x20 | ((32 - kind) & 0x1F) : 0x60, next, s->tree[1].msn);
	s->nak_key = make_key(next, kind);
	s->nak_ns = now;
	s->naks_out += 1;
}

/* The retransmission that the minimum branch asked for has passed down since it asked. */
static __always_inline bool min_was_resent(const struct canopy_state *s)
{
	__u64 next = s->tree[1].key >> 6;

	return s->retx_ns > s->nak_heard_ns[min_slot(s)] && s->retx_from <= next && s->position > next;
}

/* The minimum rose: decisions 3.5, and 3.6 for a NAK that was held until it became the minimum. */
static __always_inline bool speak_advance(struct canopy_state *s, __u64 now, struct canopy_speech *out)
{
	__u64 key = s->tree[1].key;
	__u32 kind = key & 63;

	if (key == KEY_EMPTY || key >> 6 <= s->sent_next)
		return false;
	s->sent_next = key >> 6;
	if (kind == KIND_NONE || (kind == KIND_NAK && min_was_resent(s)))
		say_ack(s, out);
	else
		say_nak(s, out, kind, now);
	return true;
}

/* Decisions 3.6 and 3.7, when a NAK changed nothing in the minimum. */
static __always_inline void speak_nak(struct canopy_state *s, const struct canopy_group *g, bool rnr, __u64 now,
				      struct canopy_speech *out)
{
	__u64 key = s->tree[1].key;
	__u32 kind = key & 63;

	if (rnr && kind >= 32)
		return;		/* held: somebody is behind, or at the same PSN and missing data */
	if (kind == KIND_NONE)
		kind = KIND_NAK;	/* a branch without a NAK is lowest: its next is the ePSN */
	if (s->nak_ns && s->nak_key == make_key(key >> 6, kind) && now - s->nak_ns < g->nak_merge_ns)
		return;
	say_nak(s, out, kind, now);
}

/* ACK of everything up to `psn`; 0, or a drop reason. */
static __always_inline __u32 heard_ack(struct canopy_state *s, const struct canopy_group *g, __u32 slot, __u32 psn,
				       __u32 msn, __u32 credits, __u64 now, struct canopy_speech *out)
{
	__u32 leaf = CANOPY_MAX_BRANCHES + (slot & SLOT_MASK);
	__u64 old = s->tree[leaf & TREE_MASK].key;
	__u64 base = s->tree[1].key >> 6;
	__u64 next = unwrap_psn(base, psn) + 1;

	if (old == KEY_EMPTY)
		return DROP_BRANCH_INACTIVE;
	if (s->high == g->start || next > s->high || next + g->window < base)
		return DROP_FEEDBACK_WINDOW;
	s->acks_in += 1;
	if (next > old >> 6) {
		min_set(s, slot, make_key(next, KIND_NONE), unwrap_psn(s->tree[leaf & TREE_MASK].msn, msn), credits);
		speak_advance(s, now, out);
	} else if (base > g->start && now - s->reack_ns >= g->reack_ns) {
		s->reack_ns = now;
		say_ack(s, out);
	}
	return 0;
}

/* PSN sequence NAK (kind 62) or RNR NAK (kind 0..31) expecting `psn`; 0, or a drop reason. */
static __always_inline __u32 heard_nak(struct canopy_state *s, const struct canopy_group *g, __u32 slot, __u32 psn,
				       __u32 msn, __u32 kind, __u64 now, struct canopy_speech *out)
{
	__u32 leaf = CANOPY_MAX_BRANCHES + (slot & SLOT_MASK);
	struct canopy_min *m = &s->tree[leaf & TREE_MASK];
	__u64 old = m->key;
	__u64 base = s->tree[1].key >> 6;
	__u64 next = unwrap_psn(base, psn);

	if (old == KEY_EMPTY)
		return DROP_BRANCH_INACTIVE;
	if (s->high == g->start || next > s->high || next + g->window < base)
		return DROP_FEEDBACK_WINDOW;
	if (next < old >> 6)
		return DROP_NAK_GHOST;
	s->naks_in += 1;
	s->nak_heard_ns[slot & SLOT_MASK] = now;
	min_set(s, slot, make_key(next, kind), unwrap_psn(m->msn, msn), m->credits);
	if (!speak_advance(s, now, out))
		speak_nak(s, g, kind < 32, now, out);
	return 0;
}

/* A branch starts counting at `next` with nothing acknowledged below it. */
static __always_inline void branch_start(struct canopy_state *s, __u32 slot, __u64 next)
{
	slot_add(&s->active, slot);
	min_set(s, slot, make_key(next, KIND_NONE), CANOPY_PSN_TURN, 31);
}

/* Every pending branch starts counting at `next`: leaves first, then the whole tree once. */
static __always_inline void pending_start(struct canopy_state *s, __u64 next)
{
	for (__u32 slot = 0; slot < CANOPY_MAX_BRANCHES; slot++) {
		if (slot_in(&s->pending, slot))
			leaf_set(s, slot, make_key(next, KIND_NONE), CANOPY_PSN_TURN, 31);
	}
	for (__u32 i = CANOPY_MAX_BRANCHES - 1; i > 0; i--)
		min_pull(s, i);
	for (int i = 0; i < CANOPY_MAX_BRANCHES / 64; i++) {
		s->active.word[i] |= s->pending.word[i];
		s->pending.word[i] = 0;
	}
}

/* Decisions 3.9: joins at a message boundary; at once while nothing was sent. */
static __always_inline void branch_join(struct canopy_state *s, const struct canopy_group *g, __u32 slot)
{
	if (slot_in(&s->active, slot))
		return;
	if (s->high == g->start)
		branch_start(s, slot, g->start);
	else
		slot_add(&s->pending, slot);
}

/* Decisions 3.9: the minimum is recomputed and told at once; of no branches there is no ACK. */
static __always_inline void branch_leave(struct canopy_state *s, __u32 slot, __u64 now, struct canopy_speech *out)
{
	slot_remove(&s->active, slot);
	slot_remove(&s->pending, slot);
	min_set(s, slot, KEY_EMPTY, ~0ULL, ~0ULL);
	speak_advance(s, now, out);
}

/* A data packet passes down; `to` becomes the branches that get it. 0, or a drop reason. */
static __always_inline __u32 data_passes(struct canopy_state *s, const struct canopy_group *g, __u32 psn, bool begins,
					 __u32 bytes, __u64 now, struct canopy_slots *to)
{
	__u64 v = unwrap_psn(s->high, psn);

	if (v < g->start || v > s->high + g->window || v + g->window < s->high)
		return DROP_PSN_WINDOW;
	if (v < s->position) {
		s->retx_from = v;
		s->retx_ns = now;
		if (v <= s->nak_key >> 6)
			s->nak_ns = 0;
	}
	s->position = v + 1;
	if (v >= s->high) {
		if (begins && (s->pending.word[0] | s->pending.word[1]))
			pending_start(s, v);
		s->high = v + 1;
	}
	s->data_packets += 1;
	s->data_bytes += bytes;
	*to = s->active;
	return 0;
}

#endif
