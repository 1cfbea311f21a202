// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::PREFIX;

const DAY: Duration = Duration::from_secs(86_400);

fn at(seconds: u64) -> UnixTime {
    UnixTime::from_nanos((1_000_000 + seconds) * 1_000_000_000)
}

fn open(directory: &tempfile::TempDir) -> Tokens {
    Tokens::open(directory.path(), at(0)).unwrap()
}

fn alice(role: Role) -> Identity {
    Identity::new(Principal::operator("alice", Some(1000)), Some(role))
}

fn bob(role: Role) -> Identity {
    Identity::new(Principal::operator("bob", Some(1001)), Some(role))
}

fn wanted(name: &str, role: Role) -> TokenRequest {
    TokenRequest { name: name.to_owned(), tenant: None, role, life: DAY }
}

/// Catches a token that outlives its time, its revocation or a restart that should not matter, and a secret on the disk.
#[test]
fn a_token_works_until_it_ends_or_is_revoked_also_over_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = open(&directory);
    let (secret, made) = tokens.make(wanted("ci", Role::Viewer), &alice(Role::Operator), at(0)).unwrap();
    assert_eq!((made.expires, made.used), (at(0) + DAY, None));
    let text = std::fs::read_to_string(directory.path().join(FILE)).unwrap();
    assert!(!text.contains(secret.reveal()) && !text.contains(&secret.reveal()[PREFIX.len()..]));
    let tokens = open(&directory);
    let identity = tokens.identity(secret.reveal(), at(86_399)).unwrap();
    tokens.catch_up(at(86_399)).unwrap();
    let tokens = open(&directory);
    assert_eq!((identity.role, identity.principal.to_string().as_str()), (Some(Role::Viewer), "alice (token ci)"));
    assert_eq!(tokens.list(&alice(Role::Operator), at(86_399))[0].used, Some(at(86_399)));
    assert_eq!(tokens.identity(secret.reveal(), at(86_400)), None);
    for wrong in ["", "canopy_pat_", &secret.reveal()[1..], &format!("{}x", secret.reveal())] {
        assert_eq!(tokens.identity(wrong, at(1)), None, "{wrong:?}");
    }
    tokens.revoke("ci", &alice(Role::Viewer), at(2)).unwrap();
    assert_eq!(tokens.identity(secret.reveal(), at(2)), None);
    assert_eq!(open(&directory).identity(secret.reveal(), at(2)), None);
}

/// Catches a token with more rights than its maker, and one that a stranger sees, rotates or revokes.
#[test]
fn a_token_has_no_more_rights_than_its_maker_and_belongs_to_one_user() {
    let tokens = Tokens::default();
    let refused = tokens.make(wanted("ci", Role::Admin), &alice(Role::Operator), at(0)).unwrap_err();
    assert!(matches!(refused, TokenError::AboveMaker { .. }), "{refused}");
    let none = Identity { role: None, ..alice(Role::Viewer) };
    assert!(matches!(tokens.make(wanted("ci", Role::Metrics), &none, at(0)), Err(TokenError::AboveMaker { .. })));
    let (secret, _) = tokens.make(wanted("ci", Role::Operator), &alice(Role::Operator), at(0)).unwrap();
    let exists = tokens.make(wanted("ci", Role::Viewer), &bob(Role::Viewer), at(0)).unwrap_err();
    assert!(matches!(exists, TokenError::Exists(_)));
    assert_eq!(tokens.list(&bob(Role::Operator), at(0)), []);
    assert_eq!(tokens.list(&bob(Role::Admin), at(0)).len(), 1);
    for by in [bob(Role::Operator), bob(Role::Viewer)] {
        assert!(matches!(tokens.revoke("ci", &by, at(0)), Err(TokenError::NotFound(_))));
        assert!(matches!(tokens.rotate("ci", &by, at(0)), Err(TokenError::NotFound(_))));
    }
    assert!(matches!(tokens.rotate("ci", &bob(Role::Admin), at(0)), Err(TokenError::NotYours(_))));
    // Who has lost the role cannot have the token live on.
    assert!(matches!(tokens.rotate("ci", &alice(Role::Viewer), at(0)), Err(TokenError::AboveMaker { .. })));
    assert!(tokens.identity(secret.reveal(), at(0)).is_some());
    tokens.revoke("ci", &bob(Role::Admin), at(0)).unwrap();
    assert_eq!(tokens.identity(secret.reveal(), at(0)), None);
}

