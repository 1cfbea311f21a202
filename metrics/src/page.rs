// SPDX-License-Identifier: Apache-2.0
//! One scrape, within a bound: a fabric of any size costs Prometheus no more series than documented.

use std::fmt::{Debug, Formatter, Result};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::family::{Family, Kind};

/// Most series of a scrape, and the family that counts those beyond.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Series, that family not counted.
    pub most: usize,
    /// A gauge, 0 while everything is shown.
    pub left_out: &'static Family<0>,
}

/// What can be scraped: all of it is known already, so writing it waits for nothing.
pub trait Source: Send + Sync + 'static {
    /// Writes every family once, the most important first.
    ///
    /// # Errors
    /// Those of `page`.
    fn scrape(&self, page: &mut Page<'_>) -> Result;
}

/// Value of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Whole(u64),
    /// Any other.
    Real(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

/// An observation in a bucket of a histogram, with the trace that it is of (OpenMetrics 1.0, "Exemplars"). Prometheus text has none.
#[derive(Clone, Debug, PartialEq)]
pub struct Exemplar {
    /// Which bucket, from 0 on.
    pub bucket: usize,
    /// Id of the trace: 32 hexadecimal digits.
    pub trace: String,
    /// What was observed.
    pub value: f64,
    /// When, since 1970.
    pub at: Duration,
}

/// Exemplars of a scrape, each with the name of its family.
type Exemplars = Vec<(&'static str, Exemplar)>;

/// A scrape that is being written.
pub struct Page<'a> {
    out: DescriptorEncoder<'a>,
    room: usize,
    left_out: u64,
    exemplars: Exemplars,
}

impl Page<'_> {
    /// How many objects with `series` samples each fit in what is left.
    pub fn room(&self, series: usize) -> usize {
        self.room / series.max(1)
    }

    /// Counts samples that the caller does not write.
    pub fn leave_out(&mut self, series: usize) {
        self.left_out += series as u64;
    }

    /// Writes a family's samples, each with the values of its labels. What does not fit is counted.
    ///
    /// # Errors
    /// None of its own: the text is in memory.
    pub fn write<'s, const N: usize, V: Into<Value>>(
        &mut self,
        family: &Family<N>,
        samples: impl IntoIterator<Item = ([&'s str; N], V)>,
    ) -> Result {
        let kind = match family.kind {
            Kind::Gauge => MetricType::Gauge,
            Kind::Counter => MetricType::Counter,
            Kind::Info => MetricType::Info,
            Kind::Histogram => return Err(std::fmt::Error),
        };
        let mut metric = self.out.encode_descriptor(family.name, family.help, None, kind)?;
        let mut samples = samples.into_iter();
        for (values, value) in samples.by_ref().take(self.room) {
            self.room -= 1;
            let labels: [(&str, &str); N] = std::array::from_fn(|i| (family.labels[i], values[i]));
            match family.kind {
                Kind::Info => metric.encode_info(&labels)?,
                _ if N == 0 => write_value(&mut metric, family.kind, value.into())?,
                _ => write_value(&mut metric.encode_family(&labels)?, family.kind, value.into())?,
            }
        }
        self.left_out += samples.count() as u64;
        Ok(())
    }

    /// Writes a family of one sample without labels.
    ///
    /// # Errors
    /// See [`Page::write`].
    pub fn one(&mut self, family: &Family<0>, value: impl Into<Value>) -> Result {
        self.write(family, [([], value.into())])
    }

    /// Writes a histogram: of each bucket its upper bound and what is in it alone, the last bound being infinite; and of each at most one
    /// exemplar.
    ///
    /// # Errors
    /// See [`Page::write`].
    pub fn histogram(
        &mut self,
        family: &Family<0>,
        sum: f64,
        buckets: &[(f64, u64)],
        exemplars: Vec<Exemplar>,
    ) -> Result {
        let series = buckets.len() + 2;
        if series > self.room {
            self.leave_out(series);
            return Ok(());
        }
        self.room -= series;
        let mut metric = self.out.encode_descriptor(family.name, family.help, None, MetricType::Histogram)?;
        let count = buckets.iter().map(|(_, n)| n).sum();
        metric.encode_histogram::<NoLabelSet>(sum, count, buckets, None)?;
        self.exemplars.extend(exemplars.into_iter().map(|exemplar| (family.name, exemplar)));
        Ok(())
    }
}

fn write_value(metric: &mut MetricEncoder<'_>, kind: Kind, value: Value) -> Result {
    match (kind, value) {
        (Kind::Counter, Value::Whole(value)) => metric.encode_counter::<NoLabelSet, _, u64>(&value, None),
        (Kind::Counter, Value::Real(value)) => metric.encode_counter::<NoLabelSet, _, u64>(&value, None),
        (_, Value::Whole(value)) => metric.encode_gauge(&value),
        (_, Value::Real(value)) => metric.encode_gauge(&value),
    }
}

/// All of `source` within `bound`, as OpenMetrics text.
///
/// # Errors
/// Those of the source.
pub fn open_metrics(source: impl Source, bound: Bound) -> std::result::Result<String, std::fmt::Error> {
    let (text, exemplars) = without_exemplars(source, bound)?;
    Ok(if exemplars.is_empty() { text } else { with_exemplars(&text, &exemplars) })
}

/// The same text without its exemplars, and these.
///
/// # Errors
/// Those of the source.
pub(crate) fn without_exemplars(
    source: impl Source,
    bound: Bound,
) -> std::result::Result<(String, Exemplars), std::fmt::Error> {
    let mut registry = Registry::default();
    let exemplars: Arc<Mutex<Exemplars>> = Arc::default();
    let scrape = Scrape { source: Mutex::new(source), bound, exemplars: exemplars.clone() };
    registry.register_collector(Box::new(scrape));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    let exemplars = std::mem::take(&mut *exemplars.lock().unwrap_or_else(PoisonError::into_inner));
    Ok((text, exemplars))
}

/// Puts exemplars behind the buckets that they are of: prometheus-client has no way to write one that it has not observed itself.
fn with_exemplars(text: &str, exemplars: &[(&str, Exemplar)]) -> String {
    let mut out = String::with_capacity(text.len() + 128 * exemplars.len());
    let (mut family, mut bucket) = ("", 0);
    for line in text.lines() {
        out.push_str(line);
        let name = line.split_once("_bucket{").map_or("", |(name, _)| name);
        bucket = if name == family { bucket + 1 } else { 0 };
        family = name;
        let of_it = |(of, exemplar): &&(&str, Exemplar)| *of == name && exemplar.bucket == bucket;
        if let Some((_, Exemplar { trace, value, at, .. })) = exemplars.iter().find(of_it) {
            let (seconds, millis) = (at.as_secs(), at.subsec_millis());
            out.push_str(&format!(" # {{trace_id=\"{trace}\"}} {value} {seconds}.{millis:03}"));
        }
        out.push('\n');
    }
    out
}

/// `Collector` must be `Sync` and is written once.
struct Scrape<S> {
    source: Mutex<S>,
    bound: Bound,
    exemplars: Arc<Mutex<Exemplars>>,
}

impl<S> Debug for Scrape<S> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("Scrape")
    }
}

