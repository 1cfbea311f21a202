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
    Owners::load(dir.path()).claim("g", "h1", 1000).unwrap().own().unwrap();
    let owners = Owners::load(dir.path());
    assert_eq!(code(owners.claim("g", "h1", 1001)), Code::PermissionDenied);
    assert_eq!(owners.claim("g", "h1", 1000).unwrap().owner(), Some(1000));
    let root = owners.claim("g", "h1", ROOT).unwrap();
    root.own().unwrap();
    drop(root);
    assert_eq!(owners.claim("g", "h1", 1000).unwrap().owner(), Some(1000), "root does not become the owner");
    owners.claim("g", "h1", 1000).unwrap().end();
    assert_eq!(code(Owners::load(dir.path()).claim("g", "h1", 1001)), Code::Ok);
}

#[test]
fn a_refused_join_keeps_an_existing_membership() {
    let dir = tempfile::tempdir().unwrap();
    let owners = Owners::load(dir.path());
    let first = owners.claim("g", "h1", 1000).unwrap();
    first.own().unwrap();
    assert_eq!(code(owners.claim("g", "h1", 1000)), Code::Aborted, "one call at a time");
    drop(first);
    let again = owners.claim("g", "h1", 1000).unwrap();
    again.own().unwrap();
    again.undo();
    drop(again);
    assert_eq!(code(owners.claim("g", "h1", 1001)), Code::PermissionDenied, "the membership existed before");
    let new = owners.claim("g", "h2", 1000).unwrap();
    new.own().unwrap();
    new.undo();
    drop(new);
    assert_eq!(code(owners.claim("g", "h2", 1001)), Code::Ok);
}

#[test]
fn a_deleted_group_has_no_owners() {
    let dir = tempfile::tempdir().unwrap();
    let owners = Owners::load(dir.path());
    for group in ["g", "kept"] {
        owners.claim(group, "h1", 1000).unwrap().own().unwrap();
    }
    owners.forget_group("g");
    let owners = Owners::load(dir.path());
    assert_eq!(code(owners.claim("g", "h1", 1001)), Code::Ok);
    assert_eq!(code(owners.claim("kept", "h1", 1001)), Code::PermissionDenied);
}

#[test]
fn a_damaged_file_is_renamed_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("host-owners");
    Owners::load(dir.path()).claim("g", "h1", 1000).unwrap().own().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let changed = text.replace("1000", "1001");
    fs::write(&path, &changed).unwrap();
    let owners = Owners::load(dir.path());
    assert_eq!(owners.claim("g", "h1", 5).unwrap().owner(), None);
    assert_eq!(fs::read_to_string(path.with_extension("damaged")).unwrap(), changed);
}

#[test]
fn the_number_of_owners_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let owners = Owners::load(dir.path());
    owners.state().owned = (0..MAX_OWNED).map(|n| (("g".to_owned(), format!("h{n}")), 1)).collect();
    let one_more = owners.claim("g", "another", 1).unwrap();
    assert_eq!(code(one_more.own()), Code::ResourceExhausted);
}
