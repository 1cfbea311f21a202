// SPDX-License-Identifier: Apache-2.0
//! `chart OBJECT [SERIES]`: a line per series with its minimum, mean and maximum; `chart --incident ID`: the same around the opening of a
//! problem.

use std::io::Write;
use std::time::Duration;

use canopy_controller_api::chart::{ChartSeries, ChartUnit, Charts};
use canopy_controller_api::health::DomainStatus;
use canopy_controller_api::incident::{Incident, IncidentProblem};
use canopy_controller_api::query::ChartQuery;
use serde_json::Value;

use super::rows::instant;
use super::sparkline::{draw, is_utf8};
use super::{segment, with_query};
use crate::cli::ChartArgs;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::{json, table, text};

/// See the module.
///
/// # Errors
/// Nothing is kept of the object, or the controller cannot be reached.
pub async fn run(client: &Client, args: &ChartArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let is_ascii = args.ascii || !is_utf8(|name| std::env::var(name).ok());
    if let Some(id) = &args.incident {
        return of_incident(client, id, args.json, is_ascii, out).await;
    }
    let object = args.object.clone().unwrap_or_default();
    let doing = format!("reading the charts of {object}");
    let whole = |field: &str, span: Duration| match span.subsec_nanos() {
        0 => Ok(span.as_secs()),
        _ => Err(Failure::new(Exit::Usage, format!("--{field}: use whole seconds"))),
    };
    let step = args.step.map(|step| whole("step", step)).transpose()?;
    let from = match args.from {
        None => None,
        Some(ago) => {
            let ago = whole("from", ago)?;
            // By the controller's clock.
            let status: DomainStatus = client.get(&doing, "/api/v1/status").await?;
            Some((status.time_unix_ns / 1_000_000_000).saturating_sub(ago))
        }
    };
    let query = ChartQuery { object, series: args.series.clone(), from, to: None, step };
    let path = with_query("/api/v1/charts", &query)?;
    if args.json {
        return json(out, &client.get::<Value>(&doing, &path).await?);
    }
    let charts: Charts = client.get(&doing, &path).await?;
    write(&charts, is_ascii, out)
}

async fn of_incident(
    client: &Client,
    id: &str,
    is_json: bool,
    is_ascii: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let doing = format!("reading incident {id}");
    let path = format!("/api/v1/incidents/{}", segment("incident", id)?);
    if is_json {
        return json(out, &client.get::<Value>(&doing, &path).await?);
    }
    let found: Incident = client.get(&doing, &path).await?;
    let (of, known) = (&found.incident.of, &found.incident);
    let severity = text(&known.severity).to_uppercase();
    writeln!(out, "{severity}: {} {} {} ({})", text(&of.kind), text(&of.name), text(&known.title), text(&of.code))?;
    let closed = known.closed_unix_ns.map_or_else(String::new, |at| format!(", closed {}", instant(at)));
    writeln!(out, "opened {}{closed}", instant(known.opened_unix_ns))?;
    for evidence in &known.evidence {
        writeln!(out, "seen: {}", text(evidence))?;
    }
    let names = |all: &[IncidentProblem]| {
        all.iter()
            .map(|p| format!("{} {} ({})", text(&p.kind), text(&p.name), text(&p.code)))
            .collect::<Vec<_>>()
            .join(", ")
    };
    for (title, all) in [("caused by", &known.causes), ("affected", &known.affects)] {
        if !all.is_empty() {
            writeln!(out, "{title}: {}", names(all))?;
        }
    }
    if found.series.is_empty() {
        return Ok(writeln!(out, "\nnothing was measured of it around that time")?);
    }
    let steps = found.series.iter().map(|series| series.points.len()).max().unwrap_or(0) as u64;
    let end = found.start_unix_ns + steps * found.step_seconds * 1_000_000_000;
    writeln!(out, "\n{} to {}", instant(found.start_unix_ns), instant(end))?;
    let rows = found.series.iter().map(|series| {
        let mut cells = row(series, is_ascii);
        cells.insert(0, text(&series.object));
        cells
    });
    table(out, &["OBJECT", "SERIES", "MIN", "MEAN", "MAX", "CHART"], rows.collect())
}

