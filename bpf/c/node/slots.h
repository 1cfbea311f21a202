/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Sets of branch slots. */
#ifndef CANOPY_SLOTS_H
#define CANOPY_SLOTS_H

#include "shared.h"

#define SLOT_MASK (CANOPY_MAX_BRANCHES - 1)

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

static __always_inline bool slots_any(const struct canopy_slots *s)
{
	return s->word[0] | s->word[1];
}

static __always_inline void slots_and(struct canopy_slots *s, const struct canopy_slots *other)
{
	s->word[0] &= other->word[0];
	s->word[1] &= other->word[1];
}

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

#endif
