/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Which groups' states the agent has to read again, without reading them: run by the agent through BPF_PROG_TEST_RUN
 * before each sample. A state has about 10 kB, a summary 40 octets.
 */
#ifndef CANOPY_SUMMARY_H
#define CANOPY_SUMMARY_H

#include "maps.h"

static long summarize(void *of, __u32 *id, struct canopy_state *s, __u32 *count)
{
	const struct canopy_group *g = bpf_map_lookup_elem(&groups, id);
	const struct canopy_cnp *c = bpf_map_lookup_elem(&cnps, id);
	struct canopy_summary *m = bpf_map_lookup_elem(&summaries, count);
	__u32 fatal = 0;

	if (!g)
		return 0;
	if (!m)
		return 1;
	m->group_id = *id;
	m->epoch = g->epoch;
	/* Without the lock: what changes meanwhile changes the next summary. */
	m->counted = s->acks_in + s->acks_out + s->naks_in + s->naks_out + s->data_packets + (c ? c->cnps_in + c->cnps_out : 0);
	m->high = s->high;
	m->minimum = s->tree[1].key;
	for (__u32 slot = 0; slot < CANOPY_MAX_BRANCHES; slot++)
		fatal += s->fatal[slot];
	m->fatal = fatal;
	m->waits = (s->carrying | s->probing.word[0] | s->probing.word[1] | s->pending.word[0] | s->pending.word[1]) != 0;
	*count += 1;
	return 0;
}

/* Returns how many summaries it wrote, from the first entry of the map on. */
SEC("tc")
int canopy_summarize(struct __sk_buff *ctx)
{
	__u32 count = 0;

	bpf_for_each_map_elem(&states, summarize, &count, 0);
	return count;
}

#endif
