// SPDX-License-Identifier: Apache-2.0
//! How many items a message may have: an empty one is two octets on the wire and hundreds in memory, so they are counted before any is decoded.

use canopy_daemon::limits::Limit;
use tonic::Status;

/// A repeated field of a message, or one that has such fields.
pub(crate) struct Items {
    field: u64,
    name: &'static str,
    /// In the whole message, whatever it is in.
    most: usize,
    of: &'static [Items],
}

const fn items(field: u64, name: &'static str, most: usize) -> Items {
    Items { field, name, most, of: &[] }
}

/// Of `StreamTelemetryRequest`. An agent begins another message after 8,192 branches.
pub(crate) const TELEMETRY: &[Items] = &[
    Items {
        field: 3,
        name: "groups",
        most: 16_384,
        of: &[items(13, "groups.branches", 32_768), items(14, "groups.drops", 32_768)],
    },
    items(4, "events", 4096),
    items(5, "node_drops", 4096),
    items(6, "link_rtts", 4096),
    Items {
        field: 7,
        name: "congestion",
        most: 1,
        of: &[Items {
            field: 1,
            name: "congestion.ports",
            most: 4096,
            of: &[items(16, "congestion.ports.flows", 16_384)],
        }],
    },
    items(8, "link_losses", 4096),
    items(9, "captured", 4096),
];

/// Of `ReportRequest`.
pub(crate) const REPORT: &[Items] = &[items(3, "errors", 16_384)];

/// Refuses a message that has more items than it may. One that is malformed is counted as far as a decoder would get.
pub(crate) fn check(message: &[u8], of: &'static [Items]) -> Result<(), Status> {
    if of.is_empty() { Ok(()) } else { count(message, of, &mut Vec::new()) }
}

/// `counts` has the number of each kind that was seen, by the kind's address.
fn count(mut message: &[u8], of: &'static [Items], counts: &mut Vec<(&'static str, usize)>) -> Result<(), Status> {
    while let Some((tag, rest)) = varint(message) {
        let (field, kind) = (tag >> 3, tag & 7);
        let skipped = match kind {
            0 => varint(rest).map(|(_, rest)| rest),
            1 => rest.get(8..),
            5 => rest.get(4..),
            2 => {
                let Some((content, rest)) = delimited(rest) else { return Ok(()) };
                if let Some(items) = of.iter().find(|items| items.field == field) {
                    note(items, counts)?;
                    count(content, items.of, counts)?;
                }
                Some(rest)
            }
            // Groups are of no message here: a decoder that skips one could be led around what is counted.
            3 | 4 => {
                return Err(Status::invalid_argument(
                    "a field has the wire type of a group, which no field of this message has",
                ));
            }
            _ => None,
        };
        let Some(rest) = skipped else { return Ok(()) };
        message = rest;
    }
    Ok(())
}

fn note(items: &Items, counts: &mut Vec<(&'static str, usize)>) -> Result<(), Status> {
    let known = counts.iter_mut().find(|(name, _)| *name == items.name);
    let seen = match known {
        Some((_, seen)) => {
            *seen += 1;
            *seen
        }
        None => {
            counts.push((items.name, 1));
            1
        }
    };
    if seen <= items.most {
        return Ok(());
    }
    Limit::MessageItems.refuse();
    Err(Status::resource_exhausted(format!("{}: more than {} in one message: send several", items.name, items.most)))
}

fn delimited(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = varint(octets)?;
    rest.split_at_checked(usize::try_from(length).ok()?)
}

/// A number of at most ten octets (protobuf, Base 128 Varints).
fn varint(octets: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (place, octet) in octets.iter().take(10).enumerate() {
        value |= u64::from(octet & 0x7F) << (7 * place);
        if octet & 0x80 == 0 {
            return Some((value, &octets[place + 1..]));
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use canopy_control::pb;
    use prost::Message;
    use tonic::Code;

    use super::*;

    fn refused(message: &impl Message, of: &'static [Items]) -> Option<String> {
        let refused = check(&message.encode_to_vec(), of).err()?;
        assert_eq!(refused.code(), Code::ResourceExhausted);
        Some(refused.message().to_owned())
    }

    /// Catches a number of a field that is another field's, and items that are counted for each parent apart.
    #[test]
    fn each_kind_of_item_has_its_bound_in_the_whole_message() {
        let group =
            |branches| pb::GroupTelemetry { branches: vec![Default::default(); branches], ..Default::default() };
        let groups = |groups| pb::StreamTelemetryRequest { node: "n1".into(), groups, ..Default::default() };
        assert_eq!(refused(&groups(vec![group(8192); 4]), TELEMETRY), None);
        let refusal = refused(&groups(vec![group(8192); 5]), TELEMETRY).unwrap();
        assert!(refusal.starts_with("groups.branches: more than 32768"), "{refusal}");
        let refusal = refused(&groups(vec![group(0); 16_385]), TELEMETRY).unwrap();
        assert!(refusal.starts_with("groups: more than 16384"), "{refusal}");
        let ports = |count| pb::Congestion { ports: vec![Default::default(); count] };
        let with = |count| pb::StreamTelemetryRequest { congestion: Some(ports(count)), ..Default::default() };
        assert_eq!(refused(&with(4096), TELEMETRY), None);
        assert!(refused(&with(4097), TELEMETRY).unwrap().starts_with("congestion.ports:"));
        for (message, name) in [
            (pb::StreamTelemetryRequest { events: vec![Default::default(); 4097], ..Default::default() }, "events:"),
            (
                pb::StreamTelemetryRequest { node_drops: vec![Default::default(); 4097], ..Default::default() },
                "node_drops:",
            ),
            (
                pb::StreamTelemetryRequest { link_rtts: vec![Default::default(); 4097], ..Default::default() },
                "link_rtts:",
            ),
            (
                pb::StreamTelemetryRequest { link_losses: vec![Default::default(); 4097], ..Default::default() },
                "link_losses:",
            ),
            (
                pb::StreamTelemetryRequest { captured: vec![Default::default(); 4097], ..Default::default() },
                "captured:",
            ),
        ] {
            assert!(refused(&message, TELEMETRY).unwrap().starts_with(name), "{name}");
        }
        let report = pb::ReportRequest { errors: vec![Default::default(); 16_385], ..Default::default() };
        assert!(refused(&report, REPORT).unwrap().starts_with("errors:"));
    }

    /// Catches items behind something that the counting takes for the end and a decoder does not.
    #[test]
    fn nothing_hides_items_from_being_counted() {
        let items: Vec<u8> = [0x1A, 0].repeat(16_385);
        for before in [
            &[][..],
            // Unknown fields of every wire type: a number of ten octets, 64 bits, octets, 32 bits.
            &[0xF8, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01],
            &[0xF9, 0x7F, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0xFA, 0x7F, 2, 0x1A, 0],
            &[0xFD, 0x7F, 1, 2, 3, 4],
            // A known field, twice.
            &[0x0A, 1, b'a', 0x0A, 1, b'b'],
        ] {
            let message = [before, &items].concat();
            assert!(pb::StreamTelemetryRequest::decode(&message[..]).is_ok(), "{before:?}");
            assert_eq!(check(&message, TELEMETRY).unwrap_err().code(), Code::ResourceExhausted, "{before:?}");
        }
        // A group, which a decoder skips.
        let message = [&[0xFB, 0x7F, 0xFC, 0x7F], &items[..]].concat();
        assert!(pb::StreamTelemetryRequest::decode(&message[..]).is_ok());
        assert_eq!(check(&message, TELEMETRY).unwrap_err().code(), Code::InvalidArgument);
    }
}
