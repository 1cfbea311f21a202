// SPDX-License-Identifier: Apache-2.0

use std::fs;

use tonic::Code;

use super::*;

fn code<T>(result: Result<T, Status>) -> Code {
    result.err().map_or(Code::Ok, |status| status.code())
}

#[test]
fn only_the_owner_and_root_can_claim_a_membership_even_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    Owners::load(dir.path()).claim("g", "h1", &Owner::User(1000)).unwrap().own().unwrap();
    let owners = Owners::load(dir.path());
    assert_eq!(code(owners.claim("g", "h1", &Owner::User(1001))), Code::PermissionDenied);
    assert_eq!(owners.claim("g", "h1", &Owner::User(1000)).unwrap().owner(), Some(&Owner::User(1000)));
    let root = owners.claim("g", "h1", &Owner::ROOT).unwrap();
    root.own().unwrap();
    drop(root);
    assert_eq!(
        owners.claim("g", "h1", &Owner::User(1000)).unwrap().owner(),
        Some(&Owner::User(1000)),
        "root does not become the owner"
    );
    owners.claim("g", "h1", &Owner::User(1000)).unwrap().end();
    assert_eq!(code(Owners::load(dir.path()).claim("g", "h1", &Owner::User(1001))), Code::Ok);
}

#[test]
fn a_refused_join_keeps_an_existing_membership() {
    let dir = tempfile::tempdir().unwrap();
    let owners = Owners::load(dir.path());
    let first = owners.claim("g", "h1", &Owner::User(1000)).unwrap();
    first.own().unwrap();
    assert_eq!(code(owners.claim("g", "h1", &Owner::User(1000))), Code::Aborted, "one call at a time");
    drop(first);
    let again = owners.claim("g", "h1", &Owner::User(1000)).unwrap();
    again.own().unwrap();
    again.undo();
    drop(again);
    assert_eq!(
        code(owners.claim("g", "h1", &Owner::User(1001))),
        Code::PermissionDenied,
        "the membership existed before"
    );
    let new = owners.claim("g", "h2", &Owner::User(1000)).unwrap();
    new.own().unwrap();
    new.undo();
    drop(new);
    assert_eq!(code(owners.claim("g", "h2", &Owner::User(1001))), Code::Ok);
}

#[test]
fn a_deleted_group_has_no_owners() {
    let dir = tempfile::tempdir().unwrap();
    let owners = Owners::load(dir.path());
    for group in ["g", "kept"] {
        owners.claim(group, "h1", &Owner::User(1000)).unwrap().own().unwrap();
    }
    assert_eq!(owners.forget_group("g", &Owner::User(1000)).len(), 1);
    let owners = Owners::load(dir.path());
    assert_eq!(code(owners.claim("g", "h1", &Owner::User(1001))), Code::Ok);
    assert_eq!(code(owners.claim("kept", "h1", &Owner::User(1001))), Code::PermissionDenied);
}

#[test]
fn a_damaged_file_is_renamed_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("host-owners");
    Owners::load(dir.path()).claim("g", "h1", &Owner::User(1000)).unwrap().own().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let changed = text.replace("1000", "1001");
    fs::write(&path, &changed).unwrap();
    let owners = Owners::load(dir.path());
    assert_eq!(owners.claim("g", "h1", &Owner::User(5)).unwrap().owner(), None);
    assert_eq!(fs::read_to_string(path.with_extension("damaged")).unwrap(), changed);
}

#[test]
fn the_number_of_owners_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let owners = Owners::load(dir.path());
    owners.state().owned = (0..MAX_OWNED).map(|n| (("g".to_owned(), format!("h{n}")), Owner::User(1))).collect();
    let one_more = owners.claim("g", "another", &Owner::User(1)).unwrap();
    assert_eq!(code(one_more.own()), Code::ResourceExhausted);
}

fn pod(account: &str, uid: &str) -> Owner {
    format!("{account} {uid}").parse().unwrap()
}

/// Catches a membership that another pod can change or end, or root, where a pod is its owner, and an owner that a restart forgets.
#[test]
fn a_pods_membership_is_its_own_after_a_restart_too() {
    let dir = tempfile::tempdir().unwrap();
    let own = pod("training/trainer", "1");
    let owners = Owners::load(dir.path());
    owners.claim("g", "h1", &own).unwrap().own().unwrap();
    owners.claim("g", "h2", &Owner::User(1000)).unwrap().own().unwrap();
    let text = fs::read_to_string(dir.path().join("host-owners")).unwrap();
    assert!(text.contains("\ng h1 training/trainer 1\ng h2 1000\n"), "{text}");
    let (owners, key) = (Owners::load(dir.path()), ("g".to_owned(), "h1".to_owned()));
    for (other, kind) in [
        (pod("training/trainer", "2"), "another pod of this service account"),
        (pod("training/other", "1"), "a pod of another service account"),
        (Owner::User(1000), "a pod"),
    ] {
        let refused = owners.claim("g", "h1", &other).err().unwrap();
        assert!(refused.code() == Code::PermissionDenied && refused.message().contains(kind), "{refused}");
        assert!(!refused.message().contains("training"), "{refused}");
        assert_eq!(code(owners.check(&key, &other)), Code::PermissionDenied);
    }
    assert_eq!(code(owners.claim("g", "h2", &own)), Code::PermissionDenied, "a user's");
    assert_eq!(owners.claim("g", "h1", &own).unwrap().owner(), Some(&own));
    assert_eq!(code(owners.check(&key, &own)), Code::Ok);
    let never_joined = ("g".to_owned(), "h3".to_owned());
    assert_eq!(code(owners.check(&never_joined, &own)), Code::NotFound);
}

/// Catches a pod that makes the agent forget whose the memberships of another namespace are, by naming a group that it does not see.
#[test]
fn a_group_that_is_not_there_for_a_pod_may_be_there_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let owners = Owners::load(dir.path());
    for (host, owner) in [("h1", pod("a/x", "1")), ("h2", pod("b/x", "2")), ("h3", pod("a/y", "3"))] {
        owners.claim("g", host, &owner).unwrap().own().unwrap();
    }
    assert!(owners.forget_group("g", &pod("c/x", "4")).is_empty());
    let gone = owners.forget_group("g", &pod("b/x", "4"));
    assert_eq!(gone, [("g".to_owned(), "h2".to_owned())]);
    assert_eq!(code(owners.claim("g", "h1", &pod("b/x", "4"))), Code::PermissionDenied);
}
