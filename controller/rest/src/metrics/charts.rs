// SPDX-License-Identifier: Apache-2.0
//! Chart data: what it takes, and what made room; incidents, which are made of it.

use canopy_controller_actor::Controller;
use canopy_metrics::{Description, Family, Page};

static OCTETS: Family<0> = Family::gauge("canopy_charts_bytes", "Memory of chart data; at most 268435456.", []);
static SERIES: Family<0> = Family::gauge("canopy_charts_series", "Series of chart data that are kept.", []);
static EVICTED: Family<0> =
    Family::counter("canopy_charts_series_evicted", "Series of idle objects that made room for others.", []);
static LEFT_OUT: Family<0> = Family::counter(
    "canopy_charts_samples_left_out",
    "Samples of objects for which there was no room, because no other one was idle.",
    [],
);
static INCIDENTS_LEFT_OUT: Family<0> = Family::counter(
    "canopy_incidents_left_out",
    "Openings of problems that are no incident because there were too many at once.",
    [],
);
static INCIDENTS_UNSAVED: Family<0> = Family::counter(
    "canopy_incidents_unsaved",
    "Writes of incidents that failed, or that a full or slow disk did not get.",
    [],
);

pub(super) fn families() -> Vec<Description> {
    [&OCTETS, &SERIES, &EVICTED, &LEFT_OUT, &INCIDENTS_LEFT_OUT, &INCIDENTS_UNSAVED]
        .iter()
        .map(|family| family.describe())
        .collect()
}

pub(super) fn write(controller: &Controller, page: &mut Page<'_>) -> std::fmt::Result {
    let usage = controller.chart_usage();
    page.one(&OCTETS, usage.octets)?;
    page.one(&SERIES, usage.series)?;
    page.one(&EVICTED, usage.evicted)?;
    page.one(&LEFT_OUT, usage.left_out)?;
    page.one(&INCIDENTS_LEFT_OUT, controller.incidents_left_out())?;
    page.one(&INCIDENTS_UNSAVED, controller.incidents_unsaved())
}
