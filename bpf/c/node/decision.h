/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What a role decides about a data packet, and canopy_forward carries out: the parts of the group's configuration that its copies
 * need, so that the group is looked up once, and the inner headers as received.
 */
#ifndef CANOPY_DECISION_H
#define CANOPY_DECISION_H

#include "shared.h"

struct decision {
	__u32 group_id;
	__u32 flags;			/* GROUP_ */
	__u32 dqpn;
	__u32 encapsulate;		/* the packet is plain and gets the group's outer header */
	struct canopy_addr proxy;
	struct canopy_addr source;
	__u64 start;
	__u64 window;
	__u64 flight;			/* headend: largest flight of the source, packets; 0 = not the headend */
	__u64 write_base;
	__u64 branches;			/* digest of the branches */
	__u64 now;			/* CLOCK_MONOTONIC */
	struct canopy_slots children;	/* child nodes of the group, and those that are on standby */
	struct canopy_slots standby;
	struct canopy_slots receivers;	/* receivers here to which the packet goes if they are active */
	__u32 l3_len;			/* current length of the packet from its first IPv6 header on */
	__u32 outer_len;		/* outer IPv6 + SRH; 0 = plain */
	__u32 hop_limit;		/* of the packet's first header from now on; 0 = as it is */
	__u32 tail;			/* bytes between BTH and ICRC */
	__u32 icrc;			/* as sent by the source */
	__be32 psn;			/* as sent by the source, with AckReq */
	__u32 udp_check;		/* as sent by the source */
	__u64 va;			/* RETH, if the opcode has one */
	__u32 rkey;
	__u32 dma_len;
	__u32 ready;			/* output port of the copy that the packet holds now; 0 = none */
	struct roce head;		/* inner headers; the hop limit and ECN field are those of the copies to receivers */
};

#endif
