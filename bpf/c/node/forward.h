/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Role: carries out a decision. The data packet is accounted for in the group's state, and its copies leave. */
#ifndef CANOPY_FORWARD_H
#define CANOPY_FORWARD_H

#include "aggregate.h"
#include "capture.h"
#include "copy.h"
#include "event.h"

/* Accounts for the packet and sets `to` to the branches that get a copy. Returns 0 or a drop reason. */
static __always_inline __u32 account(const struct decision *d, struct canopy_state *s, struct canopy_slots *to)
{
	struct canopy_data data = {
		.start = d->start,
		.window = d->window,
		.flight = d->flight,
		.psn = bth_psn(&d->head.bth),
		.bytes = d->l3_len,
		.message_start = op_starts_message(d->head.bth.opcode),
	};
	__u32 drop;
	bool first;

	bpf_spin_lock(&s->lock);
	first = !s->high;
	drop = data_passes(s, &data, d->now, to);
	bpf_spin_unlock(&s->lock);
	if (first && !drop && d->flags & GROUP_HEADEND)
		emit_event(EVENT_FIRST_DATA, d->group_id, 0, data.psn, d->now);
	return drop;
}

/* Prepends the prepared outer header with the inner traffic class (RFC 6040 normal mode). Returns its length, 0 on failure. */
static __always_inline __u32 encapsulate(canopy_ctx *ctx, const struct decision *d)
{
	struct canopy_outer *o = bpf_map_lookup_elem(&outers, &d->group_id);
	struct {
		__be32 vtf;
		__be16 payload_len;
	} front;
	__u32 len;

	if (!o)
		return 0;
	len = o->len;
	if (len < IP6_LEN || len > CANOPY_MAX_OUTER)
		return 0;
	if (ctx_resize(ctx, len) || ctx_store(ctx, ETH_LEN, o->bytes, len))
		return 0;
	__builtin_memcpy(&front.vtf, o->bytes, 4);
	front.vtf = with_traffic_class(front.vtf, traffic_class(d->head.ip6.vtf));
	front.payload_len = bpf_htons(len - IP6_LEN + d->l3_len);
	return ctx_store(ctx, ETH_LEN, &front, 6) ? 0 : len;
}

SEC("tc")
int canopy_forward(struct __sk_buff *skb)
{
	struct canopy_slots to = {};
	struct canopy_state *s;
	struct decision *d;
	__u32 zero = 0, drop;

	d = bpf_map_lookup_elem(&decisions, &zero);
	if (!d)
		return count_drop(0, DROP_STATE_MISSING);
	s = bpf_map_lookup_elem(&states, &d->group_id);
	if (!s)
		return count_drop(d->group_id, DROP_STATE_MISSING);
	capture_arrival(skb, d);
	drop = account(d, s, &to);
	if (drop)
		return count_drop(d->group_id, drop);
	if (ctx_trim(skb, ETH_LEN + d->l3_len))
		return count_drop(d->group_id, DROP_NO_ROOM);
	/* The copies to receivers are written whole. */
	if (d->hop_limit && slots_any(&d->children)) {
		__u8 hop_limit = d->hop_limit;

		if (ctx_store(skb, ETH_LEN + 7, &hop_limit, 1))
			return count_drop(d->group_id, DROP_TRUNCATED);
	}
	if (d->encapsulate) {
		d->outer_len = encapsulate(skb, d);
		if (!d->outer_len)
			return count_drop(d->group_id, DROP_NO_ROOM);
		d->l3_len += d->outer_len;
	}
	return send_copies(skb, d, s, &to);
}

#endif
