// SPDX-License-Identifier: Apache-2.0
//! `top group NAME`: the receivers that the source of a group waits for.

use std::io::Write;
use std::time::Duration;

use canopy_controller_api::query::LimitQuery;
use canopy_controller_api::waited::{ReceiverShare, WaitedFor, WaitedStrip};
use serde_json::Value;

use super::{segment, sparkline, with_query};
use crate::cli::TopArgs;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::{json, table, text};

/// Time between two readings with `--watch`; nodes report once a second.
const EVERY: Duration = Duration::from_secs(2);
/// Characters of a bar that is the whole.
const BAR: usize = 20;

/// See the module.
///
/// # Errors
/// The controller cannot be reached, or there is no such group.
pub async fn run(client: &Client, args: &TopArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let query = with_query("", &LimitQuery { limit: args.limit })?;
    let part = if args.strip { "/strip" } else { "" };
    let path = format!("/api/v1/groups/{}/waited-for{part}{query}", segment("group", &args.name)?);
    let doing = format!("reading the shares of group {}", args.name);
    loop {
        let answer: Value = client.get(&doing, &path).await?;
        if args.json {
            json(out, &answer)?;
        } else {
            let failed = |e: serde_json::Error| Failure::new(Exit::Error, e.to_string());
            if args.strip {
                write_strip(&serde_json::from_value(answer).map_err(failed)?, is_ascii(), out)?;
            } else {
                write(&serde_json::from_value(answer).map_err(failed)?, out)?;
            }
        }
        if !args.watch {
            return Ok(());
        }
        writeln!(out)?;
        out.flush()?;
        tokio::time::sleep(EVERY).await;
    }
}

fn write(shares: &WaitedFor, out: &mut dyn Write) -> Result<(), Failure> {
    let group = text(&shares.group);
    if shares.receivers.is_empty() {
        return Ok(writeln!(out, "group {group} has no receiver that gets data")?);
    }
    if shares.psns == 0 {
        writeln!(out, "group {group}: nothing was acknowledged to the source in the last seconds")?;
    } else {
        let covers = Duration::from_nanos(shares.covers_ns).as_secs_f64();
        writeln!(out, "group {group}: {} PSNs were acknowledged to the source in {covers:.1} s", shares.psns)?;
    }
    let rows =
        shares.receivers.iter().map(|r| vec![text(&r.host), text(&r.node), percent(r.share_ppm), wait(r), bar(r)]);
    table(out, &["RECEIVER", "EDGE", "WAITED FOR", "ACK AFTER", ""], rows.collect())?;
    if shares.left > 0 {
        writeln!(out, "{} more receivers: --limit", shares.left)?;
    }
    if shares.unknown_ppm > 0 && shares.psns > 0 {
        let share = percent(shares.unknown_ppm);
        writeln!(out, "{share} is behind nodes that do not report shares")?;
    }
    Ok(())
}

fn is_ascii() -> bool {
    !sparkline::is_utf8(|name| std::env::var(name).ok())
}

fn write_strip(strip: &WaitedStrip, is_ascii: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let group = text(&strip.group);
    if strip.receivers.is_empty() {
        return Ok(writeln!(out, "group {group} has no receiver that gets data")?);
    }
    let rows = strip.receivers.iter().map(|r| {
        let shares: Vec<Option<f32>> = r.shares_ppm.iter().map(|ppm| ppm.map(|ppm| ppm as f32 / 1e6)).collect();
        let minute = r.minute_ppm.map_or_else(|| text(()), percent);
        vec![text(&r.host), text(&r.node), minute, sparkline::shares(&shares, is_ascii)]
    });
    table(out, &["RECEIVER", "EDGE", "LAST MINUTE", "LAST 5 MINUTES"], rows.collect())?;
    if strip.left > 0 {
        writeln!(out, "{} more receivers: --limit", strip.left)?;
    }
    Ok(())
}

/// The first sentence of `why`: the receiver that the source waits for most.
pub(super) fn sentence(shares: &WaitedFor) -> Option<String> {
    let first = shares.receivers.first().filter(|_| shares.psns > 0)?;
    let (host, node, share) = (text(&first.host), text(&first.node), percent(first.share_ppm));
    Some(format!("The source waits for {host} behind {node} most: {share} of the PSNs, ACKs after {}.", wait(first)))
}

