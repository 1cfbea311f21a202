// SPDX-License-Identifier: Apache-2.0
//! One authority replaces another: the order of the steps, what they wait for, and what a kill in any of them leaves.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use canopy_controller_authority::{Act, Registrar, RotationError, Settings, Step};
use canopy_identity::{AuthorityHash, ConnectError, Credentials, PrivateKey, RENEWABLE, Subject, Trust};
use canopy_units::UnixTime;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const FILES: [&str; 4] = ["authority-key.pem", "authority.pem", "next-authority-key.pem", "next-authority.pem"];

fn settings(directory: &Path) -> Settings {
    Settings { directory: directory.join("identity"), domain: "canopy".parse().unwrap(), lifetime: LIFETIME }
}

fn open(directory: &Path) -> Arc<Registrar> {
    Registrar::open(settings(directory), UnixTime::now()).unwrap()
}

fn subject(name: &str) -> Subject {
    name.parse().unwrap()
}

fn enrolled(registrar: &Registrar, name: &str) -> Credentials {
    enrolled_at(registrar, name, UnixTime::now())
}

fn enrolled_at(registrar: &Registrar, name: &str, at: UnixTime) -> Credentials {
    let (subject, key) = (subject(name), PrivateKey::generate().unwrap());
    let token = registrar.hand_out(subject.clone(), at).unwrap().token;
    let made = registrar.enroll(&token.secret, &subject, &key.request().unwrap(), at).unwrap();
    Credentials::new(key, made.chain, made.authorities).unwrap()
}

fn renewed(registrar: &Registrar, own: Credentials) -> Credentials {
    let made = registrar.renew(&own.certificate, &own.key.request().unwrap(), UnixTime::now()).unwrap();
    Credentials::new(own.key, made.chain, made.authorities).unwrap()
}

/// What an agent reports that has stored `own`.
fn report(registrar: &Registrar, own: &Credentials) -> AuthorityHash {
    registrar.reported(&own.certificate, &own.chain[0], &own.trusted().unwrap(), UnixTime::now()).unwrap()
}

fn take(registrar: &Registrar, act: Act, accepted: &[&str]) -> Result<Vec<Subject>, RotationError> {
    let accepted: Vec<Subject> = accepted.iter().map(|name| subject(name)).collect();
    registrar.rotate(act, &accepted, UnixTime::now())
}

fn step(registrar: &Registrar) -> Option<Step> {
    registrar.rotation(UnixTime::now()).progress.map(|progress| progress.step)
}

fn names(left: &[Subject]) -> Vec<String> {
    left.iter().map(ToString::to_string).collect()
}

