// SPDX-License-Identifier: Apache-2.0
//! Lines of JSON from a program, as events.

use std::io::{BufRead, BufReader, Read};

use serde_json::Value;

/// No line that `canopy-rc` prints is longer, bytes.
const MAX_LINE: u64 = 1 << 20;

/// What came from a program's standard output.
#[derive(Debug)]
pub(crate) enum Said {
    /// A line of JSON.
    Line(Value),
    /// A line of something else.
    Garbage(String),
    /// It said its last.
    End,
}

/// Turns lines into events until the end, or until nobody listens (`tell` says false).
pub(crate) fn listen(stdout: impl Read, mut tell: impl FnMut(Said) -> bool) {
    let mut reader = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let event = match reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => Said::End,
            Ok(_) => serde_json::from_slice(&line)
                .map_or_else(|_| Said::Garbage(String::from_utf8_lossy(&line).into_owned()), Said::Line),
        };
        let end = matches!(event, Said::End);
        if !tell(event) || end {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_events_and_other_text_is_noticed() {
        let mut heard = Vec::new();
        listen("{\"event\":\"complete\"}\noops\n".as_bytes(), |s| {
            heard.push(format!("{s:?}"));
            true
        });
        assert_eq!(heard, ["Line(Object {\"event\": String(\"complete\")})", "Garbage(\"oops\\n\")", "End"]);
    }
}
