#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wall clock is read where a person reads the result, or a protocol asks for it, and decides nothing: it may be set at any time.

    scripts/check-clocks.py

Every Rust source that git knows, tests left out, is searched for `SystemTime` and `UnixTime::now`, and every source in C for the helpers
of BPF that read the wall clock. ALLOWED names the files that may have them, each with its reason; a file that no longer reads the clock
must leave the list. Time that decides is `canopy_units::Monotonic`, except where an operator writes a time of day.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
READS = {
    ".rs": re.compile(r"\bSystemTime\b|\bUnixTime::now\b|\bCLOCK_REALTIME\b"),
    ".c": re.compile(r"\bbpf_ktime_get_tai_ns\b|\bCLOCK_REALTIME\b|\bgettimeofday\b"),
}
READS[".h"] = READS[".c"]
# Instruments and tests: nothing of them runs in a fabric.
LEFT_OUT = re.compile(r"^e2e/|/tests/|/tests\.rs$|/benches/|/examples/")

ALLOWED = {
    "proto/units/src/time.rs": "the type itself",
    "agent/runtime/src/main.rs": "the agent's clock, passed in: time stamps of samples and events for operators",
    "agent/runtime/src/program/enrolling.rs": "how long a certificate is valid, for the operator who enrolls",
    "agent/runtime/src/doctor/host.rs": "how long a certificate is valid, for the operator",
    "machine/src/clock.rs": "whether the clock is before the program was built, for the operator",
    "agent/stamp/src/socket.rs": "time of arrival in a STAMP packet (RFC 8762): the difference of two of one host, its minimum filtered",
    "agent/stamp/src/link.rs": "time of sending in a STAMP packet (RFC 8762)",
    "agent/datapath/src/events.rs": "time stamps of events for operators",
    "agent/datapath/src/capture.rs": "time stamps of captured frames, for operators and pcapng",
    "agent/datapath/src/egress/cnp.rs": "the Timestamp object of a Long-haul CNP (NTP format): a source host orders the packets of one node by it",
    "host/pacer/src/daemon.rs": "time stamps of changes for operators and hooks",
    "controller/actor/src/events.rs": "time stamps of events for operators",
    "controller/actor/src/task.rs": "who wrote a resource when, for operators",
    "controller/actor/src/committing.rs": "who began and ended a confirmed commit when, and its deadline as the next start needs it",
    "controller/actor/src/changing.rs": "whether a change set that is sent again is known yet: its key is kept up to a time of day",
    "controller/actor/src/changing/acts.rs": "who sent a change set and took it back when, for operators",
    "controller/actor/src/changing/applying.rs": "when a change set was whole, for operators",
    "controller/actor/src/changing/steps.rs": "when a change set was stopped, for operators",
    "controller/actor/src/changing/undoing.rs": "when a change set was taken back, for operators",
    "controller/actor/src/drains.rs": "a drain ends at a time of day that an operator wrote; read again each minute, so that a clock that was set takes effect",
    "controller/rest/src/routes/drains.rs": "that time is in the future and within a year",
    "controller/actor/src/silences.rs": "a silence begins and ends at times of day that an operator wrote; read twice a second, so that a clock that was set takes effect",
    "controller/rest/src/routes/silences.rs": "that these times are in the future and within a year, and whether the first has come",
    "controller/actor/src/start.rs": "how long a confirmed commit still has, as the last start has stored it; a clock that was set back makes it no longer",
    "controller/actor/src/acts.rs": "who did what when, for operators",
    "controller/actor/src/captures.rs": "when captures were armed, for operators",
    "controller/actor/src/log_levels.rs": "until when a filter of log lines holds, for operators; what ends it counts on the monotonic clock",
    "controller/actor/src/charts.rs": "where the steps of charts are on the wall clock, for operators",
    "controller/actor/src/incidents.rs": "when incidents began and ended, for operators",
    "controller/actor/src/health.rs": "when problems and stalls began, for operators",
    "controller/rest/src/request.rs": "when a traced request arrived: its spans are on the wall clock of that instant",
    "controller/grpc/src/traced.rs": "when a traced join or leave arrived: its spans are on the wall clock of that instant",
    "controller/rest/src/routes/history.rs": "which entries of the audit are recent: each has the wall clock of its write",
    "controller/rest/src/routes/commit.rs": "the controller's time beside a deadline, for clients that show what is left",
    "controller/rest/src/routes/problems.rs": "the controller's time in its status, for operators",
    "controller/rest/src/watch/stream.rs": "the controller's time in the heartbeats of streams, for clients that show ages",
    "controller/authority/src/registrar.rs": "the controller's own certificate is valid from and until times of day (X.509)",
    "controller/runtime/src/retiring.rs": "certificates are revoked up to a time of day (X.509)",
    "controller/grpc/src/identity.rs": "certificates are valid from and until times of day (X.509), and tokens end at one",
    "controller/grpc/src/secure.rs": "a connection ends with its certificate; read again each minute, so that a clock that was set takes effect",
    "controller/runtime/src/door.rs": "whether the certificate of an operator has ended; it ends at a time of day",
    "controller/ctl/src/contexts.rs": "whether a certificate has ended, for people; it ends at a time of day",
    "controller/ctl/src/commands/token.rs": "how long a token works yet, for people; it ends at a time of day",
    "controller/rest/src/routes/tokens.rs": "tokens end at a time of day, which they keep over restarts",
    "controller/runtime/src/run.rs": "tokens end at times of day, after which their file forgets them",
    "controller/rest/src/sessions.rs": "whether a token has ended, which is at a time of day",
    "controller/rest/src/routes/single_sign_on.rs": "ID tokens are valid from and until times of day",
    "controller/rest/src/routes/authority.rs": "how long a step of the replacement of the authority lasts, and which certificates are valid",
    "controller/rest/src/routes/identities.rs": "tokens end, and certificates are revoked, at times of day",
    "controller/runtime/src/main.rs": "the authority's certificate is valid from and until times of day (X.509)",
    "agent/link/src/identity.rs": "when a certificate is to be renewed; read again each minute, so that a clock that was set takes effect",
    "controller/store/src/embedded.rs": "when a loss was found, for operators",
    "controller/store/src/store.rs": "when the newest backup was written, as its file system has it, for operators",
}


def reads_clock(path, text):
    """Whether the source reads the wall clock outside of its tests, which are its last part."""
    pattern = READS.get(Path(path).suffix)
    if pattern is None or LEFT_OUT.search(path):
        return False
    code = re.split(r"^#\[cfg\(test\)\]\nmod \w+ \{", text, maxsplit=1, flags=re.M)[0]
    return bool(pattern.search(re.sub(r"//.*|/\*.*?\*/", "", code)))


def check(root, paths, allowed):
    """Lines about files that read the clock and may not, or may and do not."""
    reading = {p for p in paths if reads_clock(p, (root / p).read_text(errors="replace"))}
    wrong = [f"{p}: reads the wall clock; use canopy_units::Monotonic, or give a reason in scripts/check-clocks.py" for p in reading - set(allowed)]
    idle = [f"{p}: is allowed to read the wall clock and does not: remove it from scripts/check-clocks.py" for p in set(allowed) - reading]
    return sorted(wrong + idle)


def main():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True)
    paths = [p for p in listed.stdout.splitlines() if Path(p).suffix in READS and (ROOT / p).is_file()]
    if not paths:
        sys.exit("check-clocks: git lists no sources: nothing was checked")
    lines = check(ROOT, paths, ALLOWED)
    print("\n".join(lines + [f"check-clocks: {len(lines)} findings in {len(paths)} sources"]))
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
