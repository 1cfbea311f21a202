// SPDX-License-Identifier: Apache-2.0
//! The wall clock, on which certificates are valid and operators read when something happened.

use std::process::Command;
use std::time::SystemTime;

use crate::Check;

/// The clock of this machine is set by a time server, and is not before this program was built.
pub(crate) fn clock() -> Check {
    let built = std::fs::metadata("/proc/self/exe").and_then(|file| file.modified()).ok();
    judged(SystemTime::now(), built, synchronized())
}

/// What systemd knows of the kernel's clock, whichever program sets it; `None` without systemd.
fn synchronized() -> Option<bool> {
    let asked = Command::new("timedatectl").args(["show", "--property=NTPSynchronized", "--value"]).output().ok()?;
    match asked.stdout.trim_ascii() {
        b"yes" => Some(true),
        b"no" => Some(false),
        _ => None,
    }
}

fn judged(now: SystemTime, built: Option<SystemTime>, synchronized: Option<bool>) -> Check {
    let name = "clock";
    let fix = "install and start chrony or systemd-timesyncd: certificates are valid from and until times of day";
    if built.is_some_and(|built| now < built) {
        return Check::missing(name, "it is before this program was built", fix);
    }
    match synchronized {
        Some(true) => Check::met(name, "set by a time server"),
        Some(false) => Check::missing(name, "no time server has set it", fix),
        None => Check::unknown(
            name,
            "timedatectl does not know whether a time server sets it",
            "compare `date --utc` with that of another machine",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Verdict;

    #[test]
    fn a_clock_has_to_be_set_and_not_before_the_program() {
        let now = SystemTime::now();
        let (before, after) = (now - Duration::from_secs(1), now + Duration::from_secs(1));
        assert_eq!(judged(now, Some(before), Some(true)).verdict, Verdict::Met);
        assert!(matches!(judged(now, Some(after), Some(true)).verdict, Verdict::Missing(_)));
        assert!(matches!(judged(now, Some(before), Some(false)).verdict, Verdict::Missing(_)));
        assert!(matches!(judged(now, Some(before), None).verdict, Verdict::Unknown(_)));
    }
}
