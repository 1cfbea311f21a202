// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/charts`: what was measured over the last minutes and hours.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use canopy_controller_actor::Controller;
use canopy_controller_api::chart::{ChartSeries, ChartUnit, Charts};
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::ChartQuery;
use canopy_controller_api::{ApiVersion, Kind};
use canopy_controller_core::chart::ring::Point;
use canopy_controller_core::chart::series::{ChartObject, Series, Unit};
use canopy_controller_core::role::Role;

use crate::caller::Sender;
use crate::error::ApiError;
use crate::extract::ApiQuery;

/// Mean and maximum of the series of an object. A gap is `null`, never zero.
#[utoipa::path(get, path = "/api/v1/charts", tag = "charts", operation_id = "getCharts", params(ChartQuery),
    responses((status = 200, body = Charts, description = "the series"), (status = 400, body = Problem, description = "a parameter is wrong"), (status = 404, body = Problem, description = "nothing is kept of the object")))]
pub(crate) async fn get(
    State(controller): State<Controller>,
    Sender(by): Sender,
    ApiQuery(query): ApiQuery<ChartQuery>,
) -> Result<Response, ApiError> {
    let object: ChartObject = query.object.parse().map_err(|why| ApiError::bad_request("object", why))?;
    let series = query.series.as_deref().map(str::parse::<Series>).transpose();
    let series = series.map_err(|why| ApiError::bad_request("series", why))?;
    let scope = by.scope(Role::Viewer);
    let is_seen = || match &object {
        _ if scope.is_domain() => true,
        ChartObject::Group(name) => controller.read(|d| d.tenant_of(name).is_some_and(|tenant| scope.has(tenant))),
        _ => false,
    };
    let nothing = || {
        let detail = format!(
            "nothing is kept of {object}: it does not exist, or nothing was measured of it yet, or it was idle and made room for others"
        );
        ApiError::new(StatusCode::NOT_FOUND, "NotFound", detail)
    };
    // First: a refusal of another parameter would show that there is something.
    if !is_seen() {
        return Err(nothing());
    }
    let charted = controller.chart(&object, series, query.from, query.to, query.step);
    let charted = charted.map_err(|(field, why)| ApiError::bad_request(field, why))?;
    // Once more: another tenant's group may have got the name.
    let charted = charted.filter(|_| is_seen()).ok_or_else(nothing)?;
    let all = charted.charts.into_iter().map(|chart| item(&object, chart.series, &chart.points));
    let charts = Charts {
        api_version: ApiVersion,
        kind: Kind::Charts,
        start_unix_ns: charted.start.nanos(),
        step_seconds: charted.step,
        series: all.collect(),
    };
    Ok(([(CACHE_CONTROL, "no-store")], Json(charts)).into_response())
}

pub(super) fn item(object: &ChartObject, series: Series, points: &[Option<Point>]) -> ChartSeries {
    ChartSeries {
        object: object.to_string(),
        series: series.name().to_owned(),
        unit: unit(series.unit()),
        points: points.iter().map(|point| point.map(Into::into)).collect(),
    }
}

fn unit(unit: Unit) -> ChartUnit {
    match unit {
        Unit::BytesPerSecond => ChartUnit::BytesPerSecond,
        Unit::PerSecond => ChartUnit::PerSecond,
        Unit::Packets => ChartUnit::Packets,
        Unit::Bytes => ChartUnit::Bytes,
        Unit::Seconds => ChartUnit::Seconds,
        Unit::Share => ChartUnit::Share,
        Unit::Count => ChartUnit::Count,
    }
}
