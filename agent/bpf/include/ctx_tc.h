/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The packet as TC has it. An XDP entry provides the same names over struct xdp_md. */
#ifndef CANOPY_CTX_H
#define CANOPY_CTX_H

typedef struct __sk_buff canopy_ctx;

static __always_inline __u32 ctx_len(const canopy_ctx *ctx)
{
	return ctx->len;
}

/* The port it arrived on. */
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

/* Opens (positive) or closes (negative) a gap behind the Ethernet header. */
static __always_inline int ctx_resize(canopy_ctx *ctx, __s32 by)
{
	return bpf_skb_adjust_room(ctx, by, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO);
}

/* A copy of the packet as it stands leaves through `ifindex`. */
static __always_inline int ctx_copy_to(canopy_ctx *ctx, __u32 ifindex)
{
	return bpf_clone_redirect(ctx, ifindex, 0);
}

/* A copy of the packet as it stands goes to the kernel's own stack, past this program. */
static __always_inline int ctx_copy_to_kernel(canopy_ctx *ctx)
{
	int rc;

	ctx->mark = CANOPY_MARK_KERNEL;
	rc = bpf_clone_redirect(ctx, ctx_port(ctx), BPF_F_INGRESS);
	ctx->mark = 0;
	return rc;
}

/* True for such a copy. */
static __always_inline bool ctx_is_for_kernel(canopy_ctx *ctx)
{
	if (ctx->mark != CANOPY_MARK_KERNEL)
		return false;
	ctx->mark = 0;
	return true;
}

/* The packet itself leaves through `ifindex`; the program returns this. */
static __always_inline int ctx_send_to(canopy_ctx *ctx, __u32 ifindex)
{
	return bpf_redirect(ifindex, 0);
}

#endif
