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

/* Epochs are compared in the 14 bits that feedback between nodes carries. */
#define EPOCH_HALF 0x2000

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
	s->msn_told = s->tree[1].msn;
	say(out, SPEAK_ACK, s->tree[1].credits & 0x1F, (s->tree[1].key >> 6) - 1, s->tree[1].msn);
	s->acks_out += 1;
}

/* kind 0..31 = RNR with timer (32 - kind) mod 32, else PSN sequence error. */
static __always_inline void say_nak(struct canopy_state *s, struct canopy_speech *out, __u32 kind, __u64 now)
{
	__u64 next = s->tree[1].key >> 6;

	s->msn_told = s->tree[1].msn;
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

/* Nothing was sent, or a branch that may lack something was not heard: decisions 3.3 and 3.9. */
static __always_inline bool must_be_silent(const struct canopy_state *s)
{
	return !s->high || s->unheard.word[0] || s->unheard.word[1];
}

/* The minimum rose: decisions 3.5, and 3.6 for a NAK that was held until it became the minimum. */
static __always_inline bool speak_advance(struct canopy_state *s, __u64 now, struct canopy_speech *out)
{
	__u64 key = s->tree[1].key;
	__u32 kind = key & 63;

	if (must_be_silent(s) || key == KEY_EMPTY || key >> 6 <= s->sent_next)
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

/* What a branch says, as it came. */
struct canopy_heard {
	__u32 slot;
	__u32 epoch;		/* a child node's */
	__u32 psn;
	__u32 msn;
};

/*
 * Decisions 3.3: unwrapped near the newest, within [minimum - W, high], or [high - W, high] while there is no minimum.
 * Decisions 3.9: since <= epoch <= own epoch. A child with a newer program may have stopped counting a receiver that no other
 * branch of this node counts yet. 0, or a drop reason.
 */
static __always_inline __u32 accept(const struct canopy_state *s, const struct canopy_group *g,
				    const struct canopy_heard *h, __u64 *next)
{
	__u32 slot = h->slot & SLOT_MASK;
	__u64 base = must_be_silent(s) ? s->high : s->tree[1].key >> 6;
	__u32 psn = h->psn;

	if (s->tree[(CANOPY_MAX_BRANCHES + slot) & TREE_MASK].key == KEY_EMPTY)
		return DROP_BRANCH_INACTIVE;
	if (!s->high)
		return DROP_FEEDBACK_WINDOW;
	if (slot_in(&s->receivers, slot))
		psn += s->shift[slot];
	else if ((h->epoch - s->since[slot]) & EPOCH_HALF)
		return DROP_EPOCH_OLD;
	else if ((g->epoch - h->epoch) & EPOCH_HALF)
		return DROP_EPOCH_AHEAD;
	*next += unwrap_psn(s->high, psn);
	return *next > s->high || *next + g->window < base ? DROP_FEEDBACK_WINDOW : 0;
}

/* The branch holds everything below `next`; `kind` says what else. */
static __always_inline void branch_heard(struct canopy_state *s, const struct canopy_heard *h, __u64 next, __u32 kind,
					 __u64 credits)
{
	__u32 slot = h->slot & SLOT_MASK;
	__u64 msn = s->tree[(CANOPY_MAX_BRANCHES + slot) & TREE_MASK].msn;

	slot_remove(&s->unheard, slot);
	min_set(s, slot, make_key(next, kind), unwrap_psn(msn, h->msn + s->msn_base[slot]), credits);
}

/* ACK of everything up to its PSN; 0, or a drop reason. */
static __always_inline __u32 heard_ack(struct canopy_state *s, const struct canopy_group *g,
				       const struct canopy_heard *h, __u32 credits, __u64 now, struct canopy_speech *out)
{
	__u32 slot = h->slot & SLOT_MASK;
	__u64 next = 1, old = s->tree[(CANOPY_MAX_BRANCHES + slot) & TREE_MASK].key;
	__u32 drop = accept(s, g, h, &next);

	if (drop)
		return drop;
	s->acks_in += 1;
	if (next > old >> 6 || slot_in(&s->unheard, slot)) {
		branch_heard(s, h, next, KIND_NONE, credits);
		speak_advance(s, now, out);
	} else if (s->sent_next && now - s->reack_ns >= g->reack_ns) {
		s->reack_ns = now;
		say_ack(s, out);
	}
	return 0;
}

/* PSN sequence NAK (kind 62) or RNR NAK (kind 0..31) expecting its PSN; 0, or a drop reason. */
static __always_inline __u32 heard_nak(struct canopy_state *s, const struct canopy_group *g,
				       const struct canopy_heard *h, __u32 kind, __u64 now, struct canopy_speech *out)
{
	__u32 slot = h->slot & SLOT_MASK;
	const struct canopy_min *m = &s->tree[(CANOPY_MAX_BRANCHES + slot) & TREE_MASK];
	__u64 next = 0, credits = m->credits;
	__u32 drop = accept(s, g, h, &next);

	if (drop)
		return drop;
	if (next < m->key >> 6 && !slot_in(&s->unheard, slot))
		return DROP_NAK_GHOST;
	s->naks_in += 1;
	s->nak_heard_ns[slot] = now;
	branch_heard(s, h, next, kind, credits);
	if (!speak_advance(s, now, out) && s->sent_next)
		speak_nak(s, g, kind < 32, now, out);
	return 0;
}

/*
 * Late branches count from here: what came before is none of theirs. Receivers go on in the PSNs that their QPs expect.
 * Leaves first, then the whole tree once.
 */
static __always_inline void pending_start(struct canopy_state *s, const struct canopy_group *g, __u64 next)
{
	__u64 msn = s->tree[1].key == KEY_EMPTY ? s->msn_told ?: CANOPY_PSN_TURN : s->tree[1].msn;

	for (__u32 slot = 0; slot < CANOPY_MAX_BRANCHES; slot++) {
		if (slot_in(&s->pending, slot)) {
			leaf_set(s, slot, make_key(next, KIND_NONE), msn, 31);
			s->shift[slot] = (next - g->start) & 0xFFFFFF;
			s->msn_base[slot] = msn & 0xFFFFFF;
		}
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

/* Decisions 3.9: late ones at a message boundary; others at once, and nothing is said until they were heard. */
static __always_inline void branch_join(struct canopy_state *s, __u32 slot, __u32 flags, __u32 since)
{
	slot &= SLOT_MASK;
	if (slot_in(&s->active, slot) && (flags & JOIN_AT_BOUNDARY || s->since[slot] == since))
		return;
	s->since[slot] = since;
	slot_remove(&s->receivers, slot);
	if (flags & JOIN_RECEIVER)
		slot_add(&s->receivers, slot);
	/* A node that knows of no data may have lost what it knew: a child that says nothing yet may lack anything. */
	if (flags & JOIN_AT_BOUNDARY && (flags & JOIN_RECEIVER || s->high)) {
		slot_add(&s->pending, slot);
		return;
	}
	slot_remove(&s->pending, slot);
	slot_remove(&s->late, slot);
	slot_add(&s->active, slot);
	slot_add(&s->unheard, slot);
	s->sent_next = 0;
	s->shift[slot] = 0;
	s->msn_base[slot] = 0;
	s->nak_heard_ns[slot] = 0;
	min_set(s, slot, make_key(0, KIND_NONE), CANOPY_PSN_TURN, 31);
}

/* Decisions 3.9: the minimum is recomputed and told at once; of no branches there is no ACK. */
static __always_inline void branch_leave(struct canopy_state *s, __u32 slot, __u64 now, struct canopy_speech *out)
{
	slot_remove(&s->active, slot);
	slot_remove(&s->pending, slot);
	slot_remove(&s->unheard, slot);
	slot_remove(&s->late, slot);
	min_set(s, slot, KEY_EMPTY, ~0ULL, ~0ULL);
	speak_advance(s, now, out);
}

/*
 * Decisions 3.9: late branches wait for a message to begin, and nobody else is here. What passed meanwhile is none of theirs: it
 * is acknowledged, or the message under way, and so the wait, would never end. Again after more data: an ACK may be lost.
 */
static __always_inline void vacant(struct canopy_state *s, struct canopy_speech *out)
{
	bool passed = s->vacant_at != s->data_packets;

	s->vacant_at = s->data_packets;
	if (!passed || !s->high || s->active.word[0] || s->active.word[1] || !(s->pending.word[0] | s->pending.word[1]))
		return;
	s->sent_next = s->high;
	s->acks_out += 1;
	say(out, SPEAK_ACK, 31, s->high - 1, s->msn_told);
}

/*
 * Decisions 3.9: sends the last ACK or NAK upstream once more, after this node has adopted a program: its parent dropped the
 * first one if it had not adopted the program yet, and a receiver sends one NAK per gap. Does nothing before the first one.
 */
static __always_inline void repeat_upstream(struct canopy_state *s, __u64 now, struct canopy_speech *out)
{
	__u64 key = s->tree[1].key;
	__u32 kind = key & 63;

	if (must_be_silent(s) || !s->sent_next)
		return;
	if (key == KEY_EMPTY) {
		if (!(s->pending.word[0] | s->pending.word[1]))
			return;
		s->acks_out += 1;
		say(out, SPEAK_ACK, 31, s->sent_next - 1, s->msn_told);
	} else if (kind == KIND_NONE || min_was_resent(s)) {
		say_ack(s, out);
	} else {
		say_nak(s, out, kind, now);
	}
}

/* A data packet passes down; `to` becomes the branches that get it. 0, or a drop reason. */
static __always_inline __u32 data_passes(struct canopy_state *s, const struct canopy_group *g, __u32 psn, bool begins,
					 __u32 bytes, __u64 now, struct canopy_slots *to)
{
	__u64 v = unwrap_psn(s->high ?: g->start, psn);

	if (!s->high) {
		s->high = v;
		s->position = v;
	}
	if (v > s->high + g->window || v + g->window < s->high)
		return DROP_PSN_WINDOW;
	if (v < s->position) {
		s->retx_from = v;
		s->retx_ns = now;
		if (v <= s->nak_key >> 6)
			s->nak_ns = 0;
	}
	s->position = v + 1;
	/*
	 * One boundary at a time: those of the last one must have gone past it, so that one number says what is theirs. A node
	 * with nobody starts with a message sent again too, unless it said that it was held: its first copy was lost, and
	 * nothing follows it.
	 */
	if (begins && (s->pending.word[0] | s->pending.word[1]) &&
	    ((v >= s->high && s->sent_next >= s->late_from) || (!(s->active.word[0] | s->active.word[1]) && v >= s->sent_next)))
		pending_start(s, g, v);
	if (v >= s->high)
		s->high = v + 1;
	s->data_packets += 1;
	s->data_bytes += bytes;
	*to = s->active;
	if (v < s->late_from) {
		to->word[0] &= ~s->late.word[0];
		to->word[1] &= ~s->late.word[1];
	}
	return 0;
}

#endif
