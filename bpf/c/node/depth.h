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

/*
 * Octets in the port's queue, without this packet. False if the kernel has no single counter of them: one queue per transmit
 * ring (mq), or counters per processor (pfifo_fast). If one queue serves all rings, the first ring's queue is the root queue.
 */
static __always_inline bool kernel_depth(struct __sk_buff *ctx, __u64 *depth)
{
	struct sk_buff *skb = (struct sk_buff *)ctx;
	struct Qdisc *root, *first;
	struct netdev_queue *tx;
	struct net_device *dev;
	unsigned int flags;
	__u32 backlog;

	if (bpf_core_read(&dev, sizeof(dev), &skb->dev) || !dev)
		return false;
	if (bpf_core_read(&root, sizeof(root), &dev->qdisc) || bpf_core_read(&tx, sizeof(tx), &dev->_tx) ||
	    bpf_core_read(&first, sizeof(first), &tx->qdisc) || !root || root != first)
		return false;
	if (bpf_core_read(&flags, sizeof(flags), &root->flags) || (flags & TCQ_F_CPUSTATS))
		return false;
	if (bpf_core_read(&backlog, sizeof(backlog), &root->qstats.backlog))
		return false;
	*depth = backlog;
	return true;
}

#endif
