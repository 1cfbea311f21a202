// SPDX-License-Identifier: Apache-2.0
//! Programs at the TC hooks of interfaces.

use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_rs::{TC_EGRESS, TC_INGRESS, TcHook, TcHookBuilder};

use crate::error::{Context, Result};

/// A hook of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Packets that the interface received.
    Ingress,
    /// Packets that it is about to queue.
    Egress,
}

/// Identity of a filter at a hook: another filter with the same one is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The hook.
    pub hook: Hook,
    /// Order among the filters of the hook: the lowest first.
    pub priority: u32,
}

/// Handle of every filter: one per priority.
const HANDLE: u32 = 1;

/// A loaded program as a filter.
pub struct Filter<'a> {
    program: BorrowedFd<'a>,
    slot: Slot,
}

impl<'a> Filter<'a> {
    /// `program` for `slot` of any interface.
    pub fn new(program: BorrowedFd<'a>, slot: Slot) -> Self {
        Self { program, slot }
    }

    fn hook(&self, ifindex: u32, replace: bool) -> TcHook {
        let mut builder = TcHookBuilder::new(self.program);
        builder.ifindex(ifindex as i32).replace(replace).handle(HANDLE).priority(self.slot.priority);
        builder.hook(match self.slot.hook {
            Hook::Ingress => TC_INGRESS,
            Hook::Egress => TC_EGRESS,
        })
    }

    /// Attaches the program, or atomically replaces the one in its slot.
    ///
    /// # Errors
    /// The kernel refuses; the error names what it lacks.
    pub fn attach(&self, ifindex: u32) -> Result<()> {
        let mut hook = self.hook(ifindex, true);
        hook.create().with_context(|| {
            format!("creating the clsact qdisc on interface {ifindex} (needs NET_SCH_INGRESS: modprobe sch_ingress)")
        })?;
        hook.attach().map(drop).with_context(|| {
            format!(
                "attaching to the {} of interface {ifindex} (needs NET_CLS_BPF: modprobe cls_bpf)",
                self.direction()
            )
        })
    }

    /// Removes the filter in the slot, of any program.
    ///
    /// # Errors
    /// There is none, or the kernel refuses.
    pub fn detach(&self, ifindex: u32) -> Result<()> {
        let detached = self.hook(ifindex, false).detach();
        detached.with_context(|| format!("detaching from the {} of interface {ifindex}", self.direction()))
    }

    /// Removes the clsact qdisc of an interface, with the filters of all programs.
    ///
    /// # Errors
    /// There is none, or the kernel refuses.
    pub fn remove_qdisc(&self, ifindex: u32) -> Result<()> {
        let mut builder = TcHookBuilder::new(self.program);
        builder.ifindex(ifindex as i32);
        let removed = builder.hook(TC_INGRESS | TC_EGRESS).destroy();
        removed.with_context(|| format!("removing the clsact qdisc of interface {ifindex}"))
    }

    /// Whether the slot has a filter, of any program.
    pub fn is_present(&self, ifindex: u32) -> bool {
        self.hook(ifindex, false).query().is_ok()
    }

    /// Whether the slot runs this loaded program.
    pub fn is_attached(&self, ifindex: u32) -> bool {
        let there = self.hook(ifindex, false).query();
        there.is_ok_and(|id| Some(u64::from(id)) == fdinfo(self.program, "prog_id:"))
    }

    fn direction(&self) -> &'static str {
        match self.slot.hook {
            Hook::Ingress => "ingress",
            Hook::Egress => "egress",
        }
    }
}

/// A number from `/proc/self/fdinfo` of a loaded program.
pub(crate) fn fdinfo(fd: BorrowedFd<'_>, field: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).ok()?;
    text.lines().find_map(|l| l.strip_prefix(field)?.trim().parse().ok())
}
