// SPDX-License-Identifier: Apache-2.0
//! `/metrics`: the content of `status`, read at scrape.

use std::net::Ipv6Addr;

use canopy_control::pb;
use canopy_metrics::{Bound, Description, Family, Kind, Page, Source};
use tokio::net::TcpListener;

use crate::daemon::Request;
use crate::service::Service;

/// Series in one scrape, at most.
const BOUND: Bound = Bound { most: 30_000, left_out: &LEFT_OUT };

static LEFT_OUT: Family<0> =
    Family::gauge("canopy_steer_series_left_out", "Series beyond the 30,000 that one scrape shows.", []);
static LINES_LEFT_OUT: Family<0> = Family::counter(
    "canopy_steer_log_lines_left_out",
    "Log lines that `log.endpoint` of canopy-steer did not take in time; standard error has them.",
    [],
);
static BUILD: Family<1> = Family::new(Kind::Info, "canopy_steer_build", "Version of canopy-steer.", ["version"]);
static ACTIVE: Family<1> = Family::gauge(
    "canopy_steer_steering",
    "1 while packets to hosts of the fabric get path programs; `canopy-steer status` has the reason otherwise.",
    ["interface"],
);
static AGENT_AWAY: Family<0> =
    Family::gauge("canopy_steer_agent_away_seconds", "Time since the agent of the host last answered; 0: it does.", []);
static DESTINATIONS: Family<0> =
    Family::gauge("canopy_steer_destinations", "Destinations with path programs, of at most 4096.", []);
static PACKETS: Family<1> = Family::counter(
    "canopy_steer_packets",
    "Packets by outcome: encapsulated, no_program, too_big, refused, failed; not_asked counts destinations that the daemon was not asked for.",
    ["outcome"],
);
static PROBED: Family<1> = Family::gauge(
    "canopy_steer_probed_paths",
    "Paths between edges by what probes have found: sound, faulty; left_out are not probed, because there are too many.",
    ["state"],
);
static PROBE_INTERVAL: Family<0> = Family::gauge(
    "canopy_steer_probe_interval_seconds",
    "Between two probes of a path in use: that of `probe.interval`, or more if `probe.rate` permits no more.",
    [],
);
static PROBES: Family<1> = Family::counter(
    "canopy_steer_probes",
    "Probes by outcome: back; lost: taken for lost; not_sent. Those that are late (lost, and back after all), marked (CE) or congested (marked, or waited in queues) are counted again.",
    ["outcome"],
);
static PATHS: Family<2> = Family::gauge(
    "canopy_steer_paths",
    "Paths of a destination by state: active, usable, all.",
    ["destination", "state"],
);
/// Series of one destination.
const DESTINATION_SERIES: usize = 3;

/// Every family of canopy-steer.
pub fn families() -> Vec<Description> {
    let mut all: Vec<_> = [&LEFT_OUT, &LINES_LEFT_OUT, &AGENT_AWAY, &DESTINATIONS, &PROBE_INTERVAL]
        .iter()
        .map(|family| family.describe())
        .collect();
    all.extend([&BUILD, &ACTIVE, &PACKETS, &PROBED, &PROBES].iter().map(|family| family.describe()));
    all.push(PATHS.describe());
    all
}

/// Serves until the process ends.
pub(crate) async fn serve(listener: TcpListener, service: Service) {
    let prepare = move || {
        let service = service.clone();
        async move { service.ask(Request::Get).await.ok().map(Scrape) }
    };
    canopy_metrics::server::serve(listener, BOUND, prepare).await;
}

struct Scrape(pb::GetSteeringResponse);

impl Source for Scrape {
    fn scrape(&self, page: &mut Page<'_>) -> std::fmt::Result {
        let now = &self.0;
        page.write(&BUILD, [([env!("CARGO_PKG_VERSION")], 1)])?;
        page.write(&ACTIVE, [([now.interface.as_str()], u64::from(now.steers))])?;
        page.one(&LINES_LEFT_OUT, canopy_daemon::log::left_out())?;
        page.one(&AGENT_AWAY, now.agent_away_ns as f64 / 1e9)?;
        page.one(&DESTINATIONS, now.destinations.len() as u64)?;
        page.write(&PACKETS, now.counters.iter().map(|c| ([c.name.as_str()], c.value)))?;
        if let Some(probes) = &now.probes {
            let sound = probes.ways - probes.faulty;
            let states = [("sound", sound), ("faulty", probes.faulty), ("left_out", probes.left_out)];
            page.write(&PROBED, states.map(|(state, count)| ([state], u64::from(count))))?;
            page.one(&PROBE_INTERVAL, probes.interval_ns as f64 * probes.stretch / 1e9)?;
            let pb::SteerProbes { back, congested, late, lost, marked, not_sent, .. } = *probes;
            let outcomes = [
                ("back", back),
                ("congested", congested),
                ("late", late),
                ("lost", lost),
                ("marked", marked),
                ("not_sent", not_sent),
            ];
            page.write(&PROBES, outcomes.map(|(outcome, count)| ([outcome], count)))?;
        }
        let room = page.room(DESTINATION_SERIES);
        let shown: Vec<_> = now.destinations.iter().take(room).map(|to| (name(to), to)).collect();
        page.leave_out((now.destinations.len() - shown.len()) * DESTINATION_SERIES);
        let states = |to: &pb::SteeredDestination| [("active", to.active), ("usable", to.usable), ("all", to.paths)];
        let rows = shown
            .iter()
            .flat_map(|(name, to)| states(to).map(|(state, count)| ([name.as_str(), state], u64::from(count))));
        page.write(&PATHS, rows)
    }
}

/// The prefix of a destination.
pub(crate) fn name(to: &pb::SteeredDestination) -> String {
    let octets = <[u8; 16]>::try_from(to.prefix.as_slice()).unwrap_or_default();
    format!("{}/{}", Ipv6Addr::from(octets), to.prefix_length)
}
