// SPDX-License-Identifier: Apache-2.0

use std::sync::mpsc;

use super::*;

fn key(host: &str) -> Key {
    ("g".to_owned(), host.to_owned())
}

/// A hold, and where its release is reported.
fn hold(leases: &Arc<Leases>, host: &str) -> (Hold, mpsc::Receiver<Unheld>) {
    let (send, receive) = mpsc::channel();
    (leases.hold(key(host), move |unheld| send.send(unheld).unwrap()).unwrap(), receive)
}

fn wait(unheld: &Unheld) -> Duration {
    unheld.at - Instant::now()
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_due_while_no_stream_holds_it() {
    let dir = tempfile::tempdir().unwrap();
    let (leases, none) = Leases::load(dir.path());
    assert!(none.is_empty() && leases.hold(key("h1"), |_| ()).is_err(), "there is no lease yet");
    let unclaimed = leases.start(&key("h1")).unwrap();
    assert_eq!(wait(&unclaimed), UNCLAIMED);
    assert!(leases.is_due(&unclaimed));
    let (first, released) = hold(&leases, "h1");
    let (second, released_last) = hold(&leases, "h1");
    assert!(!leases.is_due(&unclaimed));
    drop(first);
    assert!(released.try_recv().is_err(), "the other stream still holds it");
    // The joins' own time is used up.
    tokio::time::advance(UNCLAIMED).await;
    drop(second);
    let unheld = released_last.try_recv().unwrap();
    assert_eq!(wait(&unheld), RELEASED);
    assert!(leases.is_due(&unheld) && !leases.is_due(&unclaimed));
    // A successor joins with the same content.
    leases.start(&key("h1")).unwrap();
    assert!(!leases.is_due(&unheld));
}

#[tokio::test(start_paused = true)]
async fn leases_outlast_the_agent_and_have_to_be_held_again() {
    let dir = tempfile::tempdir().unwrap();
    let (leases, _) = Leases::load(dir.path());
    for host in ["h1", "h2", "h3"] {
        leases.start(&key(host)).unwrap();
    }
    leases.end(&key("h2"));
    let (leases, unheld) = Leases::load(dir.path());
    assert_eq!(unheld.iter().map(|u| u.key.1.as_str()).collect::<Vec<_>>(), ["h1", "h3"]);
    assert!(unheld.iter().all(|u| wait(u) == UNCLAIMED));
    let _held = hold(&leases, "h1");
    assert_eq!(unheld.iter().map(|u| leases.is_due(u)).collect::<Vec<_>>(), [false, true]);
    leases.forget_group("g");
    assert!(Leases::load(dir.path()).1.is_empty());

    std::fs::write(dir.path().join("host-leases"), "canopy-host-leases 1 00000000\ng h1\n").unwrap();
    assert!(Leases::load(dir.path()).1.is_empty(), "a damaged file is put aside");
    assert!(dir.path().join("host-leases.damaged").exists());
    leases.start(&key("h4")).unwrap();
    assert_eq!(Leases::load(dir.path()).1.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn streams_of_an_ended_membership_end_and_do_not_count_for_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let (leases, _) = Leases::load(dir.path());
    leases.start(&key("h1")).unwrap();
    let (mut old, released) = hold(&leases, "h1");
    leases.end(&key("h1"));
    old.ended().await;
    leases.start(&key("h1")).unwrap();
    let (new, released_new) = hold(&leases, "h1");
    drop(old);
    assert!(released.try_recv().is_err());
    drop(new);
    assert!(leases.is_due(&released_new.try_recv().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_was_stopped_gives_processes_time_to_hold_their_leases_again() {
    let dir = tempfile::tempdir().unwrap();
    let (leases, _) = Leases::load(dir.path());
    leases.start(&key("h1")).unwrap();
    let ticking = tokio::spawn({
        let leases = Arc::clone(&leases);
        async move { leases.watch_the_clock().await }
    });
    let grace = || leases.grace().map(|end| end - Instant::now());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(grace(), None);
    // Nothing runs for three seconds: before the clock is read, and after.
    tokio::time::advance(Duration::from_secs(3)).await;
    assert!(grace().is_some_and(|left| left > UNCLAIMED - TICK));
    tokio::time::sleep(TICK * 2).await;
    assert!(grace().is_some_and(|left| left > UNCLAIMED - TICK * 3));
    tokio::time::sleep(UNCLAIMED).await;
    assert_eq!(grace(), None);
    ticking.abort();
}

#[tokio::test(start_paused = true)]
async fn a_release_does_not_shorten_the_time_of_a_process_that_has_just_joined() {
    let dir = tempfile::tempdir().unwrap();
    let (leases, _) = Leases::load(dir.path());
    leases.start(&key("h1")).unwrap();
    let (first, released) = hold(&leases, "h1");
    leases.start(&key("h1")).unwrap();
    drop(first);
    assert_eq!(wait(&released.try_recv().unwrap()), UNCLAIMED);
}

#[tokio::test(start_paused = true)]
async fn nothing_holds_a_lease_that_is_ending_and_a_failed_end_gives_it_back() {
    let dir = tempfile::tempdir().unwrap();
    let (leases, _) = Leases::load(dir.path());
    let unheld = leases.start(&key("h1")).unwrap();
    let refusal = |leases: &Arc<Leases>| leases.hold(key("h1"), |_| ()).err().map(|status| status.code());
    assert!(leases.begin_end(&unheld));
    assert_eq!(refusal(&leases), Some(tonic::Code::Unavailable));
    leases.keep(&unheld);
    let held: Vec<_> = (0..STREAMS).map(|_| hold(&leases, "h1")).collect();
    assert_eq!(refusal(&leases), Some(tonic::Code::ResourceExhausted));
    assert!(!leases.begin_end(&unheld), "it is held");
    drop(held);
    leases.end(&key("h1"));
    assert_eq!(refusal(&leases), Some(tonic::Code::NotFound));
}

/// Catches a lease that ends while its process wants to hold it and cannot be identified, and one that is kept without end once it is held.
#[tokio::test(start_paused = true)]
async fn a_lease_waits_for_a_process_that_cannot_be_identified() {
    let dir = tempfile::tempdir().unwrap();
    let (leases, _) = Leases::load(dir.path());
    assert!(leases.wait_longer(&key("h1")).is_none(), "there is none");
    let first = leases.start(&key("h1")).unwrap();
    assert!(leases.wait_longer(&key("h1")).is_none(), "it has all of its time yet");
    tokio::time::advance(UNCLAIMED / 2).await;
    let longer = leases.wait_longer(&key("h1")).unwrap();
    assert_eq!(wait(&longer), UNCLAIMED);
    assert!(!leases.is_due(&first) && leases.is_due(&longer));
    let (held, _released) = hold(&leases, "h1");
    tokio::time::advance(UNCLAIMED).await;
    assert!(leases.wait_longer(&key("h1")).is_none() && !leases.is_due(&longer));
    drop(held);
}
