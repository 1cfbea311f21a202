// SPDX-License-Identifier: Apache-2.0
//! Pure part of a source host: inputs and the time come in, commands come out.

pub mod pacing;