/// Catches a step that comes too early, and one that leaves an agent behind that was not named.
#[test]
fn each_step_waits_for_the_agents_that_it_would_leave_behind() {
    let directory = tempfile::tempdir().unwrap();
    let registrar = open(directory.path());
    let (here, away) = (enrolled(&registrar, "node/n1"), enrolled(&registrar, "host/r1"));
    enrolled(&registrar, "node/gone");
    registrar.revoke(&subject("node/gone"), UnixTime::now()).unwrap();
    let first = registrar.authority();
    let connection = registrar.connected(&here.certificate, first, UnixTime::now());
    for act in [Act::Issue, Act::Finish, Act::Cancel] {
        assert!(take(&registrar, act, &[]).unwrap_err().to_string().contains("ca rotate"), "{act:?}");
    }
    take(&registrar, Act::Announce, &[]).unwrap();
    assert_eq!((registrar.authority(), step(&registrar)), (first, Some(Step::Announced)), "it signs nothing yet");
    assert!(take(&registrar, Act::Announce, &[]).unwrap_err().to_string().contains("already"));
    assert!(take(&registrar, Act::Finish, &[]).unwrap_err().to_string().contains("ca issue"));
    // Who is connected has not confirmed; who is away is listed and holds up nothing yet.
    let refused = take(&registrar, Act::Issue, &[]).unwrap_err().to_string();
    assert!(refused.contains("node/n1") && !refused.contains("host/r1") && !refused.contains("node/gone"), "{refused}");
    let to_do = registrar.instruction(report(&registrar, &here), &here.trusted().unwrap());
    assert_eq!((to_do.trust.len(), to_do.renew_within), (2, None));
    let here = Credentials::new(here.key, here.chain.iter().map(|der| der.to_vec()).collect(), to_do.trust).unwrap();
    let to_do = registrar.instruction(report(&registrar, &here), &here.trusted().unwrap());
    assert!(to_do.is_empty(), "{to_do:?}");
    let status = registrar.rotation(UnixTime::now());
    let ready: Vec<_> =
        status.holders.iter().map(|one| (one.subject.to_string(), one.is_connected, one.is_ready)).collect();
    assert_eq!(ready, [("node/n1".to_owned(), true, true), ("host/r1".to_owned(), false, false)]);

    assert_eq!(take(&registrar, Act::Issue, &[]).unwrap(), vec![]);
    let second = registrar.authority();
    assert_ne!(second, first);
    assert!(take(&registrar, Act::Cancel, &[]).unwrap_err().to_string().contains("rotate again"));
    let refused = take(&registrar, Act::Finish, &["node/n1"]).unwrap_err().to_string();
    assert!(refused.contains("host/r1") && !refused.contains("node/n1"), "{refused}");
    let refused = take(&registrar, Act::Finish, &["host/r1"]).unwrap_err().to_string();
    assert!(refused.contains("node/n1") && !refused.contains("host/r1"), "{refused}");
    let to_do = registrar.instruction(report(&registrar, &here), &here.trusted().unwrap());
    assert_eq!((to_do.trust.len(), to_do.renew_within), (0, Some(Duration::from_secs(600))));
    let here = renewed(&registrar, here);
    // The answer may be lost: only what the agent shows or reports counts.
    assert!(take(&registrar, Act::Finish, &["host/r1"]).is_err());
    assert_eq!(report(&registrar, &here), second);
    assert!(registrar.standing().borrow().accepts(first));
    assert_eq!(names(&take(&registrar, Act::Finish, &["host/r1"]).unwrap()), ["host/r1"]);
    assert_eq!((registrar.authority(), step(&registrar)), (second, None));
    let standing = registrar.standing().borrow().clone();
    assert!(!standing.accepts(first) && standing.signer(&away.chain[0]).is_none());
    assert_eq!(standing.signer(&here.chain[0]), Some(second));
    // It still trusts both.
    assert_eq!(registrar.instruction(second, &here.trusted().unwrap()).trust.len(), 1);
    drop(connection);
    assert!(!registrar.rotation(UnixTime::now()).holders.iter().any(|one| one.is_connected));
}

/// An agent of an earlier version reports nothing: that it shows the certificate of an answer shows that it has stored the rest of it.
#[test]
fn a_certificate_that_was_made_since_and_is_shown_confirms_what_came_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let registrar = open(directory.path());
    let own = enrolled(&registrar, "node/n1");
    take(&registrar, Act::Announce, &[]).unwrap();
    let is_ready = || registrar.rotation(UnixTime::now()).holders[0].is_ready;
    let show = |own: &Credentials| {
        let signer = registrar.standing().borrow().signer(&own.chain[0]).unwrap();
        drop(registrar.connected(&own.certificate, signer, UnixTime::now()));
    };
    show(&own);
    assert!(!is_ready());
    // One second later at least, so that the two differ.
    let made = registrar.renew(&own.certificate, &own.key.request().unwrap(), UnixTime::now() + DAY).unwrap();
    show(&own);
    assert!(!is_ready(), "the answer is not stored yet");
    show(&Credentials::new(own.key, made.chain, made.authorities).unwrap());
    assert!(is_ready());
}

/// Catches an order that takes files which are a step further than the memory for those of its own step, and removes the authority with them.
#[test]
fn a_step_that_failed_in_the_middle_is_completed_before_another_one() {
    let directory = tempfile::tempdir().unwrap();
    let registrar = open(directory.path());
    take(&registrar, Act::Announce, &[]).unwrap();
    // The files are one step further than the memory, as after an error behind the first of them.
    let next = open(directory.path());
    take(&next, Act::Issue, &[]).unwrap();
    assert_eq!(step(&registrar), Some(Step::Announced));
    let refused = take(&registrar, Act::Cancel, &[]).unwrap_err();
    assert!(matches!(refused, RotationError::Order(why) if why.contains("completed now")), "{refused}");
    assert_eq!((step(&registrar), registrar.authority()), (Some(Step::Issuing), next.authority()));
    take(&registrar, Act::Finish, &[]).unwrap();
    assert_eq!(open(directory.path()).authority(), next.authority());
}