/// Catches an old secret that works for ever, one that stops at once, and a life that shrinks with each rotation.
#[test]
fn after_a_rotation_both_secrets_work_for_ten_minutes_and_the_new_one_for_its_whole_life() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = open(&directory);
    let by = alice(Role::Viewer);
    let (old, _) = tokens.make(wanted("ci", Role::Viewer), &by, at(0)).unwrap();
    let (new, rotated) = tokens.rotate("ci", &by, at(1000)).unwrap();
    assert_eq!(rotated.expires, at(1000) + DAY);
    let tokens = open(&directory);
    let works = |secret: &TokenSecret, seconds| tokens.identity(secret.reveal(), at(seconds)).is_some();
    assert!(works(&old, 1599) && !works(&old, 1600));
    assert!(works(&new, 1000) && works(&new, 87_399) && !works(&new, 87_400));
    // Near its end, the old one ends as it would have.
    let (last, _) = tokens.rotate("ci", &by, at(87_399)).unwrap();
    assert!(works(&last, 87_400) && !works(&new, 87_400));
    assert!(!works(&old, 1001), "two rotations ago");
}

#[test]
fn requests_out_of_range_name_their_field() {
    let tokens = Tokens::default();
    let by = alice(Role::Admin);
    let field = |request| match tokens.make(request, &by, at(0)).unwrap_err() {
        TokenError::Invalid { field, .. } => field,
        other => panic!("{other}"),
    };
    for name in ["", "A", "a b", &"a".repeat(64)] {
        assert_eq!(field(wanted(name, Role::Viewer)), "name");
    }
    for life in [Duration::ZERO, MIN_LIFE - Duration::from_nanos(1), MAX_LIFE + Duration::from_nanos(1)] {
        assert_eq!(field(TokenRequest { life, ..wanted("a", Role::Viewer) }), "forSeconds");
    }
    tokens.make(TokenRequest { life: MAX_LIFE, ..wanted("a", Role::Viewer) }, &by, at(0)).unwrap();
}

/// Catches memory that grows with requests, a user who takes all of it, and ended tokens that keep others out.
#[test]
fn tokens_are_bounded_and_those_that_ended_make_room() {
    let tokens = Tokens::default();
    let of = |uid| Identity::new(Principal::operator("", Some(uid)), Some(Role::Viewer));
    for number in 0..MAX_TOKENS {
        let uid = u32::try_from(number / MAX_OF_MAKER).unwrap();
        tokens.make(wanted(&format!("t{number}"), Role::Viewer), &of(uid), at(0)).unwrap();
        if number + 1 == MAX_OF_MAKER {
            let more = tokens.make(wanted("more", Role::Viewer), &of(0), at(0));
            assert!(matches!(more, Err(TokenError::TooMany)));
        }
    }
    assert!(matches!(tokens.make(wanted("more", Role::Viewer), &of(99), at(0)), Err(TokenError::TooMany)));
    tokens.make(wanted("more", Role::Viewer), &of(99), at(86_400)).unwrap();
    assert_eq!(tokens.list(&alice(Role::Admin), at(86_400)).len(), 1);
}

/// Catches a revocation that a full disk undoes at the next start, and a token that has ended and a clock that was set back brings back.
#[test]
fn a_revocation_that_cannot_be_written_is_written_later_and_ended_tokens_leave_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let mut tokens = open(&directory);
    let by = alice(Role::Viewer);
    let (secret, _) = tokens.make(wanted("ci", Role::Viewer), &by, at(0)).unwrap();
    // A directory where the new file is made first.
    let way = directory.path().join("tokens.json.new");
    std::fs::create_dir(&way).unwrap();
    assert!(matches!(tokens.revoke("ci", &by, at(1)), Err(TokenError::File(_))));
    assert_eq!(tokens.identity(secret.reveal(), at(1)), None);
    assert!(tokens.catch_up(at(1)).is_err());
    std::fs::remove_dir(&way).unwrap();
    tokens.catch_up(at(1)).unwrap();
    tokens = open(&directory);
    assert_eq!(tokens.identity(secret.reveal(), at(1)), None);
    let (ended, _) = tokens.make(wanted("short", Role::Viewer), &by, at(0)).unwrap();
    tokens.catch_up(at(86_400)).unwrap();
    assert_eq!(open(&directory).identity(ended.reveal(), at(1)), None);
}

