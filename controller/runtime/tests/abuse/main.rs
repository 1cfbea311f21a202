// SPDX-License-Identifier: Apache-2.0
//! What callers can do to a controller that is not broken: it answers all others in time, grows by less than 128 MiB, and lives.
//!
//! Some attacks run for a quarter of a second by default, all of them for a minute with CANOPY_DEEP (`make test-deep`), against the program itself at a
//! Unix socket, on loopback and over TLS. Attackers write their octets themselves, so that no library keeps them from what is wrong.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attacks;
mod ground;
mod honest;
mod wire;

use std::time::{Duration, Instant};

use attacks::{ALL, Attack};
use ground::Controller;

/// Of every call of an honest caller.
const DEADLINE: Duration = Duration::from_secs(10);
/// Growth of resident memory, at most.
const GROWTH: u64 = 128 << 20;

fn is_deep() -> bool {
    std::env::var_os("CANOPY_DEEP").is_some()
}

/// CANOPY_ATTACK_SECONDS and CANOPY_ATTACK, a part of its name, are for a person who searches the cause of a failure.
fn lasts() -> Duration {
    let seconds = std::env::var("CANOPY_ATTACK_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(if is_deep() { 60.0 } else { 0.25 }))
}

/// What `make test` has the time for: attacks that end by themselves, on limits that this program once did not have.
const ALWAYS: [&str; 4] = [
    "half-open TLS connections from the honest callers' own address",
    "streams without a message of a host's agent",
    "telemetry of 16 MiB that stops before its end, 1,024 streams of a node's agent",
    "millions of empty items of a node's agent",
];

fn chosen() -> Vec<&'static Attack> {
    let all = ALL.iter();
    if let Ok(part) = std::env::var("CANOPY_ATTACK") {
        return all.filter(|attack| attack.name.contains(&part)).collect();
    }
    let chosen: Vec<_> = all.filter(|attack| is_deep() || ALWAYS.contains(&attack.name)).collect();
    assert_eq!(chosen.len(), if is_deep() { ALL.len() } else { ALWAYS.len() });
    chosen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_caller_keeps_the_controller_from_others() {
    let mut failures = Vec::new();
    let mut controller = Controller::start().await;
    println!(
        "| attack | growth, MiB | descriptors left | caller: answers, p99 (times that without an attack), worst | refused |\n|---|---|---|---|---|"
    );
    let alone = Attack { name: "none", run: |_, until| Box::pin(tokio::time::sleep_until(until.into())) };
    let quiet = withstand(&mut controller, &alone, None).await.unwrap();
    for attack in chosen() {
        if let Err(why) = withstand(&mut controller, attack, Some(&quiet)).await {
            failures.push(format!("{}: {why}", attack.name));
            controller = Controller::start().await;
        } else if is_deep() {
            // Memory that one attack made the program reserve would hide the growth by the next one.
            controller = Controller::start().await;
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Returns the answer of each honest caller that only one of a hundred exceeds; `quiet` has those without an attack.
async fn withstand(
    controller: &mut Controller,
    attack: &Attack,
    quiet: Option<&[Duration]>,
) -> Result<Vec<Duration>, String> {
    let ground = controller.ground.clone();
    // What the first calls allocate is no growth.
    honest::all(&ground, Instant::now() + Duration::from_millis(100)).await;
    controller.reset_peak();
    let before = controller.used();
    let until = Instant::now() + lasts();
    let attacking = tokio::spawn((attack.run)(ground.clone(), until));
    let got = honest::all(&ground, until).await;
    attacking.abort();
    _ = attacking.await;
    if !controller.runs() {
        return Err("the controller has ended".into());
    }
    let after = controller.used();
    let growth = after.peak.saturating_sub(before.resident);
    let left = descriptors_given_back(controller, before.descriptors).await;
    let tails: Vec<Duration> = got.iter().map(|got| got.tail().0).collect();
    let without = quiet.unwrap_or(&tails);
    let callers = honest::CALLERS.iter().zip(&got).zip(without).map(|((name, got), without)| {
        let (p99, worst) = got.tail();
        let times = p99.as_secs_f64() / without.as_secs_f64();
        let [p99, worst] = [p99, worst].map(|time| time.as_secs_f64() * 1e3);
        format!("{name}: {}, {p99:.1} ms ({times:.1}), {worst:.1} ms", got.answers.len())
    });
    let callers = callers.collect::<Vec<_>>().join("; ");
    let refused: Vec<&String> = got.iter().flat_map(|got| &got.failures).collect();
    println!(
        "| {} | {:.1} | {left} | {callers} | {} |",
        attack.name,
        growth as f64 / f64::from(1 << 20),
        refused.len()
    );
    if let Some(first) = refused.first() {
        return Err(format!("{} calls were not answered, the first: {first}", refused.len()));
    }
    if growth >= GROWTH {
        return Err(format!("it grew by {} MiB", growth >> 20));
    }
    if left > 0 {
        return Err(format!("{left} descriptors are still open"));
    }
    Ok(tails)
}

/// How many more than before are open once nothing closes any more.
async fn descriptors_given_back(controller: &Controller, before: usize) -> usize {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let more = controller.used().descriptors.saturating_sub(before);
        // A few of the honest callers' last connections may be in the middle of their end.
        if more <= 4 || Instant::now() > deadline {
            return if more <= 4 { 0 } else { more };
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
