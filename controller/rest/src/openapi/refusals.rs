// SPDX-License-Identifier: Apache-2.0
//! Which problems each operation may answer, from what it takes: parameters, a body, conditions. Those that only it answers are with its
//! handler.
//!
//! 405 is no answer of an operation: it is the answer to a method that a path does not have.

use axum::http::Method;
use serde_json::{Value, json};

use super::document::operations;
use crate::authorization::needed;

/// Content type of a problem (RFC 9457).
const PROBLEM: &str = "application/problem+json";

/// Adds the refusals that follow from what an operation takes, and gives all of them their content type.
pub(super) fn put(document: &mut Value) {
    for (path, method, operation) in operations(document) {
        let refusals = of(&path, &method, operation);
        if let Some(answers) = operation["responses"].as_object_mut() {
            for (status, description) in refusals {
                let answer =
                    answers.entry(status).or_insert_with(|| json!({"description": description, "content": {}}));
                if answer["content"].get("application/json").is_none() {
                    answer["content"][PROBLEM] = json!({"schema": {"$ref": "#/components/schemas/Problem"}});
                }
            }
            answers.values_mut().for_each(name_problems);
        }
    }
}

/// `Problem` as `application/problem+json`.
fn name_problems(answer: &mut Value) {
    let Some(content) = answer.get_mut("content").and_then(Value::as_object_mut) else { return };
    let is_problem = |media: &Value| media["schema"]["$ref"] == "#/components/schemas/Problem";
    if content.get("application/json").is_some_and(is_problem)
        && let Some(media) = content.remove("application/json")
    {
        content.insert(PROBLEM.into(), media);
    }
}

fn of(path: &str, method: &str, operation: &Value) -> Vec<(&'static str, &'static str)> {
    let parameters = operation.get("parameters").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let has = |name: &str| parameters.iter().any(|parameter| parameter["name"] == name);
    let is_api = path.starts_with("/api/");
    let role = needed(&Method::from_bytes(method.to_ascii_uppercase().as_bytes()).unwrap_or_default(), path, None);
    let changes_nothing_stored = path == "/api/v1/validate"
        || path.starts_with("/api/v1/sign-in")
        || path.starts_with("/api/v1/sessions")
        || path.starts_with("/api/v1/single-sign-on")
        || path.ends_with("/captures");
    let is_write = matches!(method, "post" | "put" | "delete") && !changes_nothing_stored;
    let has_body = operation.get("requestBody").is_some();
    let all = [
        // Also for a parameter that there is not, and for a path that is not UTF-8.
        (is_api || !parameters.is_empty(), "400", "a parameter, a header or the body cannot be understood"),
        (is_api || role.is_some(), "401", "the caller has no role, a session has ended, or a token does not work"),
        (
            method != "get" || role.is_some(),
            "403",
            "the caller's role is not enough, or sent by a web page of another origin",
        ),
        (is_write || has_body, "409", "in conflict with the present state, or not part of the pending commit"),
        (has("If-Match"), "412", "a condition does not hold"),
        (has_body, "408", "the body is not whole in time"),
        (has_body, "413", "the body is too large"),
        (has_body, "415", "the body is not application/json"),
        (true, "421", "Host is not a name of this machine"),
        (is_write || has_body, "422", "not valid, or over a limit"),
        (
            true,
            "429",
            "more connections, streams or octets in flight than one caller may have: try again after `Retry-After`",
        ),
        (path != "/livez", "500", "the store failed, or the answer could not be made"),
        (true, "503", "stopping, busy, or no answer in time"),
        (is_write, "507", "the store is full"),
    ];
    all.into_iter().filter(|(is_so, ..)| *is_so).map(|(_, status, description)| (status, description)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a problem that is described as plain JSON, and an operation without the refusals that all have.
    #[test]
    fn every_refusal_is_a_problem_document() {
        let mut document = crate::openapi::openapi();
        for (path, method, operation) in operations(&mut document) {
            let at = format!("{method} {path}");
            let answers = operation["responses"].as_object().unwrap();
            assert!(answers.contains_key("503") && answers.contains_key("421"), "{at}");
            for (status, answer) in answers.iter().filter(|(status, _)| status.as_str() >= "400") {
                let plain = path == "/readyz" && status == "503";
                assert!(plain || answer["content"].get(PROBLEM).is_some(), "{at} {status}");
                assert!(answer["content"].get("application/json").is_none(), "{at} {status}");
            }
        }
    }
}
