/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Packet access in a TC program. An XDP entry would provide the same names over struct xdp_md. */
#ifndef CANOPY_CTX_H
#define CANOPY_CTX_H

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

/* Sends the packet itself through `ifindex`; the program must return the result. */
static __always_inline int ctx_send_to(canopy_ctx *ctx, __u32 ifindex)
{
	return bpf_redirect(ifindex, 0);
}

#endif