fn write(charts: &Charts, is_ascii: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let steps = charts.series.iter().map(|series| series.points.len()).max().unwrap_or(0) as u64;
    let end = charts.start_unix_ns + steps * charts.step_seconds * 1_000_000_000;
    writeln!(out, "{} to {}, {} s per point", instant(charts.start_unix_ns), instant(end), charts.step_seconds)?;
    let rows = charts.series.iter().map(|series| row(series, is_ascii));
    table(out, &["SERIES", "MIN", "MEAN", "MAX", "CHART"], rows.collect())
}

fn row(series: &ChartSeries, is_ascii: bool) -> Vec<String> {
    let means: Vec<Option<f32>> = series.points.iter().map(|point| point.map(|[mean, _]| mean)).collect();
    let known: Vec<f32> = means.iter().flatten().copied().collect();
    let shown = |value: Option<f32>| value.map_or_else(|| text(()), |value| quantity(value, series.unit));
    let mean = (!known.is_empty()).then(|| known.iter().sum::<f32>() / known.len() as f32);
    let max = series.points.iter().flatten().map(|[_, max]| *max).reduce(f32::max);
    vec![
        text(&series.series),
        shown(known.iter().copied().reduce(f32::min)),
        shown(mean),
        shown(max),
        draw(&means, is_ascii),
    ]
}

/// A value with its unit.
fn quantity(value: f32, unit: ChartUnit) -> String {
    match unit {
        ChartUnit::BytesPerSecond => scaled(value * 8.0, 1000.0, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]),
        ChartUnit::PerSecond => scaled(value, 1000.0, &["/s", "k/s", "M/s", "G/s"]),
        ChartUnit::Packets => scaled(value, 1000.0, &["packets", "k packets", "M packets"]),
        ChartUnit::Bytes => scaled(value, 1000.0, &["B", "kB", "MB", "GB"]),
        ChartUnit::Seconds => scaled(value * 1e9, 1000.0, &["ns", "us", "ms", "s"]),
        ChartUnit::Share => format!("{} %", digits(value * 100.0)),
        ChartUnit::Count => digits(value),
    }
}

fn scaled(mut value: f32, by: f32, units: &[&str]) -> String {
    let mut at = 0;
    while value.abs() >= by && at + 1 < units.len() {
        value /= by;
        at += 1;
    }
    format!("{} {}", digits(value), units[at])
}

/// Three digits that matter.
fn digits(value: f32) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use canopy_controller_api::{ApiVersion, Kind};

    use super::*;

    #[test]
    fn quantities_have_the_units_of_everyday_use() {
        assert_eq!(quantity(5.15e9, ChartUnit::BytesPerSecond), "41.2 Gbit/s");
        assert_eq!(quantity(0.0031, ChartUnit::Seconds), "3.1 ms");
        assert_eq!(quantity(0.05, ChartUnit::Share), "5 %");
        assert_eq!(
            (quantity(0.0, ChartUnit::PerSecond), quantity(1234.0, ChartUnit::Bytes)),
            ("0 /s".into(), "1.23 kB".into())
        );
        assert_eq!(
            (quantity(100.0, ChartUnit::Count), quantity(-2000.0, ChartUnit::Bytes)),
            ("100".into(), "-2 kB".into())
        );
    }

    #[test]
    fn a_series_without_points_has_no_numbers_and_gaps_stay_blank() {
        let series = |name: &str, points| ChartSeries {
            object: "group/g".into(),
            series: name.into(),
            unit: ChartUnit::Packets,
            points,
        };
        let charts = Charts {
            api_version: ApiVersion,
            kind: Kind::Charts,
            start_unix_ns: 0,
            step_seconds: 1,
            series: vec![series("lag", vec![Some([1.0, 2.0]), None, Some([3.0, 9.0])]), series("none", vec![None; 3])],
        };
        let mut out = Vec::new();
        write(&charts, true, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with(", 1 s per point"), "{text}");
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>(),
            ["lag", "1", "packets", "2", "packets", "9", "packets", ",", "#"]
        );
        assert_eq!(lines[3].split_whitespace().collect::<Vec<_>>(), ["none", "-", "-", "-"]);
    }
}
