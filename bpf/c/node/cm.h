/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * RDMA-CM messages with a QPN (IBTA volume 1, 13.4.3, 12.6.5 and 12.6.8): datagrams to QP1 with a MAD of the communication
 * management class. Only the addresses, the communication identifier and the QPN go to user space.
 */
#ifndef CANOPY_CM_H
#define CANOPY_CM_H

#include <stddef.h>
#include "../common/ctx_tc.h"
#include "drop.h"
#include "maps.h"

#define MAD_CLASS_CM 7
#define MAD_METHOD_SEND 3

/* The octets after the BTH. */
struct cm {
	__be32 q_key;			/* DETH */
	__be32 src_qp;
	__u8 base_version;		/* MAD */
	__u8 class;
	__u8 class_version;
	__u8 method;
	__u8 status[12];		/* with class specific field and transaction identifier */
	__be16 attribute;
	__u8 reserved[6];
	__be32 ids[2];			/* local; remote, in a reply */
};

/* Offset in the MAD's data of the word whose upper 24 bits are the sender's QPN. */
#define CM_REQUEST_QPN 32
#define CM_REPLY_QPN 12

static __noinline int submit_cm(const struct canopy_cm *cm)
{
	return bpf_ringbuf_output(&eg_cms, (void *)cm, sizeof(*cm), 0);
}

/* `off` is the offset of the first octet after the BTH. */
static __always_inline void note_cm(canopy_ctx *ctx, const struct canopy_flow_key *key, __u32 off)
{
	struct canopy_cm event = { .src = key->src, .dst = key->dst };
	__u32 data = off + offsetof(struct cm, ids), qpn_at;
	struct cm cm;
	__be32 qpn;

	if (ctx_load(ctx, off, &cm, sizeof(cm)) || cm.class != MAD_CLASS_CM || cm.method != MAD_METHOD_SEND)
		return;
	event.kind = bpf_ntohs(cm.attribute);
	if (event.kind == CM_REQUEST) {
		event.id = bpf_ntohl(cm.ids[0]);
		qpn_at = CM_REQUEST_QPN;
	} else if (event.kind == CM_REPLY) {
		event.id = bpf_ntohl(cm.ids[1]);
		qpn_at = CM_REPLY_QPN;
	} else {
		return;
	}
	if (ctx_load(ctx, data + qpn_at, &qpn, sizeof(qpn)))
		return;
	event.qpn = bpf_ntohl(qpn) >> 8;
	if (submit_cm(&event))
		count_port_drop(ctx_port(ctx), DROP_EVENT_LOST);
}

#endif
