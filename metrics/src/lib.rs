// SPDX-License-Identifier: Apache-2.0
//! Metrics of all daemons, once: what a family is, and how a scrape is written, bounded and served.
//!
//! - [`family`]: name, help, type and labels of a family; the reference in docs/metrics.md is made from these.
//! - [`page`]: one scrape: samples are written until its bound, and what is left out is counted.
//! - [`format`]: OpenMetrics 1.0 or Prometheus text 0.0.4, as the request's Accept header prefers.
//! - [`server`]: `GET /metrics` over HTTP/1.1, for daemons without another HTTP server.
//!
//! It knows no daemon and no family of one.

pub mod family;
pub mod format;
pub mod page;
pub mod server;

pub use family::{Description, Family, Kind};
pub use page::{Bound, Exemplar, Page, Source, Value};