/// Catches a controller that a full disk keeps from its start, because of a list that it can do without.
#[test]
fn a_list_that_cannot_be_written_does_not_end_the_start() {
    let directory = tempfile::tempdir().unwrap();
    // Where the directory would be made.
    canopy_identity::private_directory(&directory.path().join("identity")).unwrap();
    fs::create_dir_all(directory.path().join("identity/holders/listed-since.new/x")).unwrap();
    let registrar = open(directory.path());
    assert_eq!(open(directory.path()).authority(), registrar.authority());
    // Once there is room, agents are listed without another start.
    fs::remove_dir_all(directory.path().join("identity/holders")).unwrap();
    enrolled(&registrar, "node/n1");
    assert_eq!(open(directory.path()).rotation(UnixTime::now()).holders.len(), 1);
}

/// Catches a change of one agent that writes the files of all, and a file that stays when its agent's certificate can no longer be renewed.
#[test]
fn a_change_writes_the_file_of_its_agent_alone() {
    let directory = tempfile::tempdir().unwrap();
    let holders = directory.path().join("identity/holders");
    let registrar = open(directory.path());
    let own = enrolled(&registrar, "node/n1");
    enrolled(&registrar, "host/n1");
    let files = || {
        let files = fs::read_dir(&holders).unwrap().map(|file| file.unwrap().path());
        let mut files: Vec<_> = files.map(|file| (file.clone(), fs::metadata(&file).unwrap().ino())).collect();
        files.sort();
        files
    };
    let before = files();
    assert_eq!(before.len(), 3, "{before:?}");
    let changed = |before: &[_]| {
        files().into_iter().filter(|file| !before.contains(file)).map(|(path, _)| path).collect::<Vec<_>>()
    };
    report(&registrar, &own);
    assert_eq!(changed(&before), Vec::<PathBuf>::new(), "nothing is new");
    renewed(&registrar, own);
    assert_eq!(changed(&before), [holders.join("node-n1.json")]);
    // Only the end of n1's first certificate was shown, so both are gone at the same time.
    let late = UnixTime::now() + LIFETIME + RENEWABLE + DAY;
    registrar.tidy(late, DAY).unwrap();
    assert_eq!((registrar.rotation(late).holders.len(), files().len()), (0, 1));
}

/// Catches a clock that is years ahead, and makes the list of agents one of those that were enrolled under it; and a list that grows for ever.
#[test]
fn a_clock_far_ahead_forgets_no_list_and_an_agent_that_is_gone_is_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let start = |ahead: Duration| Registrar::open(settings(directory.path()), UnixTime::now() + ahead).unwrap();
    let listed = || {
        let all = start(Duration::ZERO).rotation(UnixTime::now()).holders;
        all.iter().map(|one| one.subject.to_string()).collect::<Vec<_>>()
    };
    enrolled(&start(Duration::ZERO), "node/n1");
    let years = 10 * 365 * DAY;
    let registrar = start(years);
    enrolled_at(&registrar, "node/n2", UnixTime::now() + years);
    registrar.tidy(UnixTime::now() + years, DAY / 2).unwrap();
    assert_eq!(listed(), ["node/n1", "node/n2"]);
    registrar.tidy(UnixTime::now() + years, DAY).unwrap();
    assert_eq!(listed(), ["node/n2"]);
}

