// SPDX-License-Identifier: Apache-2.0
//! A signal to the process does not end the watcher.

use std::time::{Duration, Instant};

use canopy_model::node_spec::PortThresholds;
use canopy_units::Rate;

use super::*;

extern "C" fn nothing(_: libc::c_int) {}

/// Watcher threads of this test and of tests that run at the same time.
fn watchers() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let named = tasks.filter(|task| std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "long-haul\n"));
    named.map(|task| task.file_name().unwrap().to_str().unwrap().parse().unwrap()).collect()
}

#[test]
fn a_signal_does_not_end_the_watcher() {
    let handler: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: the handler does nothing, so it is async signal safe; SIGUSR2 is used for nothing else.
    assert_ne!(unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) }, libc::SIG_ERR);
    let mut bed = Bed::new();
    let thresholds = PortThresholds {
        k_min: Octets(20_000),
        k_max: Octets(40_000),
        rtt: Duration::from_millis(10),
        port_rate: Rate::from_bps(8_000),
        v_ecn_permille: 500,
        v_growth_per_ms: Octets(2_000),
    };
    assert_eq!(bed.bed.reconcile(|spec| spec.base_mut().ports[1].thresholds = Some(thresholds)), []);
    assert!(!watchers().is_empty());
    for _ in 0..20 {
        for thread in watchers() {
            // SAFETY: no memory is involved; if the thread has ended, the call fails.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR2) };
        }
        // Long enough for the thread to block in the kernel again.
        std::thread::sleep(Duration::from_millis(2));
    }
    bed.queue("8kbit");
    bed.fill(20);
    let deadline = Instant::now() + Duration::from_secs(20);
    while bed.bed.congestion().first().is_none_or(|port| port.queue.queue == Octets::ZERO) {
        assert!(Instant::now() < deadline, "the watcher does not poll the queue");
        std::thread::sleep(Duration::from_millis(1));
    }
}
