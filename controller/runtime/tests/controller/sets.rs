// SPDX-License-Identifier: Apache-2.0
//! `canopyctl apply --prune --set`, and the deletion of a group that takes several steps.

use std::fmt::Write;
use std::path::Path;

use crate::support::{Controller, LAB};

/// Groups of these names, and a drain.
fn file(dir: &Path, groups: &[&str]) -> String {
    let mut text =
        "apiVersion: canopy/v1\nkind: Drain\nmetadata: {name: d1}\nspec: {link: n1/eth1, reason: optics}\n".to_owned();
    for name in groups {
        write!(text, "---\napiVersion: canopy/v1\nkind: Group\nmetadata: {{name: {name}}}\nspec: {{}}\n").unwrap();
    }
    let path = dir.join("set.yaml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

async fn names(controller: &Controller) -> String {
    controller.ctl(&["get", "groups", "-o", "name"]).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_is_pruned_of_what_its_files_no_longer_have() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    let apply = async |groups: &[&str], args: &[&str]| {
        let file = file(dir.path(), groups);
        controller.ctl(&[&["apply", "-f", &file], args].concat()).await
    };
    let created = apply(&["a", "b", "c"], &["--prune", "--set", "s"]).await.unwrap();
    assert_eq!(created, "drain/d1 created\ngroup/a created\ngroup/b created\ngroup/c created\n");
    // Without the set, it belongs to nothing.
    assert_eq!(apply(&["z"], &[]).await.unwrap(), "drain/d1 updated\ngroup/z created\n");

    let dry = apply(&["a"], &["--prune", "--set", "s", "--dry-run"]).await.unwrap();
    let expected = "drain/d1 updated (dry run)\ngroup/a unchanged (dry run)\ngroup/b would be deleted; no node or tree changes\ngroup/c would be deleted; no node or tree changes\n";
    assert_eq!(dry, expected);
    // Only the label is written without --prune.
    apply(&["a"], &["--set", "s"]).await.unwrap();
    assert_eq!(
        names(&controller).await.lines().collect::<Vec<_>>(),
        ["group/a", "group/b", "group/c", "group/g1", "group/z"]
    );

    let taken = apply(&["a", "b"], &["--prune", "--set", "t"]).await.unwrap_err();
    assert!(taken.0 == 4 && taken.1.contains("is in set s, not t"), "{taken:?}");
    let pruned = apply(&["a"], &["--prune", "--set", "s"]).await.unwrap();
    assert_eq!(pruned, "drain/d1 unchanged\ngroup/a unchanged\ngroup/b pruned\ngroup/c pruned\n");
    assert_eq!(names(&controller).await.lines().collect::<Vec<_>>(), ["group/a", "group/g1", "group/z"]);

    // In a commit that is taken back, what was pruned comes back with its set.
    let pending = apply(&["b"], &["--prune", "--set", "s", "--confirm", "1h"]).await.unwrap();
    assert!(pending.contains("group/a pruned"), "{pending}");
    controller.ctl(&["commit", "cancel"]).await.unwrap();
    assert_eq!(names(&controller).await.lines().collect::<Vec<_>>(), ["group/a", "group/g1", "group/z"]);
    assert_eq!(apply(&["b"], &["--prune", "--set", "s"]).await.unwrap().lines().last(), Some("group/a pruned"));
    controller.stop().await;
}

const MEMBERS: usize = 118;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deletion_of_a_large_group_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    let mut text = "apiVersion: canopy/v1\nkind: Topology\nmetadata: {name: default}\nspec:\n  nodes: [{name: n1, id: 1}]\n  hosts:\n".to_owned();
    for h in 1..=MEMBERS {
        writeln!(text, "    - {{name: h{h}, prefix: \"2001:db8:{h:x}::/64\", address: \"2001:db8:{h:x}::1\"}}")
            .unwrap();
    }
    text += "  links:\n";
    for h in 1..=MEMBERS {
        writeln!(text, "    - {{a: n1/eth{h}, b: h{h}/eth0}}").unwrap();
    }
    for name in ["a", "b"] {
        write!(text, "---\napiVersion: canopy/v1\nkind: Group\nmetadata: {{name: {name}}}\nspec: {{}}\n").unwrap();
        for h in 1..=MEMBERS {
            write!(text, "---\napiVersion: canopy/v1\nkind: Member\nmetadata: {{group: {name}}}\nspec: {{host: h{h}, role: receiver, qpn: 17}}\n").unwrap();
        }
    }
    controller.apply(&text).await.unwrap();
    let waited = controller.ctl(&["delete", "group", "a"]).await.unwrap();
    let lines: Vec<&str> = waited.lines().collect();
    assert_eq!(lines.first(), Some(&"group/a: it is being deleted: 118 members are left"));
    assert_eq!(lines.last(), Some(&"group/a deleted"));
    assert_eq!(names(&controller).await, "group/b\n");
    let not_waited = controller.ctl(&["delete", "group", "b", "--no-wait"]).await.unwrap();
    assert_eq!(not_waited, "group/b: it is being deleted: 118 members are left\n");
    controller.ctl(&["wait", "group", "b", "--for", "deleted"]).await.unwrap();
    assert_eq!(controller.store.scan("member/").unwrap().entries, vec![]);
    controller.stop().await;
}

/// Catches files of many resources that are written in part, without a way back, or that a controller forgets which restarts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_resources_are_one_change_set() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    let file = |n: usize| {
        (0..n).fold(String::new(), |mut text, i| {
            write!(text, "---\napiVersion: canopy/v1\nkind: Group\nmetadata: {{name: m{i:04}}}\nspec: {{}}\n").unwrap();
            text
        })
    };
    // Few are written one by one.
    controller.apply(&file(30)).await.unwrap();
    assert_eq!(controller.ctl(&["change-set", "list"]).await.unwrap(), "no change sets\n");
    let applied = controller.apply(&file(200)).await.unwrap();
    let lines: Vec<&str> = applied.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[199]), (201, "group/m0000 unchanged", "group/m0199 created"));
    let id = lines[200].split(' ').nth(2).unwrap();
    let shown = controller.ctl(&["change-set", "show", id]).await.unwrap();
    assert!(shown.contains("applied, 200 of 200 resources, 170 created, 0 updated"), "{shown}");
    // Within a commit, it is no change set.
    let pending =
        controller.ctl(&["apply", "-f", dir.path().join("apply.yaml").to_str().unwrap(), "--confirm", "1h"]).await;
    assert!(pending.is_ok(), "{pending:?}");
    let list = controller.ctl(&["change-set", "list"]).await.unwrap();
    assert_eq!(list.lines().count(), 2, "{list}");

    controller.ctl(&["delete", "group", "m0100"]).await.unwrap();
    let (code, why) = controller.ctl(&["change-set", "undo", id]).await.unwrap_err();
    assert_eq!((code, why.as_str()), (4, "1 of its resources were not put back"));
    let shown = controller.ctl(&["change-set", "show", id]).await.unwrap();
    assert!(shown.contains("169 of 170 put back\n  group/m0100 was not put back: "), "{shown}");
    assert_eq!(names(&controller).await.lines().count(), 31);
    controller.stop().await;
}