/// A thief of the authority's key makes certificates for keys of its own until the authority is replaced. Catches one that is renewed by the
/// authority that follows, and an agent's own that is not.
#[test]
fn a_certificate_of_another_key_is_not_renewed_under_the_next_authority() {
    let (directory, stolen) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let registrar = open(directory.path());
    let (own, away) = (enrolled(&registrar, "node/n1"), enrolled(&registrar, "node/n2"));
    canopy_identity::private_directory(&stolen.path().join("identity")).unwrap();
    for file in &FILES[..2] {
        fs::copy(directory.path().join("identity").join(file), stolen.path().join("identity").join(file)).unwrap();
    }
    let thief = open(stolen.path());
    let forged = ["node/n1", "node/n2"].map(|name| enrolled(&thief, name));
    let first = registrar.authority();
    let show = |of: &Credentials| drop(registrar.connected(&of.certificate, first, UnixTime::now()));
    // Neither a connection nor a report gives an agent another key, nor ends what is known of it.
    forged.iter().for_each(&show);
    take(&registrar, Act::Announce, &[]).unwrap();
    forged.iter().for_each(|forged| assert_eq!(report(&registrar, forged), first));
    let long_ago = UnixTime::from_nanos(1_000_000_000);
    let ended = enrolled_at(&thief, "node/n1", long_ago);
    let of_another = registrar.reported(&forged[0].certificate, &ended.chain[0], &[first], UnixTime::now());
    assert_eq!(of_another, None, "a certificate that has ended");
    let of_another = registrar.reported(&own.certificate, &forged[0].chain[0], &[first], UnixTime::now());
    assert_eq!(of_another, None, "a certificate of another key");
    assert!(registrar.rotation(UnixTime::now()).holders.iter().all(|one| one.is_enrolled && !one.is_ready));
    // Names that were not enrolled here; one of them is listed by a renewal alone, as an expired certificate has it.
    let unlisted = enrolled(&thief, "host/r9");
    let renewed_first = enrolled(&thief, "host/r8");
    registrar.renew(&renewed_first.certificate, &renewed_first.key.request().unwrap(), UnixTime::now()).unwrap();
    registrar.renew(&forged[1].certificate, &forged[1].key.request().unwrap(), UnixTime::now()).unwrap();
    let status = registrar.rotation(UnixTime::now());
    let not_enrolled: Vec<String> =
        status.holders.iter().filter(|one| !one.is_enrolled).map(|one| one.subject.to_string()).collect();
    assert_eq!(not_enrolled, ["host/r8"]);
    take(&registrar, Act::Issue, &[]).unwrap();
    let registrar = open(directory.path());
    // Their names are known at any time, after a restart, too.
    let two_keys = |registrar: &Registrar| {
        let all = registrar.rotation(UnixTime::now()).holders;
        all.into_iter().filter(|one| one.other_key.is_some()).map(|one| one.subject.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(two_keys(&registrar), ["node/n1", "node/n2"]);
    let renew = |of: &Credentials| {
        registrar
            .renew(&of.certificate, &of.key.request().unwrap(), UnixTime::now())
            .map(|_| ())
            .map_err(|e| e.to_string())
    };
    drop(registrar.connected(&unlisted.certificate, first, UnixTime::now()));
    for forged in forged.iter().chain([&unlisted]) {
        let refused = renew(forged).unwrap_err();
        assert!(refused.contains("another key") && refused.contains("enroll it again"), "{refused}");
    }
    assert_eq!((renew(&own), renew(&away)), (Ok(()), Ok(())));
    // An agent that lost its key is enrolled again, with another one.
    let again = enrolled(&registrar, "node/n2");
    assert_eq!((renew(&again), two_keys(&registrar)), (Ok(()), vec!["node/n1".to_owned()]));
    assert!(renew(&away).unwrap_err().contains("another key"));
}

/// Catches a kill that loses a step, does half of one, or makes a certificate of an agent worthless; and a list that a restart forgets.
#[test]
fn a_kill_in_any_step_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let identity = directory.path().join("identity");
    let registrar = open(directory.path());
    let own = enrolled(&registrar, "node/n1");
    enrolled(&registrar, "node/n2");
    registrar.revoke(&subject("node/n2"), UnixTime::now()).unwrap();
    let first = registrar.authority();
    // Killed before the announcement was written: there is none.
    for file in &FILES[..2] {
        fs::copy(identity.join(file), identity.join(format!("next-{file}"))).unwrap();
    }
    let registrar = open(directory.path());
    assert_eq!((registrar.authority(), step(&registrar)), (first, None));
    assert!(FILES[2..].iter().all(|file| !identity.join(file).exists()));

    take(&registrar, Act::Announce, &[]).unwrap();
    let to = registrar.rotation(UnixTime::now()).progress.unwrap().to;
    let registrar = open(directory.path());
    let status = registrar.rotation(UnixTime::now());
    assert_eq!(status.progress.map(|of| (of.step, of.from, of.to)), Some((Step::Announced, first, to)));
    assert_eq!(status.holders.len(), 1, "{:?}", status.holders);
    let own = renewed(&registrar, own);
    report(&registrar, &own);
    let before: Vec<Vec<u8>> = FILES.iter().map(|file| fs::read(identity.join(file)).unwrap()).collect();
    take(&registrar, Act::Issue, &[]).unwrap();
    // Killed once the step was written, before one or both of its files were put in their places.
    for moved in [0, 1, 2] {
        for (place, content) in FILES.iter().zip(&before) {
            canopy_identity::replace(&identity.join(place), content).unwrap();
        }
        for file in &FILES[..moved] {
            fs::rename(identity.join(format!("next-{file}")), identity.join(file)).unwrap();
        }
        let registrar = open(directory.path());
        let status = registrar.rotation(UnixTime::now());
        assert_eq!(status.progress.map(|of| (of.step, of.from, of.to)), Some((Step::Issuing, first, to)), "{moved}");
        assert_eq!(registrar.authority(), to);
        assert!(status.holders[0].trusts && !status.holders[0].is_ready, "the confirmation is durable");
        assert_eq!(registrar.standing().borrow().signer(&own.chain[0]), Some(first), "{moved}");
        assert!(FILES[2..].iter().all(|file| !identity.join(file).exists()), "the former key is gone");
    }
    let registrar = open(directory.path());
    let own = renewed(&registrar, own);
    assert_eq!(report(&registrar, &own), to);
    take(&registrar, Act::Finish, &[]).unwrap();
    let registrar = open(directory.path());
    assert_eq!((registrar.authority(), step(&registrar)), (to, None));
    assert_eq!(registrar.standing().borrow().signer(&own.chain[0]), Some(to));
    // What was revoked before all that is revoked, whichever authority would sign for it.
    assert!(registrar.revocations().borrow().at(&subject("node/n2")).is_some());
    assert_eq!(registrar.rotation(UnixTime::now()).holders.len(), 1);
    // And it can be done again.
    take(&registrar, Act::Announce, &[]).unwrap();
    take(&registrar, Act::Cancel, &[]).unwrap();
    let registrar = open(directory.path());
    assert_eq!((registrar.authority(), step(&registrar)), (to, None));
    assert!(FILES[2..].iter().all(|file| !identity.join(file).exists()), "the key of a cancelled authority stays");
}

/// Catches a key that others can read, and a directory whose rotation cannot be continued, which a start takes for another one.
#[test]
fn the_next_key_is_the_owners_alone_and_a_directory_that_does_not_fit_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let identity = directory.path().join("identity");
    let registrar = open(directory.path());
    take(&registrar, Act::Announce, &[]).unwrap();
    enrolled(&registrar, "node/n1");
    for directory in [&identity, &identity.join("holders")] {
        for file in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let mode = if file.path().is_dir() { 0o700 } else { 0o600 };
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, mode, "{:?}", file.path());
        }
    }
    let refusal = || Registrar::open(settings(directory.path()), UnixTime::now()).map(|_| ()).unwrap_err().to_string();
    let rotation = fs::read_to_string(identity.join("rotation.json")).unwrap();
    fs::write(identity.join("rotation.json"), "{").unwrap();
    assert!(refusal().contains("rotation.json: is damaged"), "{}", refusal());
    fs::write(identity.join("rotation.json"), rotation).unwrap();
    for file in ["node-n1.json", "listed-since"].map(|file| identity.join("holders").join(file)) {
        let whole = fs::read_to_string(&file).unwrap();
        fs::write(&file, "[").unwrap();
        assert!(refusal().contains(&format!("{}: is damaged", file.display())), "{}", refusal());
        fs::write(&file, whole).unwrap();
    }
    let next = fs::read(identity.join("next-authority.pem")).unwrap();
    fs::remove_file(identity.join("next-authority.pem")).unwrap();
    assert!(refusal().contains("next-authority.pem: is missing"), "{}", refusal());
    fs::write(identity.join("next-authority.pem"), next).unwrap();
    // Another one than was announced.
    for file in &FILES[..2] {
        fs::copy(identity.join(file), identity.join(format!("next-{file}"))).unwrap();
    }
    assert!(refusal().contains("rotation.json: the authority that replaces the other is"), "{}", refusal());
}

