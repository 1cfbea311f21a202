// SPDX-License-Identifier: Apache-2.0
//! What the BPF programs are judged by: the same rules, written for the reader. It shares no code with them, and no program that is
//! deployed contains it. Its own tests check the rules themselves, on every order of events (`tests/model`).

pub mod aggregate;
