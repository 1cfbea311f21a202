/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Events of the groups for the agent. An event that finds no room is lost and counted. */
#ifndef CANOPY_EVENT_H
#define CANOPY_EVENT_H

#include "drop.h"
#include "maps.h"

/* A function of its own, so that the event's layout is in BTF. */
static __noinline int output_event(const struct canopy_event *e)
{
	void *ring = e->kind == EVENT_CNP ? (void *)&cnp_events : (void *)&events;

	return bpf_ringbuf_output(ring, (void *)e, sizeof(*e), 0);
}

static __always_inline void emit_event(enum canopy_event_kind kind, __u32 group_id, __u32 slot, __u32 value, __u64 now)
{
	struct canopy_event e = { .time_ns = now, .kind = kind, .group_id = group_id, .slot = slot, .value = value };

	if (output_event(&e))
		count_drop(group_id, DROP_EVENT_LOST);
}

#endif
