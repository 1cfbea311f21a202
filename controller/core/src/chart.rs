// SPDX-License-Identifier: Apache-2.0
//! Chart data: mean and maximum of what is measured, over the last minutes and hours. Pure: readings with their time in, points out.
//!
//! - [`series`]: what is charted of which object.
//! - [`span`]: the stretch of time that a reading stands for, by the clock of the node that sent it.
//! - [`ring`]: the points of one series at one resolution.
//! - [`track`]: one series: counters become rates, and a reading that has no predecessor is a gap.
//! - [`store`]: all series within a budget of octets.

pub mod ring;
pub mod series;
pub mod span;
pub mod store;
pub mod track;
