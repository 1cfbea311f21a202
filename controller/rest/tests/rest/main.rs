// SPDX-License-Identifier: Apache-2.0
//! The REST API in one process: requests to its router, without sockets. One program, since each links the whole controller.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod authorization;
mod captures;
mod change_sets;
mod charts;
mod commit;
mod deletion;
mod errors;
mod history;
mod hmac;
mod idempotency;
mod incidents;
mod limits;
mod log_levels;
mod managers;
mod map;
mod openapi;
mod operators;
mod paths;
mod problems;
mod requests;
mod resources;
mod retirements;
mod selectors;
mod sign_in;
mod site;
mod standing;
mod support;
mod tenants;
mod ui;
mod watch;
mod watch_intents;
