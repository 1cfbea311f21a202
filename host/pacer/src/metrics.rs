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
    Family::gauge("canopy_pacer_series_left_out", "Series beyond the 30,000 that one scrape shows.", []);
static LINES_LEFT_OUT: Family<0> = Family::counter(
    "canopy_pacer_log_lines_left_out",
    "Log lines that `log.endpoint` of the pacer did not take in time; standard error has them.",
    [],
);
static BUILD: Family<1> = Family::new(Kind::Info, "canopy_pacer_build", "Version of the pacer.", ["version"]);
static MEANS: Family<2> =
    Family::gauge("canopy_pacer_means", "1, with the pacing method as label.", ["pacing", "interface"]);
static LINE: Family<0> = Family::gauge("canopy_pacer_line_rate_bits_per_second", "Line rate.", []);
static NODES: Family<0> = Family::gauge("canopy_pacer_nodes", "Nodes whose Long-haul CNPs are accepted.", []);
static QPS: Family<0> = Family::gauge("canopy_pacer_qps", "Live queue pairs.", []);
static RECEIVED: Family<1> = Family::counter("canopy_pacer_received", "Notifications, by format.", ["format"]);
static OUTCOMES: Family<1> =
    Family::counter("canopy_pacer_outcomes", "Outcomes of notifications and of the daemon's own work.", ["reason"]);
static ACTIONS: Family<1> = Family::counter("canopy_pacer_actions", "Changes of queue pairs, by cause.", ["action"]);
static RATE: Family<2> =
    Family::gauge("canopy_pacer_qp_rate_bits_per_second", "Current rate of the queue pair.", ["qpn", "peer"]);
static PAUSED: Family<2> = Family::gauge("canopy_pacer_qp_paused", "1 while it is paused.", ["qpn", "peer"]);
static RTT: Family<2> = Family::gauge("canopy_pacer_qp_rtt_seconds", "RTT of its path.", ["qpn", "peer"]);
/// Series of one queue pair.
const QP_SERIES: usize = 3;

/// Every family of the pacer.
pub fn families() -> Vec<Description> {
    let mut all: Vec<_> =
        [&LEFT_OUT, &LINES_LEFT_OUT, &LINE, &NODES, &QPS].iter().map(|family| family.describe()).collect();
    all.extend([&BUILD, &RECEIVED, &OUTCOMES, &ACTIONS].iter().map(|family| family.describe()));
    all.extend([&MEANS, &RATE, &PAUSED, &RTT].iter().map(|family| family.describe()));
    all
}

/// Serves until the process ends.
pub(crate) async fn serve(listener: TcpListener, service: Service) {
    let prepare = move || {
        let service = service.clone();
        async move { service.ask(Request::List).await.ok().map(Scrape) }
    };
    canopy_metrics::server::serve(listener, BOUND, prepare).await;
}

struct Scrape(pb::ListQpsResponse);

impl Source for Scrape {
    fn scrape(&self, page: &mut Page<'_>) -> std::fmt::Result {
        let list = &self.0;
        let pacing = match list.pacing() {
            pb::PacingMeans::Edt => "edt",
            pb::PacingMeans::Htb => "htb",
            pb::PacingMeans::None | pb::PacingMeans::Unspecified => "none",
        };
        page.write(&BUILD, [([env!("CARGO_PKG_VERSION")], 1)])?;
        page.write(&MEANS, [([pacing, list.interface.as_str()], 1)])?;
        page.one(&LINES_LEFT_OUT, canopy_daemon::log::left_out())?;
        page.one(&LINE, list.line_rate_bps)?;
        page.one(&NODES, u64::from(list.nodes))?;
        page.one(&QPS, list.qps.len() as u64)?;
        for (family, counters) in [(&RECEIVED, &list.received), (&OUTCOMES, &list.outcomes), (&ACTIONS, &list.actions)]
        {
            page.write(family, counters.iter().map(|c| ([c.name.as_str()], c.value)))?;
        }
        let room = page.room(QP_SERIES);
        let shown: Vec<_> = list.qps.iter().take(room).map(|qp| (labels_of(qp), qp)).collect();
        page.leave_out((list.qps.len() - shown.len()) * QP_SERIES);
        let each = || shown.iter().map(|(labels, qp)| (labels.each_ref().map(String::as_str), *qp));
        page.write(&RATE, each().map(|(labels, qp)| (labels, qp.rate_bps)))?;
        page.write(&PAUSED, each().map(|(labels, qp)| (labels, u64::from(qp.pause_left_ns > 0))))?;
        page.write(&RTT, each().map(|(labels, qp)| (labels, qp.rtt_ns as f64 / 1e9)))
    }
}

fn labels_of(qp: &pb::PacedQp) -> [String; 2] {
    let peer = <[u8; 16]>::try_from(qp.peer.as_slice()).map(|p| Ipv6Addr::from(p).to_string()).unwrap_or_default();
    [qp.qpn.to_string(), peer]
}
