// SPDX-License-Identifier: Apache-2.0
//! Tables that the command line prints.

use canopy_units::Octets;
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};

use crate::demo::Demonstration;
use crate::lab::Lab;
use crate::paths::LinkUse;
use crate::units::Bytes;
use crate::wires::LinkCounters;

fn table<const N: usize>(header: [&str; N], numbers_from: usize) -> Table {
    let mut t = Table::new();
    t.load_style(UTF8_BORDERS_ONLY).set_header(header);
    for column in t.column_iter_mut().skip(numbers_from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    t
}

/// The result of a demonstration.
pub fn demonstration(d: &Demonstration) -> String {
    let source = &d.transfer.source;
    let mut hashes = table(["receiver", "SHA-256", "as the source's", "bytes", "ACKs sent"], 3);
    hashes.add_row([d.source.clone(), source.sha256.clone(), "(source)".into(), source.bytes.to_string(), "-".into()]);
    for r in &d.transfer.receivers {
        let same = if r.matches(source) { "yes" } else { "NO" };
        hashes.add_row([r.host.clone(), r.sha256.clone(), same.into(), r.bytes.to_string(), r.acks_sent.to_string()]);
    }

    let n = d.transfer.receivers.len();
    let [unicasts, unicasts_back] = [format!("{n} unicasts down"), format!("{n} unicasts back")];
    let mut links = table(["link", "bytes down", &unicasts, "less by", "bytes back", &unicasts_back], 1);
    for u in &d.links {
        links.add_row(link_row(format!("{} > {}", u.near, u.far), u));
    }
    links.add_row(link_row("all".into(), &total(&d.links)));

    let sent = d.transfer.acks_sent();
    let ratio = if source.acks_received == 0 {
        "-".into()
    } else {
        format!("{:.2}", sent as f64 / source.acks_received as f64)
    };
    format!(
        "{hashes}\n\n{links}\nBytes include Ethernet headers; the {n} unicasts are computed: {} put what its link carried on every link of each shortest path.\n\n\
         ACKs: {n} receivers sent {sent}, {} received {} (ratio {ratio})\n\
         Goodput: {:.1} Mbit/s, {} in {:.2} s\n",
        d.source,
        d.source,
        source.acks_received,
        source.goodput_bps / 1e6,
        Bytes(Octets(source.bytes)),
        source.seconds,
    )
}

fn link_row(name: String, u: &LinkUse) -> [String; 6] {
    let less = if u.down == Octets::ZERO || u.unicasts == 0 {
        "-".into()
    } else {
        format!("{:.2}x", u.unicast_down.get() as f64 / u.down.get() as f64)
    };
    [name, u.down.to_string(), u.unicast_down.to_string(), less, u.up.to_string(), u.unicast_up.to_string()]
}

fn total(links: &[LinkUse]) -> LinkUse {
    let sum = |field: fn(&LinkUse) -> Octets| links.iter().map(field).sum();
    LinkUse {
        down: sum(|u| u.down),
        up: sum(|u| u.up),
        unicasts: links.iter().map(|u| u.unicasts).sum(),
        unicast_down: sum(|u| u.unicast_down),
        unicast_up: sum(|u| u.unicast_up),
        ..links[0].clone()
    }
}

/// Programs and links of a lab that is up.
///
/// # Errors
/// Its counters are gone.
pub fn status(lab: &Lab, counters: &[LinkCounters]) -> anyhow::Result<String> {
    let state = lab.state();
    let mut programs = table(["program", "process", "state", "log"], usize::MAX);
    for (name, p) in &state.processes {
        let alive = if p.is_alive() { "running" } else { "ENDED" };
        programs.add_row([name.clone(), p.pid.to_string(), alive.into(), p.log.display().to_string()]);
    }
    let mut links = table(
        ["link", "MTU", "rate", "loss >", "loss <", "packets >", "bytes >", "lost >", "packets <", "bytes <", "lost <"],
        1,
    );
    for (link, c) in lab.links().iter().zip(counters) {
        let (to, from) = lab.loss(link)?;
        let mut row = vec![
            format!("{} <> {}", link.a, link.b),
            link.mtu.to_string(),
            link.rate.map_or("-".into(), |r| r.to_string()),
            to.to_string(),
            from.to_string(),
        ];
        for end in [c.a_to_b, c.b_to_a] {
            row.extend([end.passed_packets, end.passed_octets.get(), end.dropped_packets].map(|n| n.to_string()));
        }
        links.add_row(row);
    }
    let mut links = links.to_string();
    let mut text =
        format!("lab {} (instance {}) in {}\n", state.file.metadata.name, state.instance.label(), state.dir.display());
    if !state.processes.is_empty() {
        text += &format!("{programs}\n");
    }
    if let Some(delays) = delays(lab)? {
        links = format!("{links}\n{delays}");
    }
    Ok(format!("{text}{links}\n"))
}

/// Links that have a delay, if there are any.
fn delays(lab: &Lab) -> anyhow::Result<Option<String>> {
    let mut t = table(
        [
            "link",
            "delay",
            "by",
            "under way >",
            "forwarded >",
            "dropped >",
            "late >",
            "under way <",
            "forwarded <",
            "dropped <",
            "late <",
        ],
        1,
    );
    let mut any = false;
    for (link, delay) in lab.links().iter().zip(lab.delays()?) {
        let Some(d) = delay else { continue };
        any = true;
        let mut row = vec![format!("{} <> {}", link.a, link.b), d.delay.to_string(), d.by.name().into()];
        for c in d.line.iter().flat_map(|l| [l.a_to_b, l.b_to_a]) {
            let dropped = c.dropped_full + c.dropped_overrun + c.dropped_down;
            row.extend([c.queued_frames, c.forwarded, dropped].map(|n| n.to_string()));
            row.push(format!("{} us", c.mean_late.as_micros()));
        }
        t.add_row(row);
    }
    Ok(any.then(|| t.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{ReceiverReport, TransferReport};
    use serde_json::json;

    #[test]
    fn a_wrong_hash_and_the_ratio_of_acks_are_seen() {
        let end = |e: &str| canopy_model::topology::Endpoint::try_from(e.to_owned()).unwrap();
        let source = serde_json::from_value(
            json!({"bytes": 9, "sha256": "ab", "seconds": 1.0, "goodput_bps": 72e6, "acks_received": 3}),
        )
        .unwrap();
        let receiver = |host: &str, hash: &str| {
            ReceiverReport::from_events(host, json!({"bytes": 9, "sha256": hash}), json!({"acks_sent": 3})).unwrap()
        };
        let transfer =
            TransferReport { source, receivers: vec![receiver("r1", "ab"), receiver("r2", "cd")], links: vec![] };
        let link = LinkUse {
            near: end("s1/eth0"),
            far: end("n1/eth1"),
            down: Octets(100),
            up: Octets(10),
            unicasts: 2,
            unicast_down: Octets(200),
            unicast_up: Octets(20),
        };
        let idle = LinkUse {
            near: end("n1/eth5"),
            far: end("n2/eth1"),
            down: Octets::ZERO,
            up: Octets::ZERO,
            unicasts: 0,
            unicast_down: Octets::ZERO,
            unicast_up: Octets::ZERO,
        };
        let text = demonstration(&Demonstration { source: "s1".into(), transfer, links: vec![link, idle] });
        let line = |word: &str| text.lines().find(|l| l.contains(word)).unwrap().to_owned();
        assert!(line(" r1 ").contains("yes") && line(" r2 ").contains("NO"), "{text}");
        assert!(line("s1/eth0 > n1/eth1").contains("2.00x"), "{text}");
        assert!(line("n1/eth5").contains(" - "), "{text}");
        assert!(text.contains("2 receivers sent 6, s1 received 3 (ratio 2.00)"), "{text}");
    }
}