/// Catches a field of a later version that keeps an earlier controller from its start.
#[test]
fn a_file_of_a_later_version_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let (secret, _) = open(&directory).make(wanted("ci", Role::Viewer), &alice(Role::Viewer), at(0)).unwrap();
    let path = directory.path().join(FILE);
    let now = std::fs::read_to_string(&path).unwrap();
    let later = now.replacen("\"digest\":", "\"later\": 1, \"digest\":", 1).replacen(
        "\"name\":",
        "\"later\": {}, \"name\":",
        1,
    );
    assert_ne!(now, later);
    canopy_identity::replace(&path, later.as_bytes()).unwrap();
    assert!(open(&directory).identity(secret.reveal(), at(1)).is_some());
}

fn of_acme(principal: Identity, role: Role) -> Identity {
    Identity { role: None, tenants: BTreeMap::from([("acme".to_owned(), role)]), ..principal }
}

fn in_acme(name: &str, role: Role) -> TokenRequest {
    TokenRequest { tenant: Some("acme".to_owned()), ..wanted(name, role) }
}

/// Catches a token of a tenant that has its role elsewhere, that is made by a principal without the role there, or that shows the tokens
/// that its maker has for more.
#[test]
fn a_token_of_a_tenant_is_for_that_tenant_alone() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = open(&directory);
    let by = of_acme(alice(Role::Viewer), Role::Operator);
    for refused in [
        wanted("x", Role::Metrics),
        in_acme("x", Role::Admin),
        TokenRequest { tenant: Some("other".into()), ..wanted("x", Role::Viewer) },
    ] {
        assert!(matches!(tokens.make(refused, &by, at(0)), Err(TokenError::AboveMaker { .. })));
    }
    let bad = TokenRequest { tenant: Some("A b".into()), ..wanted("x", Role::Viewer) };
    assert!(matches!(tokens.make(bad, &by, at(0)), Err(TokenError::Invalid { field: "tenant", .. })));
    let (secret, _) = tokens.make(in_acme("ci", Role::Operator), &by, at(0)).unwrap();
    tokens.make(wanted("all", Role::Viewer), &alice(Role::Viewer), at(0)).unwrap();
    tokens.make(in_acme("by-the-domain", Role::Viewer), &bob(Role::Operator), at(0)).unwrap();
    let tokens = open(&directory);
    let identity = tokens.identity(secret.reveal(), at(1)).unwrap();
    assert_eq!(
        (identity.role, identity.role_in("acme"), identity.role_in("other")),
        (None, Some(Role::Operator), None)
    );
    let names =
        |by: &Identity| tokens.list(by, at(1)).into_iter().map(|token| token.name).collect::<Vec<_>>().join(" ");
    assert_eq!((names(&identity), names(&alice(Role::Viewer))), ("ci".to_owned(), "all ci".to_owned()));
    assert_eq!(names(&of_acme(bob(Role::Viewer), Role::Admin)), "by-the-domain ci");
    let admin_elsewhere = Identity {
        tenants: BTreeMap::from([("other".to_owned(), Role::Admin)]),
        ..of_acme(bob(Role::Viewer), Role::Viewer)
    };
    assert_eq!(names(&admin_elsewhere), "");
    assert!(matches!(tokens.revoke("all", &by, at(1)), Err(TokenError::NotFound(_))));
}

/// Catches a file in which an earlier version finds a token of a tenant as one of the whole domain: it reads `tokens`, and fields that it
/// does not know over.
#[test]
fn an_earlier_version_finds_no_token_of_a_tenant() {
    #[derive(Deserialize)]
    struct Before {
        tokens: Vec<serde_json::Value>,
    }
    let directory = tempfile::tempdir().unwrap();
    let tokens = open(&directory);
    let (secret, _) = tokens.make(in_acme("ci", Role::Operator), &bob(Role::Operator), at(0)).unwrap();
    tokens.make(wanted("all", Role::Viewer), &bob(Role::Operator), at(0)).unwrap();
    tokens.rotate("ci", &bob(Role::Operator), at(0)).unwrap();
    let path = directory.path().join(FILE);
    let text = std::fs::read_to_string(&path).unwrap();
    let before: Before = serde_json::from_str(&text).unwrap();
    assert_eq!(before.tokens.len(), 1);
    assert_eq!(before.tokens[0]["token"]["name"], "all");
    assert!(open(&directory).identity(secret.reveal(), at(1)).unwrap().role.is_none());
    // One that has lost its tenant is none of the domain.
    std::fs::write(&path, text.replace("\"tenant\": \"acme\",", "")).unwrap();
    assert!(Tokens::open(directory.path(), at(0)).err().unwrap().to_string().contains("is damaged"));
}

