// SPDX-License-Identifier: Apache-2.0
//! `explain [CODE|KIND[.FIELD]]`: what a problem's code means, or what a field is, as the controller knows it.

use std::io::Write;

use canopy_controller_api::List;
use canopy_controller_api::health::ProblemCodeItem;

use serde_json::Value;

use super::fields;
use super::problems::severity;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::{table, text};

/// See the module.
///
/// # Errors
/// The controller cannot be reached, or has no such code.
pub async fn run(client: &Client, what: Option<&str>, out: &mut dyn Write) -> Result<(), Failure> {
    if let Some((path, component)) = what.and_then(|what| Some((what, fields::kind(what)?))) {
        let document: Value = client.get("reading the description of the API", "/api/v1/openapi.json").await?;
        return fields::explain(&document, component, path, out);
    }
    let code = what;
    let all: List<ProblemCodeItem> = client.get("reading the codes of problems", "/api/v1/problem-codes").await?;
    let Some(code) = code else {
        let row = |c: &ProblemCodeItem| {
            vec![text(&c.code), text(c.severity), format!("{} {}", text(c.object), text(&c.title))]
        };
        return table(out, &["CODE", "SEVERITY", "PROBLEM"], all.items.iter().map(row).collect());
    };
    let found = all.items.iter().find(|c| c.code.eq_ignore_ascii_case(code));
    let found = found.ok_or_else(|| {
        let kinds = fields::kinds();
        let why =
            format!("{code:?} is neither the code of a problem (`canopyctl explain` lists them) nor one of {kinds}");
        Failure::new(Exit::NotFound, why)
    })?;
    write(found, out)
}

fn write(of: &ProblemCodeItem, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "{} ({}): a {} {}", text(&of.code), severity(of.severity), text(of.object), text(&of.title))?;
    writeln!(out, "\n{}\n\nWhat to do: {}\n", text(&of.meaning), text(&of.remedy))?;
    let seconds = |ms: u64| format!("{} s", ms as f64 / 1e3);
    Ok(writeln!(out, "Opens after {}, closes after {}.", seconds(of.opens_after_ms), seconds(of.closes_after_ms))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_explained_with_its_remedy_and_its_delays() {
        let all = ProblemCodeItem::all();
        let of = all.iter().find(|c| c.code == "LinkCongested").unwrap();
        let mut out = Vec::new();
        write(of, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.starts_with("LinkCongested (WARNING): a port has a queue above K_max\n"), "{out}");
        assert!(out.contains("What to do: ") && out.ends_with("Opens after 2 s, closes after 5 s.\n"), "{out}");
    }
}
