/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Packet access in a TC program. An XDP entry would provide the same names over struct xdp_md. */
#ifndef CANOPY_CTX_H
#define CANOPY_CTX_H

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

/* Verdicts of a program on a packet. */
enum ctx_verdict {
	CTX_NEXT = TC_ACT_UNSPEC,	/* the next filter decides */
	CTX_PASS = TC_ACT_OK,		/* to the kernel's stack */
	CTX_DROP = TC_ACT_SHOT,		/* dropped, merged, or sent as copies only */
};

/*
 * Words of the packet's control block that programs hand on to each other. A word never gets another meaning: while an agent is
 * replaced, a program of one version continues with one of another.
 */
enum ctx_word {
	CTX_GROUP = 0,			/* dispatch to a role: the group's identifier */
	CTX_COPY = 4,			/* forwarding to egress: COPY_OF_GROUP */
};

/* The packet is a copy of a group's packet. Cleared on arrival: the kernel keeps the word over a veth pair. */
#define COPY_OF_GROUP 0xCA09C0B1

typedef struct __sk_buff canopy_ctx;

static __always_inline __u32 ctx_len(const canopy_ctx *ctx)
{
	return ctx->len;
}

/* The port on which the packet arrived. */
static __always_inline __u32 ctx_port(const canopy_ctx *ctx)
{
	return ctx->ingress_ifindex ?: ctx->ifindex;
}

static __always_inline int ctx_load(canopy_ctx *ctx, __u32 off, void *to, __u32 len)
{
	return bpf_skb_load_bytes(ctx, off, to, len);
}

static __always_inline int ctx_store(canopy_ctx *ctx, __u32 off, const void *from, __u32 len)
{
	return bpf_skb_store_bytes(ctx, off, from, len, 0);
}

/* Inserts (positive) or removes (negative) bytes after the Ethernet header. */
static __always_inline int ctx_resize(canopy_ctx *ctx, __s32 by)
{
	return bpf_skb_adjust_room(ctx, by, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO);
}

/* Sends a copy of the packet in its current form through `ifindex`. */
static __always_inline int ctx_copy_to(canopy_ctx *ctx, __u32 ifindex)
{
	return bpf_clone_redirect(ctx, ifindex, 0);
}

/*
 * skb->mark of an encapsulated copy that was reinjected into its own port for the kernel's stack: dispatch passes it once. The
 * kernel clears the mark of packets that arrive over a wire or from another namespace.
 */
#define CANOPY_MARK_KERNEL 0xCA09CA57

/* Passes a copy of the packet in its current form to the kernel's stack; this program ignores that copy. */
static __always_inline int ctx_copy_to_kernel(canopy_ctx *ctx)
{
	int rc;

	ctx->mark = CANOPY_MARK_KERNEL;
	rc = bpf_clone_redirect(ctx, ctx_port(ctx), BPF_F_INGRESS);
	ctx->mark = 0;
	return rc;
}

/* True for a copy from ctx_copy_to_kernel(). */
static __always_inline bool ctx_is_for_kernel(canopy_ctx *ctx)
{
	if (ctx->mark != CANOPY_MARK_KERNEL)
		return false;
	ctx->mark = 0;
	return true;
}

/* Marks the packet, and the clones made of it from now on, as copies of a group's packet. */
static __always_inline void ctx_mark_copy(canopy_ctx *ctx, bool copy)
{
	ctx->cb[CTX_COPY] = copy ? COPY_OF_GROUP : 0;
}

static __always_inline bool ctx_is_copy(const canopy_ctx *ctx)
{
	return ctx->cb[CTX_COPY] == COPY_OF_GROUP;
}

/* Sends the packet itself through `ifindex`; the program must return the result. */
static __always_inline int ctx_send_to(canopy_ctx *ctx, __u32 ifindex)
{
	return bpf_redirect(ifindex, 0);
}

#endif
