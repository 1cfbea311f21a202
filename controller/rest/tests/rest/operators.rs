// SPDX-License-Identifier: Apache-2.0
//! 100 operators change, delete and create one resource at the same time. What was answered is the oracle: every incarnation is one chain of
//! changes, each made to what its writer had read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::Api;

const OPERATORS: usize = 100;
/// Changes that each operator gets through.
const CHANGES: usize = 8;
const PATH: &str = "/api/v1/groups/contested";

/// What was answered with success: the ETag of a state, its count, and the ETag that the writer had read.
type Written = Mutex<BTreeMap<String, (u64, Option<String>)>>;

fn group(count: u64) -> Value {
    json!({"apiVersion": "canopy/v1", "kind": "Group", "metadata": {"name": "contested", "labels": {"count": count.to_string()}}, "spec": {}})
}

fn count(group: &Value) -> u64 {
    group["metadata"]["labels"]["count"].as_str().unwrap().parse().unwrap()
}

/// Adds one to the count that it reads, or begins at 0; now and then deletes what it reads.
async fn operate(api: &Api, written: &Written, deleted: &Mutex<Vec<String>>, operator: usize) {
    let json_type = ("content-type", "application/json");
    let mut done = 0;
    while done < CHANGES {
        let read = api.get(PATH).await;
        // The others run between what is read and what is written.
        tokio::task::yield_now().await;
        let (tag, value) = (read.header("etag").to_owned(), read.text.clone());
        let answer = match read.status.as_u16() {
            404 => {
                let answer = api.send("PUT", PATH, &[json_type, ("if-none-match", "*")], group(0).to_string()).await;
                if answer.status == 201 {
                    let before = written.lock().unwrap().insert(answer.header("etag").to_owned(), (0, None));
                    assert_eq!(before, None, "a tag is given once");
                }
                answer
            }
            _ if (operator + done).is_multiple_of(10) => {
                let answer = api.send("DELETE", PATH, &[("if-match", &tag)], "").await;
                if answer.status == 204 {
                    deleted.lock().unwrap().push(tag);
                }
                answer
            }
            _ => {
                let next = count(&serde_json::from_str(&value).unwrap()) + 1;
                let answer = api.send("PUT", PATH, &[json_type, ("if-match", &tag)], group(next).to_string()).await;
                if answer.status == 200 {
                    let at = answer.header("etag").to_owned();
                    let before = written.lock().unwrap().insert(at, (next, Some(tag)));
                    assert_eq!(before, None, "a tag is given once");
                }
                answer
            }
        };
        match answer.status.as_u16() {
            200 | 201 | 204 => done += 1,
            412 => assert_eq!(answer.problem().1, "PreconditionFailed"),
            other => panic!("{other}: {}", answer.text),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_change_of_100_operators_is_lost_and_none_hits_another_incarnation() {
    let api = Arc::new(Api::prepared().await);
    let (written, deleted) = (Arc::new(Written::default()), Arc::new(Mutex::new(Vec::new())));
    let operators = (0..OPERATORS).map(|operator| {
        let (api, written, deleted) = (api.clone(), written.clone(), deleted.clone());
        tokio::spawn(async move { operate(&api, &written, &deleted, operator).await })
    });
    for operator in operators.collect::<Vec<_>>() {
        operator.await.unwrap();
    }
    let is_left = usize::from(api.get(PATH).await.status == 200);
    let (written, deleted) = (written.lock().unwrap(), deleted.lock().unwrap());
    assert_eq!(written.len() + deleted.len(), OPERATORS * CHANGES);
    // Each state was made from one that was written, and none was the ground of two: nothing was lost.
    let mut grounds = std::collections::BTreeSet::new();
    for (tag, (count, ground)) in &*written {
        let Some(ground) = ground else {
            assert_eq!(*count, 0);
            continue;
        };
        let (before, _) =
            written.get(ground).unwrap_or_else(|| panic!("{tag} is made from {ground}, which was not written"));
        assert_eq!(*count, before + 1, "{tag} was made from another state than {ground}");
        assert!(grounds.insert(ground.clone()), "{ground} was changed twice");
        let uid = |tag: &str| tag.trim_matches('"').split('.').next().unwrap().to_owned();
        assert_eq!(uid(tag), uid(ground), "a change of one incarnation became one of another");
    }
    for tag in &*deleted {
        assert!(written.contains_key(tag) && grounds.insert(tag.clone()), "{tag} was deleted after it was changed");
    }
    let births = written.values().filter(|(_, ground)| ground.is_none()).count();
    assert_eq!(births, deleted.len() + is_left);
    assert!(births > 10, "the resource was deleted and created again");
}