impl<S: Source> Collector for Scrape<S> {
    fn encode(&self, out: DescriptorEncoder<'_>) -> Result {
        let source = self.source.lock().map_err(|_| std::fmt::Error)?;
        let mut page = Page { out, room: self.bound.most, left_out: 0, exemplars: Vec::new() };
        source.scrape(&mut page)?;
        let left_out = page.left_out;
        page.room = 1;
        page.one(self.bound.left_out, left_out)?;
        *self.exemplars.lock().map_err(|_| std::fmt::Error)? = page.exemplars;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static LEFT_OUT: Family<0> = Family::gauge("t_left_out", "Series left out.", []);
    static PACKETS: Family<2> = Family::counter("t_packets", "Packets.", ["port", "reason"]);
    static DEPTH: Family<1> = Family::gauge("t_depth_bytes", "Depth.", ["port"]);
    static TIME: Family<0> = Family::new(Kind::Histogram, "t_seconds", "Time.", []);
    static BUILD: Family<1> = Family::new(Kind::Info, "t_build", "Build.", ["version"]);

    /// Series that the test's source does not write.
    const LEFT_OUT_BY_CALLER: usize = 3;
    /// Those that it does.
    const SERIES: usize = 10;

    struct Test;

    impl Source for Test {
        fn scrape(&self, page: &mut Page<'_>) -> Result {
            page.write(&BUILD, [(["1.0"], 1)])?;
            let trace = "4bf92f3577b34da6a3ce929d0e0e4736".to_owned();
            let exemplar = Exemplar { bucket: 1, trace, value: 1.25, at: Duration::from_millis(1_700_000_000_007) };
            page.histogram(&TIME, 2.5, &[(1.0, 1), (f64::INFINITY, 2)], vec![exemplar])?;
            page.write(&DEPTH, [(["a\"\\\n"], 0.5), (["b"], 1.0)])?;
            page.leave_out(LEFT_OUT_BY_CALLER);
            page.write(&PACKETS, [(["a", "x"], 1), (["b", "y"], 2), (["c", "z"], 3)])
        }
    }

    fn text(most: usize) -> String {
        open_metrics(Test, Bound { most, left_out: &LEFT_OUT }).unwrap()
    }

    #[test]
    fn families_have_their_type_and_labels() {
        let text = text(100);
        let expected = "# HELP t_build Build.\n# TYPE t_build info\nt_build_info{version=\"1.0\"} 1\n\
            # HELP t_seconds Time.\n# TYPE t_seconds histogram\nt_seconds_sum 2.5\nt_seconds_count 3\n\
            t_seconds_bucket{le=\"1.0\"} 1\n\
            t_seconds_bucket{le=\"+Inf\"} 3 # {trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\"} 1.25 1700000000.007\n\
            # HELP t_depth_bytes Depth.\n# TYPE t_depth_bytes gauge\n\
            t_depth_bytes{port=\"a\\\"\\\\\\n\"} 0.5\nt_depth_bytes{port=\"b\"} 1.0\n\
            # HELP t_packets Packets.\n# TYPE t_packets counter\nt_packets_total{port=\"a\",reason=\"x\"} 1\n\
            t_packets_total{port=\"b\",reason=\"y\"} 2\nt_packets_total{port=\"c\",reason=\"z\"} 3\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }

    /// Catches an exemplar in Prometheus text, which its parsers refuse with the whole scrape, and one of a histogram that was left out.
    #[test]
    fn prometheus_text_has_no_exemplar() {
        let bound = Bound { most: 100, left_out: &LEFT_OUT };
        let text = crate::format::Format::Text.write(Test, bound).unwrap();
        assert!(text.contains("t_seconds_bucket{le=\"+Inf\"} 3\n") && !text.contains("trace_id"), "{text}");
        let open = crate::format::Format::OpenMetrics.write(Test, bound).unwrap();
        assert_eq!(open.matches("trace_id").count(), 1, "{open}");
        assert!(!self::text(2).contains("trace_id"));
    }

    /// A page that wrote one more, or that forgot one, has another sum.
    #[test]
    fn a_scrape_has_its_bound_and_counts_the_rest() {
        for most in 0..=SERIES + 1 {
            let text = text(most);
            let samples = text.lines().filter(|line| !line.starts_with('#') && !line.starts_with("t_left_out"));
            let shown = samples.count();
            let left_out = text.lines().find_map(|line| line.strip_prefix("t_left_out ")).unwrap();
            assert!(shown <= most, "{most}: {text}");
            let all = SERIES + LEFT_OUT_BY_CALLER;
            assert_eq!(shown + left_out.parse::<usize>().unwrap(), all, "{most}: {text}");
        }
    }
}
