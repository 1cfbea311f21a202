// SPDX-License-Identifier: Apache-2.0
//! Server-sent events as bytes (HTML Standard, section 9.2).

use axum::body::Bytes;
use serde::Serialize;

/// `Content-Type` of a stream.
pub(crate) const CONTENT: &str = "text/event-stream";

/// What became of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

impl Change {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
        }
    }
}

/// The last event of a stream that ends for this reason.
pub(crate) fn bye(reason: &str) -> Bytes {
    frame("bye", None, &json(&serde_json::json!({"reason": reason})))
}

/// One event. `json` is on one line, as `serde_json` writes it without indentation.
pub(crate) fn frame(event: &str, id: Option<&str>, json: &[u8]) -> Bytes {
    let mut frame = Vec::with_capacity(json.len() + 80);
    for (field, value) in [("event: ", Some(event)), ("id: ", id)] {
        if let Some(value) = value {
            frame.extend_from_slice(field.as_bytes());
            frame.extend_from_slice(value.as_bytes());
            frame.push(b'\n');
        }
    }
    frame.extend_from_slice(b"data: ");
    frame.extend_from_slice(json);
    frame.extend_from_slice(b"\n\n");
    frame.into()
}

/// The same event in a stream of several kinds: its name begins with the kind, and it has no id.
pub(crate) fn of_topic(topic: &str, event: &Bytes) -> Bytes {
    let Some(rest) = event.strip_prefix(b"event: ") else { return event.clone() };
    let end = |of: &[u8]| of.iter().position(|byte| *byte == b'\n').map_or(of.len(), |at| at + 1);
    let (name, mut rest) = rest.split_at(end(rest));
    if rest.starts_with(b"id: ") {
        rest = &rest[end(rest)..];
    }
    [b"event: ", topic.as_bytes(), b".", name, rest].concat().into()
}

/// JSON on one line.
pub(crate) fn json(of: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(of).unwrap_or_else(|error| {
        // Types of this API have string keys and no custom serialisation that fails.
        tracing::error!(%error, "a resource cannot be written as JSON");
        b"null".to_vec()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a line break in a resource's text that would end the event.
    #[test]
    fn an_event_is_its_lines_and_an_empty_one() {
        let text = json(&"a\nb\u{2028}");
        assert_eq!(frame("added", Some("1.2"), &text), "event: added\nid: 1.2\ndata: \"a\\nb\u{2028}\"\n\n".as_bytes());
        assert_eq!(frame("bye", None, b"{}"), "event: bye\ndata: {}\n\n".as_bytes());
    }

    /// Catches a token of one kind in a stream of several, and a change that loses its data.
    #[test]
    fn an_event_of_a_topic_has_the_kind_and_no_id() {
        let with_id = frame("added", Some("1.2"), b"{\"id: \":1}");
        assert_eq!(of_topic("groups", &with_id), "event: groups.added\ndata: {\"id: \":1}\n\n".as_bytes());
        assert_eq!(of_topic("nodes", &frame("deleted", None, b"{}")), "event: nodes.deleted\ndata: {}\n\n".as_bytes());
    }
}
