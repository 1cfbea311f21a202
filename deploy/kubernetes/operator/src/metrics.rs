// SPDX-License-Identifier: Apache-2.0
//! `/metrics`: what the operator alone knows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use canopy_metrics::{Bound, Description, Family, Kind, Page, Source};
use tokio::net::TcpListener;

/// Series in one scrape, at most.
const BOUND: Bound = Bound { most: 100, left_out: &LEFT_OUT };

static LEFT_OUT: Family<0> =
    Family::gauge("canopy_operator_series_left_out", "Series beyond the 100 that one scrape shows.", []);
static BUILD: Family<1> = Family::new(Kind::Info, "canopy_operator_build", "Version of the operator.", ["version"]);
static DRAINS_REFUSED: Family<0> = Family::gauge(
    "canopy_operator_drains_refused",
    "Nodes whose drain, or the end of it, is refused after `kubectl cordon` or `uncordon`; the operator's log has why, and for a cordoned Node its event FabricDrainRefused.",
    [],
);

/// Every family of the operator.
pub fn families() -> Vec<Description> {
    vec![LEFT_OUT.describe(), BUILD.describe(), DRAINS_REFUSED.describe()]
}

/// What is counted.
#[derive(Debug, Default)]
pub struct Metrics {
    drains_refused: AtomicU64,
}

impl Metrics {
    /// How many nodes have a drain, or an end of one, that is refused.
    pub fn set_drains_refused(&self, nodes: usize) {
        self.drains_refused.store(nodes as u64, Ordering::Relaxed);
    }

    /// How many nodes have a drain, or an end of one, that is refused.
    pub fn drains_refused(&self) -> u64 {
        self.drains_refused.load(Ordering::Relaxed)
    }
}

/// Serves until the process ends.
pub async fn serve(listener: TcpListener, metrics: Arc<Metrics>) {
    let prepare = move || {
        let scrape = Scrape(metrics.clone());
        async move { Some(scrape) }
    };
    canopy_metrics::server::serve(listener, BOUND, prepare).await;
}

struct Scrape(Arc<Metrics>);

impl Source for Scrape {
    fn scrape(&self, page: &mut Page<'_>) -> std::fmt::Result {
        page.write(&BUILD, [([env!("CARGO_PKG_VERSION")], 1)])?;
        page.one(&DRAINS_REFUSED, self.0.drains_refused())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use canopy_metrics::format::Format;

    use super::*;

    #[test]
    fn a_scrape_has_the_drains_that_are_refused() {
        let metrics = Arc::new(Metrics::default());
        metrics.set_drains_refused(2);
        let text = Format::Text.write(Scrape(metrics), BOUND).unwrap();
        assert!(text.contains("\ncanopy_operator_drains_refused 2\n"), "{text}");
        for family in families() {
            assert!(text.contains(&format!("# TYPE {} ", family.query_name())), "{}: {text}", family.name);
        }
    }
}