/// Catches an authority of an operator's own that the controller replaces by one that was not asked for.
#[test]
fn an_authority_that_the_controller_has_not_made_is_not_replaced() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let elsewhere = Settings { domain: "elsewhere".parse().unwrap(), ..settings(other.path()) };
    Registrar::open(elsewhere, UnixTime::now()).unwrap();
    let copied = directory.path().join("identity");
    canopy_identity::private_directory(&copied).unwrap();
    for file in &FILES[..2] {
        fs::copy(other.path().join("identity").join(file), copied.join(file)).unwrap();
    }
    let registrar = open(directory.path());
    assert!(matches!(take(&registrar, Act::Announce, &[]), Err(RotationError::Foreign)));
    assert_eq!(step(&registrar), None);
}

/// Catches a replacement that waits for days without a report, and one that is reported at once.
#[test]
fn a_step_that_lasts_is_overdue_and_names_what_it_waits_for() {
    let directory = tempfile::tempdir().unwrap();
    let registrar = open(directory.path());
    let own = enrolled(&registrar, "node/n1");
    let began = UnixTime::now();
    assert_eq!(registrar.overdue(began + DAY * 9), None);
    registrar.rotate(Act::Announce, &[], began).unwrap();
    assert_eq!(registrar.overdue(began + DAY / 2), None);
    let why = registrar.overdue(began + DAY + Duration::from_secs(1)).unwrap();
    assert!(why.contains("announced for 24 h") && why.contains("`canopyctl ca issue` takes the next step"), "{why}");
    registrar.rotate(Act::Issue, &[], began + DAY * 2).unwrap();
    assert_eq!(registrar.overdue(began + DAY * 2), None, "each step has its own time");
    let why = registrar.overdue(began + DAY * 4).unwrap();
    assert!(why.contains("`canopyctl ca finish` waits for node/n1"), "{why}");
    // Once its certificate cannot be renewed any more, nothing waits for it.
    let late = own.certificate.not_after + RENEWABLE + Duration::from_secs(1);
    assert!(registrar.overdue(late).unwrap().contains("takes the next step"));
}

