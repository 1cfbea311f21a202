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

/* lowest_of[(2^n * DE_BRUIJN) >> 58] = n: each six consecutive bits of the factor are different. */
#define DE_BRUIJN 0x03F79D71B4CB0A89ULL

static const __u8 lowest_of[64] = {
	0,  1,  48, 2,  57, 49, 28, 3,  61, 58, 50, 42, 38, 29, 17, 4,  62, 55, 59, 36, 53, 51, 43, 22, 45, 39, 33, 30, 24, 18, 12, 5,
	63, 47, 56, 27, 60, 41, 37, 16, 54, 35, 52, 21, 44, 32, 23, 11, 46, 26, 40, 15, 34, 20, 31, 10, 25, 14, 19, 9,  13, 8,  7,  6,
};

/* Position of the lowest bit set in a non-zero word. Without a branch, because the verifier follows both sides of every one. */
static __always_inline __u32 lowest_bit(__u64 w)
{
	return lowest_of[((w & -w) * DE_BRUIJN) >> 58];
}

/* Removes the lowest slot from the set; false if the set is empty. */
static __always_inline bool slots_take(struct canopy_slots *s, __u32 *slot)
{
	__u32 high = !s->word[0];
	__u64 w = high ? s->word[1] : s->word[0];

	if (!w)
		return false;
	*slot = 64 * high + lowest_bit(w);
	s->word[high] = w & (w - 1);
	return true;
}

#endif
