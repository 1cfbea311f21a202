// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* The programs of a node: dispatch and the roles at the TC ingress of every port, egress at its TC egress, and control. */
#include <linux/bpf.h>
#include <stddef.h>

#include "node/dispatch.h"
#include "node/headend.h"
#include "node/replicate.h"
#include "node/end_mt.h"
#include "node/forward.h"
#include "node/feedback.h"
#include "node/path.h"
#include "node/control.h"
#include "node/summary.h"
#include "node/egress.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