/// Whether a client that trusts this accepts the controller, and the controller accepts what it shows.
async fn shake(registrar: &Registrar, trust: Trust, own: Option<&Credentials>) -> (Result<(), ConnectError>, bool) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = TlsAcceptor::from(registrar.configs().agents);
    let client = Arc::new(canopy_identity::client(trust, own).unwrap());
    let serve = async { acceptor.accept(listener.accept().await.unwrap().0).await.is_ok() };
    let (connected, accepted) = tokio::join!(canopy_identity::connect("127.0.0.1", port, client), serve);
    (connected.map(drop), accepted)
}

/// Catches a chain that does not lead to the former authority while agents and tokens know that one alone, one that still does when the
/// former authority is dropped, and a certificate of it, or a revoked one, that is accepted then.
#[tokio::test]
async fn who_knows_the_former_authority_alone_reaches_the_controller_until_it_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let registrar = open(directory.path());
    let first = registrar.authority();
    let (old, revoked) = (enrolled(&registrar, "node/n1"), enrolled(&registrar, "node/n2"));
    registrar.revoke(&subject("node/n2"), UnixTime::now()).unwrap();
    let of = |own: &Credentials| Trust::Authorities(own.authorities.clone(), own.certificate.domain.clone());
    let accepted = async |trust: Trust, own: Option<&Credentials>| {
        let (connected, accepted) = shake(&registrar, trust, own).await;
        connected.is_ok() && accepted
    };
    assert!(accepted(of(&old), Some(&old)).await && accepted(Trust::Token(first), None).await);
    assert!(!accepted(of(&revoked), Some(&revoked)).await);

    take(&registrar, Act::Announce, &[]).unwrap();
    let to = registrar.rotation(UnixTime::now()).progress.unwrap().to;
    assert!(accepted(of(&old), Some(&old)).await && accepted(Trust::Token(first), None).await);
    assert!(!accepted(Trust::Token(to), None).await, "it has signed nothing");

    take(&registrar, Act::Issue, &[]).unwrap();
    let new = enrolled(&registrar, "host/r1");
    for (what, trust, own) in [
        ("an agent from before", of(&old), Some(&old)),
        ("a new one", of(&new), Some(&new)),
        ("one that has stored both", of(&new), Some(&old)),
        ("a token from before", Trust::Token(first), None),
        ("a token of the next authority", Trust::Token(to), None),
    ] {
        assert!(accepted(trust, own).await, "{what}");
    }
    assert!(!accepted(of(&new), Some(&revoked)).await);

    take(&registrar, Act::Finish, &["node/n1"]).unwrap();
    let alone = Trust::Authorities(vec![new.authorities[0].clone()], new.certificate.domain.clone());
    assert!(accepted(alone.clone(), Some(&new)).await && accepted(Trust::Token(to), None).await);
    for (what, trust) in [("an agent", of(&old)), ("a token", Trust::Token(first))] {
        let (connected, _) = shake(&registrar, trust, None).await;
        assert!(matches!(connected, Err(ConnectError::Authority)), "{what}: {connected:?}");
    }
    assert!(!accepted(alone.clone(), Some(&old)).await && !accepted(alone, Some(&revoked)).await);
}
