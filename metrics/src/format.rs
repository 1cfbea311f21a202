// SPDX-License-Identifier: Apache-2.0
//! The two formats, and which of them a request gets.
//!
//! Prometheus text is made from OpenMetrics, of which it is nearly a part: a counter's family has its samples' name, an info is a gauge, and
//! there are no units, exemplars or end.

use crate::page::{Bound, Source, open_metrics, without_exemplars};

const OPEN_METRICS: &str = "application/openmetrics-text";

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text 0.0.4: for clients that do not ask for the other.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The format that an Accept header prefers (RFC 9110 section 12.5.1); without a preference it is text.
    pub fn of(accept: &str) -> Self {
        let (mut open, mut text) = (0.0, 0.0_f64);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let mut quality = 1.0;
            let mut is_known = true;
            for part in parts {
                match part.split_once('=') {
                    Some((name, value)) if name.trim().eq_ignore_ascii_case("q") => {
                        quality = value.trim().parse().unwrap_or(0.0);
                    }
                    Some((name, value)) if name.trim().eq_ignore_ascii_case("version") => {
                        is_known = matches!(value.trim().trim_matches('"'), "1.0.0" | "0.0.4");
                    }
                    _ => {}
                }
            }
            let of = match media.to_ascii_lowercase().as_str() {
                OPEN_METRICS if is_known => &mut open,
                "text/plain" | "text/*" | "*/*" if is_known => &mut text,
                _ => continue,
            };
            *of = f64::max(*of, quality);
        }
        if open > 0.0 && open >= text { Self::OpenMetrics } else { Self::Text }
    }

    /// Value of the header Content-Type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// All of `source` within `bound`. It takes milliseconds for 50,000 series: not for a task that must not block.
    ///
    /// # Errors
    /// Those of the source.
    pub fn write(self, source: impl Source, bound: Bound) -> Result<String, std::fmt::Error> {
        match self {
            Self::OpenMetrics => open_metrics(source, bound),
            Self::Text => Ok(to_text(&without_exemplars(source, bound)?.0)),
        }
    }
}

/// OpenMetrics as Prometheus text.
fn to_text(open: &str) -> String {
    let mut out = String::with_capacity(open.len() + open.len() / 16);
    // HELP comes before TYPE, which decides the name that both have.
    let mut help = "";
    for line in open.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "unknown"));
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            out.extend(["# HELP ", name, suffix, " ", help, "\n# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            out.extend([line, "\n"]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_gets_openmetrics_and_a_client_that_asks_for_nothing_gets_text() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Format::of(prometheus), Format::OpenMetrics);
        for accept in [
            "",
            "*/*",
            "text/html,application/xhtml+xml,*/*;q=0.8",
            "text/plain;version=0.0.4",
            "application/openmetrics-text;q=0, text/plain",
            "application/openmetrics-text; version=1.0.0; q=0.3, text/plain; q=0.4",
            "application/openmetrics-text; version=2.0.0",
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
        ] {
            assert_eq!(Format::of(accept), Format::Text, "{accept}");
        }
        assert_eq!(Format::of("Application/OpenMetrics-Text; Version=\"1.0.0\""), Format::OpenMetrics);
        assert_eq!(Format::of("application/openmetrics-text"), Format::OpenMetrics);
    }

    #[test]
    fn text_differs_where_the_formats_do() {
        let open = "# HELP a_seconds Time.\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n\
            a_seconds_bucket{le=\"+Inf\"} 3\n\
            # HELP b Build.\n# TYPE b info\nb_info{version=\"1 # {\\\" #\"} 1\n\
            # HELP c Packets of a, or b.\n# TYPE c counter\nc_total 1\n\
            # HELP d Depth.\n# TYPE d gauge\nd{x=\"y\"} 0.5\n# EOF\n";
        let text = "# HELP a_seconds Time.\n# TYPE a_seconds histogram\na_seconds_bucket{le=\"+Inf\"} 3\n\
            # HELP b_info Build.\n# TYPE b_info gauge\nb_info{version=\"1 # {\\\" #\"} 1\n\
            # HELP c_total Packets of a, or b.\n# TYPE c_total counter\nc_total 1\n\
            # HELP d Depth.\n# TYPE d gauge\nd{x=\"y\"} 0.5\n";
        assert_eq!(to_text(open), text);
    }
}
