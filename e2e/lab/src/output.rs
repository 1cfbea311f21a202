// SPDX-License-Identifier: Apache-2.0
//! Parses a program's standard output into events, one JSON object per line.

use std::io::{BufRead, BufReader, Read};

use serde_json::Value;

/// Upper limit of a line that `canopy-rc` prints, bytes.
const MAX_LINE: u64 = 1 << 20;

/// One item of a program's standard output.
#[derive(Debug)]
pub(crate) enum OutputItem {
    /// A line of JSON.
    Line(Value),
    /// A line that is not JSON.
    Garbage(String),
    /// End of the output.
    End,
}

/// Passes each item to `forward` until the end, or until `forward` returns false.
pub(crate) fn read_lines(stdout: impl Read, mut forward: impl FnMut(OutputItem) -> bool) {
    let mut reader = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let event = match reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => OutputItem::End,
            Ok(_) => serde_json::from_slice(&line)
                .map_or_else(|_| OutputItem::Garbage(String::from_utf8_lossy(&line).into_owned()), OutputItem::Line),
        };
        let end = matches!(event, OutputItem::End);
        if !forward(event) || end {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_events_and_other_text_is_noticed() {
        let mut items = Vec::new();
        read_lines("{\"event\":\"complete\"}\noops\n".as_bytes(), |s| {
            items.push(format!("{s:?}"));
            true
        });
        assert_eq!(items, ["Line(Object {\"event\": String(\"complete\")})", "Garbage(\"oops\\n\")", "End"]);
    }
}
