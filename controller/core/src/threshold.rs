// SPDX-License-Identifier: Apache-2.0
//! Queue thresholds of a link direction from its bandwidth-delay product (decisions 4.2, draft-tian-ccwg-long-haul-cnp-00
//! section 5.3.2):
//!
//! ```text
//! K_max = max(K_base, alpha * R_port * RTT_est / 8), at most the port's buffer;  K_min = K_max / 2
//! ```
//!
//! - [`compute`]: the formula, exact in integers, rounded down to octets.
//! - [`RttFilter`]: RTT_est from samples: the smallest of the last 2.4 s, so that a queue does not raise its own threshold, and
//!   that of the last 10 min, so that samples of a link at rest change nothing. A configured round-trip time takes precedence.
//! - [`LinkThresholds`]: both, for one direction of one link, and when a change is pushed to the node.
//!
//! A kilobyte is 1000 octets.

mod filter;
mod link;

pub use canopy_model::topology::{DEFAULT_V_ECN_PERMILLE, MIN_K_BASE, V_ECN_PERMILLE};
pub use filter::{RttFilter, SETTLED, WINDOW};
pub use link::{HOLD, LinkThresholds, MIN_CHANGE_PERMILLE, MIN_STEP, Pushed, RttSource, STEP_FACTOR};

use std::time::Duration;

use canopy_model::topology::{MAX_LINK_RTT, MIN_BUFFER};
use canopy_units::{Octets, Rate, nanos};

/// Default of K_base: 64 kB.
pub const DEFAULT_K_BASE: Octets = Octets(64_000);
/// Default of alpha: 1.0.
pub const DEFAULT_ALPHA_PERMILLE: u16 = 1_000;
/// Default of the shortest measured round-trip time that is accepted: 1 us, 100 m of fibre both ways.
pub const DEFAULT_MIN_RTT: Duration = Duration::from_micros(1);
/// Longest round-trip time that is accepted: 10 s.
pub const MAX_RTT: Duration = MAX_LINK_RTT;

/// Bits in an octet, thousandths in one, nanoseconds in a second: the divisor of alpha * R * RTT.
const DIVISOR: u128 = 8 * 1_000 * 1_000_000_000;

/// Settings of an operator, per link or as the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThresholdSettings {
    /// alpha in thousandths (1..=65535); 1000 is 1.0.
    pub alpha_permille: u16,
    /// K_base (at least [`MIN_K_BASE`]).
    pub k_base: Octets,
    /// Measured round-trip times below this are refused: no path is so short, and a node that reports one would lower the thresholds of
    /// its links to K_base.
    pub min_rtt: Duration,
    /// V_ecn in packets per thousand (1..=1000), passed on to the node.
    pub v_ecn_permille: u16,
    /// V_growth in octets per millisecond (at least 1), passed on likewise; `None`: from K_min to K_max in one RTT_est.
    pub v_growth: Option<Octets>,
}

impl Default for ThresholdSettings {
    fn default() -> Self {
        Self {
            alpha_permille: DEFAULT_ALPHA_PERMILLE,
            k_base: DEFAULT_K_BASE,
            min_rtt: DEFAULT_MIN_RTT,
            v_ecn_permille: DEFAULT_V_ECN_PERMILLE,
            v_growth: None,
        }
    }
}

/// The egress port of a link direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortLimits {
    /// R_port (at least 1 bit/s).
    pub rate: Rate,
    /// What the port can queue (at least 2 octets, so that K_min is below K_max); `None` if not known.
    pub buffer: Option<Octets>,
}

/// A setting, port value or round-trip time out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {found}: give a value in {min}..={max}")]
pub struct ThresholdError {
    /// The field, as in the API.
    pub field: &'static str,
    /// The value found.
    pub found: u64,
    /// Smallest acceptable value.
    pub min: u64,
    /// Largest acceptable value.
    pub max: u64,
}

/// Thresholds of one link direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// K_max: above it, second-level response.
    pub k_max: Octets,
    /// K_min, below K_max: above it, first-level response (ECN marking).
    pub k_min: Octets,
    /// What decided K_max.
    pub bound: Bound,
}

/// What decided K_max.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The bandwidth-delay product, times alpha.
    BandwidthDelay,
    /// K_base: the product is smaller.
    Base,
    /// The port's buffer: the formula asks for more. With this bound a queue that the formula calls harmless overflows.
    Buffer {
        /// What the formula gives.
        wanted: Octets,
    },
}

/// The formula. `rtt` is in 0..=[`MAX_RTT`]; fails, naming the field, when that or an input is out of its range.
pub fn compute(settings: ThresholdSettings, port: PortLimits, rtt: Duration) -> Result<Thresholds, ThresholdError> {
    check(settings, port)?;
    rtt_within(rtt, Duration::ZERO)?;
    // At most 2^16 * 2^64 * 2^34.
    let product = u128::from(settings.alpha_permille) * u128::from(port.rate.bps()) * rtt.as_nanos() / DIVISOR;
    let product = u64::try_from(product).map_or(Octets::MAX, Octets);
    let wanted = product.max(settings.k_base);
    let buffer = port.buffer.unwrap_or(Octets::MAX);
    let bound = match wanted {
        wanted if wanted > buffer => Bound::Buffer { wanted },
        wanted if wanted > product => Bound::Base,
        _ => Bound::BandwidthDelay,
    };
    let k_max = wanted.min(buffer);
    Ok(Thresholds { k_max, k_min: k_max / 2, bound })
}

/// Time in which a port sends so many octets, at least 1 ns and at most [`MAX_RTT`].
pub(crate) fn drain_time(octets: Octets, rate: Rate) -> Duration {
    let ns = u128::from(octets.get()) * 8 * 1_000_000_000 / u128::from(rate.bps().max(1));
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)).clamp(Duration::from_nanos(1), MAX_RTT)
}

fn check(settings: ThresholdSettings, port: PortLimits) -> Result<(), ThresholdError> {
    within("alphaPermille", u64::from(settings.alpha_permille), 1, u64::from(u16::MAX))?;
    within("kBaseBytes", settings.k_base.get(), MIN_K_BASE.get(), u64::MAX)?;
    let (least, most) = (u64::from(*V_ECN_PERMILLE.start()), u64::from(*V_ECN_PERMILLE.end()));
    within("vEcn", u64::from(settings.v_ecn_permille), least, most)?;
    within("vGrowthBytesPerMs", settings.v_growth.unwrap_or(Octets::MAX).get(), 1, u64::MAX)?;
    within("rateBps", port.rate.bps(), 1, u64::MAX)?;
    within("bufferBytes", port.buffer.unwrap_or(Octets::MAX).get(), MIN_BUFFER.get(), u64::MAX)
}

/// Whether a round-trip time is in `least`..=[`MAX_RTT`].
fn rtt_within(rtt: Duration, least: Duration) -> Result<(), ThresholdError> {
    within("rttNs", nanos(rtt), nanos(least), nanos(MAX_RTT))
}

fn within(field: &'static str, found: u64, min: u64, max: u64) -> Result<(), ThresholdError> {
    if (min..=max).contains(&found) { Ok(()) } else { Err(ThresholdError { field, found, min, max }) }
}

#[cfg(test)]
mod tests;
