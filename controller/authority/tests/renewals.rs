// SPDX-License-Identifier: Apache-2.0
//! Agents that do not renew their certificates are named while they are connected.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use canopy_controller_authority::{Registrar, Settings};
use canopy_identity::{Credentials, PrivateKey, Subject};
use canopy_units::UnixTime;

const LIFETIME: Duration = Duration::from_secs(8 * 24 * 3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn open(directory: &Path) -> Arc<Registrar> {
    let directory = directory.join("identity");
    let settings = Settings { directory, domain: "canopy".parse().unwrap(), lifetime: LIFETIME };
    Registrar::open(settings, UnixTime::now()).unwrap()
}

fn enrolled(registrar: &Registrar, name: &str, at: UnixTime) -> Credentials {
    let (subject, key): (Subject, _) = (name.parse().unwrap(), PrivateKey::generate().unwrap());
    let token = registrar.hand_out(subject.clone(), at).unwrap().token;
    let made = registrar.enroll(&token.secret, &subject, &key.request().unwrap(), at).unwrap();
    Credentials::new(key, made.chain, made.authorities).unwrap()
}

/// What the problem `CertificateNotRenewed` is about. Catches an alert for an agent that renews in time, that is away, or that was revoked, and none for one whose disk is full.
#[test]
fn an_agent_is_named_from_three_quarters_of_its_certificates_life_on_while_it_is_connected() {
    let directory = tempfile::tempdir().unwrap();
    let registrar = open(directory.path());
    let now = UnixTime::now();
    let [late, later, renews, away, revoked] = ["node/late", "host/later", "node/renews", "node/away", "node/revoked"]
        .map(|name| {
            let at = if name == "host/later" { now + DAY } else { now };
            enrolled(&registrar, name, at)
        });
    let authority = registrar.authority();
    let connections: Vec<_> =
        [&late, &later, &renews, &revoked].map(|of| registrar.connected(&of.certificate, authority, now)).into();
    registrar.revoke(&revoked.certificate.subject, now + DAY).unwrap();
    let made = registrar.renew(&renews.certificate, &renews.key.request().unwrap(), now + DAY * 4).unwrap();
    let renewed = Credentials::new(renews.key, made.chain, made.authorities).unwrap();
    registrar.reported(&renews.certificate, &renewed.chain[0], &[authority], now + DAY * 4).unwrap();
    // An answer that it cannot store is made again and again.
    registrar.renew(&late.certificate, &late.key.request().unwrap(), now + DAY * 4).unwrap();
    assert_eq!(registrar.not_renewed(now + DAY * 5), None);
    // Certificates end at whole seconds.
    let now = UnixTime::from_nanos(now.nanos() - 1_000_000_000);
    let named = |at| registrar.not_renewed(at).unwrap_or_default();
    let text = named(now + DAY * 13 / 2);
    assert!(text.contains("the first of which ends in 36 h: node/late") && !text.contains("later"), "{text}");
    let text = named(now + DAY * 15 / 2);
    assert!(text.ends_with("in 12 h: node/late, host/later"), "{text}");
    assert!(!text.contains("away") && !text.contains("renews") && !text.contains("revoked"), "{text}");
    // The answer is not read again at once.
    drop(connections);
    assert_eq!(named(now + DAY * 15 / 2 + Duration::from_secs(1)), text);
    assert_eq!(named(now + DAY * 15 / 2 + Duration::from_secs(61)), "");
    assert_eq!(away.certificate.subject.to_string(), "node/away");
}