fn percent(ppm: u32) -> String {
    format!("{:.1} %", f64::from(ppm) / 10_000.0)
}

fn wait(receiver: &ReceiverShare) -> String {
    let Some(ns) = receiver.wait_ns else { return "-".to_owned() };
    let ms = ns as f64 / 1e6;
    if ms < 10.0 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}

fn bar(receiver: &ReceiverShare) -> String {
    "#".repeat((receiver.share_ppm as usize * BAR).div_ceil(1_000_000).min(BAR))
}

#[cfg(test)]
mod tests {
    use canopy_controller_api::{ApiVersion, Kind};

    use super::*;

    fn shares(receivers: &[(&str, u32, Option<u64>)], psns: u64) -> WaitedFor {
        let receiver = |(host, share_ppm, wait_ns): &(&str, u32, Option<u64>)| ReceiverShare {
            host: (*host).to_owned(),
            node: "n5".into(),
            share_ppm: *share_ppm,
            wait_ns: *wait_ns,
        };
        WaitedFor {
            api_version: ApiVersion,
            kind: Kind::WaitedFor,
            group: "g".into(),
            covers_ns: 9_400_000_000,
            psns,
            unknown_ppm: 0,
            receivers: receivers.iter().map(receiver).collect(),
            left: 0,
        }
    }

    fn shown(shares: &WaitedFor) -> String {
        let mut out = Vec::new();
        write(shares, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_receiver_that_is_waited_for_is_first_with_its_share_and_delay() {
        let two = shares(&[("r3", 974_100, Some(34_400_000)), ("r1", 25_900, Some(410_000))], 1200);
        let lines = shown(&two);
        assert!(lines.starts_with("group g: 1200 PSNs were acknowledged to the source in 9.4 s\n"), "{lines}");
        let rows: Vec<&str> = lines.lines().skip(2).collect();
        assert!(rows[0].starts_with("r3") && rows[0].contains("97.4 %") && rows[0].contains("34 ms"), "{lines}");
        assert!(rows[0].ends_with(&"#".repeat(20)) && rows[1].ends_with(" #"), "{lines}");
        assert!(rows[1].contains("2.6 %") && rows[1].contains("0.41 ms"), "{lines}");
        assert_eq!(
            sentence(&two).unwrap(),
            "The source waits for r3 behind n5 most: 97.4 % of the PSNs, ACKs after 34 ms."
        );
    }

    /// Catches a strip on the scale of its largest share: of a receiver that is waited for little it would be full.
    #[test]
    fn a_strip_has_the_share_of_the_whole_at_each_time() {
        let row = |host: &str, ppm: u32| canopy_controller_api::waited::StripReceiver {
            host: host.into(),
            node: "n5".into(),
            minute_ppm: Some(ppm),
            shares_ppm: [vec![None; 290], vec![Some(ppm); 10]].concat(),
        };
        let strip = WaitedStrip {
            api_version: ApiVersion,
            kind: Kind::WaitedStrip,
            group: "g".into(),
            start_unix_ns: 0,
            receivers: vec![row("r3", 1_000_000), row("r1", 20_000)],
            left: 3,
        };
        let mut out = Vec::new();
        write_strip(&strip, true, &mut out).unwrap();
        let shown = String::from_utf8(out).unwrap();
        let rows: Vec<&str> = shown.lines().collect();
        assert!(rows[1].contains("100.0 %") && rows[1].ends_with("  ##"), "{shown}");
        assert!(rows[2].contains("2.0 %") && rows[2].ends_with("  __"), "{shown}");
        assert_eq!(rows[3], "3 more receivers: --limit");
    }

    #[test]
    fn what_is_not_known_or_not_listed_is_stated() {
        let mut quiet = shares(&[("r1", 0, None)], 0);
        assert!(shown(&quiet).starts_with("group g: nothing was acknowledged"));
        assert_eq!(sentence(&quiet), None);
        (quiet.psns, quiet.left, quiet.unknown_ppm) = (9, 90, 500_000);
        let lines = shown(&quiet);
        assert!(lines.contains("90 more receivers: --limit\n50.0 % is behind nodes that do not report"), "{lines}");
        assert_eq!(shown(&shares(&[], 0)), "group g has no receiver that gets data\n");
    }
}