/// Catches a certificate that is worth more than its time, its role or its revocation, that an earlier version takes for a token, that can
/// be sent as a secret, and one key that stands for two.
#[test]
fn a_certificate_is_a_token_that_is_shown_and_not_sent() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = open(&directory);
    let (by, key) = (alice(Role::Operator), KeyHash([7; 32]));
    let wanted = |name: &str, hours: u64| TokenRequest {
        life: Duration::from_secs(hours * 3600),
        ..wanted(name, Role::Operator)
    };
    let make = |request, key| tokens.make_certificate(request, key, &by, at(0));
    assert!(matches!(make(wanted("laptop", 13), key), Err(TokenError::Invalid { field: "forSeconds", .. })));
    let above = TokenRequest { role: Role::Admin, ..wanted("laptop", 12) };
    assert!(matches!(make(above, key), Err(TokenError::AboveMaker { .. })));
    make(wanted("laptop", 12), key).unwrap();
    assert!(matches!(make(wanted("laptop", 12), KeyHash([8; 32])), Err(TokenError::Exists(_))));
    let again = make(wanted("other", 12), key).unwrap_err();
    assert!(matches!(again, TokenError::Invalid { field: "certificateRequest", .. }), "{again}");
    assert!(matches!(tokens.rotate("laptop", &by, at(0)), Err(TokenError::Certificate(_))));
    // Of another kind: the digest of a secret is no key that a handshake shows, nor the reverse.
    let (secret, _) = tokens.make(wanted("ci", 12), &by, at(0)).unwrap();
    assert_eq!(tokens.shown("ci", KeyHash(secret.digest()), at(1)), None);
    assert_eq!(tokens.book().used(&key.0, false, at(1)), None);

    let file = std::fs::read_to_string(directory.path().join(FILE)).unwrap();
    let file: serde_json::Value = serde_json::from_str(&file).unwrap();
    assert_eq!(file["tokens"].as_array().unwrap().len(), 1);
    let tokens = open(&directory);
    assert!(tokens.shown("other", key, at(1)).is_none(), "a certificate of another name");
    let shown = tokens.shown("laptop", key, at(1)).unwrap();
    assert_eq!((shown.role, shown.principal.token.as_deref()), (Some(Role::Operator), Some("laptop")));
    assert_eq!(tokens.list(&by, at(1))[1].used, Some(at(1)));
    assert!(tokens.shown("laptop", key, at(12 * 3600)).is_none());
    tokens.revoke("laptop", &by, at(2)).unwrap();
    assert!(tokens.shown("laptop", key, at(2)).is_none() && tokens.standing(&key.0, at(2)).is_none());
    assert!(open(&directory).shown("laptop", key, at(2)).is_none());
}

/// Catches a damaged or readable file that is taken for none, and a write that fails and is answered as made.
#[test]
fn a_file_that_cannot_be_trusted_is_an_error() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE);
    let tokens = open(&directory);
    let (secret, _) = tokens.make(wanted("ci", Role::Viewer), &alice(Role::Viewer), at(0)).unwrap();
    let good = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &good[..good.len() / 2]).unwrap();
    assert!(Tokens::open(directory.path(), at(0)).err().unwrap().to_string().contains("tokens.json: is damaged"));
    std::fs::write(&path, &good).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(Tokens::open(directory.path(), at(0)).err().unwrap().to_string().contains("mode 0644"));
    let tokens = Tokens { directory: Some("/proc/nothing".into()), ..Tokens::default() };
    assert!(matches!(tokens.make(wanted("ci", Role::Viewer), &alice(Role::Viewer), at(0)), Err(TokenError::File(_))));
    assert_eq!(tokens.list(&alice(Role::Admin), at(0)), [], "{secret:?}");
}
