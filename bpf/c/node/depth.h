/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Depth of the queue that a packet is about to enter, read from the kernel's structures. CO-RE relocates the fields to the
 * running kernel's BTF.
 */
#ifndef CANOPY_DEPTH_H
#define CANOPY_DEPTH_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define CORE __attribute__((preserve_access_index))

struct gnet_stats_queue___depth {
	__u32 backlog;
} CORE;

struct Qdisc {
	unsigned int flags;
	struct gnet_stats_queue___depth qstats;
} CORE;

struct netdev_queue {
	struct Qdisc *qdisc;
} CORE;

struct net_device {
	struct netdev_queue *_tx;
	struct Qdisc *qdisc;
} CORE;

struct sk_buff {
	struct net_device *dev;
} CORE;

/* include/net/sch_generic.h: the queue counts per processor, and its qstats stay zero. */
#define TCQ_F_CPUSTATS 0x20

/* From Linux 6.2 on the kernel's structures can be read without a call per field. */
extern void *bpf_cast_to_kern_ctx(void *) __ksym __weak;

/* Root queue of a device, and the queue of its first transmit ring. */
struct queues {
	const struct Qdisc *root;
	const struct Qdisc *first;
	unsigned int flags;
	__u32 backlog;
};

static __always_inline void read_directly(struct sk_buff *skb, struct queues *q)
{
	const struct net_device *dev = skb->dev;

	q->root = dev->qdisc;
	q->first = dev->_tx->qdisc;
	q->flags = q->root->flags;
	q->backlog = q->root->qstats.backlog;
}

/* What cannot be read is zero. */
static __always_inline void read_by_call(struct sk_buff *skb, struct queues *q)
{
	const struct net_device *dev = BPF_CORE_READ(skb, dev);
	const struct Qdisc *root = BPF_CORE_READ(dev, qdisc);

	q->root = root;
	q->first = BPF_CORE_READ(dev, _tx, qdisc);
	q->flags = BPF_CORE_READ(root, flags);
	q->backlog = BPF_CORE_READ(root, qstats.backlog);
}

/*
 * Octets in the port's queue, without this packet. False if the kernel has no single counter of them: one queue per transmit
 * ring (mq), or counters per processor (pfifo_fast). If one queue serves all rings, the first ring's queue is the root queue.
 */
static __always_inline bool kernel_depth(struct __sk_buff *ctx, __u64 *depth)
{
	struct queues q = {};

	if (bpf_ksym_exists(bpf_cast_to_kern_ctx))
		read_directly(bpf_cast_to_kern_ctx(ctx), &q);
	else
		read_by_call((struct sk_buff *)ctx, &q);
	if (!q.root || q.root != q.first || q.flags & TCQ_F_CPUSTATS)
		return false;
	*depth = q.backlog;
	return true;
}

#endif
