// SPDX-License-Identifier: Apache-2.0
//! Chart data: what it takes, and what made room.

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

pub(super) fn families() -> Vec<Description> {
    [&OCTETS, &SERIES, &EVICTED, &LEFT_OUT].iter().map(|family| family.describe()).collect()
}

pub(super) fn write(controller: &Controller, page: &mut Page<'_>) -> std::fmt::Result {
    let usage = controller.chart_usage();
    page.one(&OCTETS, usage.octets)?;
    page.one(&SERIES, usage.series)?;
    page.one(&EVICTED, usage.evicted)?;
    page.one(&LEFT_OUT, usage.left_out)
}
