// SPDX-License-Identifier: Apache-2.0
//! `get paths FROM TO` and `decode ADDRESS`: paths by uSIDs of a pair of hosts, and what a captured header leads through.

use std::io::Write;

use canopy_controller_api::path::{DecodedAction, DecodedEnd, DecodedPath, PathDisjoint, PathItem, PathMethod, Paths};
use canopy_controller_api::query::{DecodeQuery, PathQuery};
use canopy_model::{host_programs, usid};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::rows::{self, Column};
use super::with_query;
use crate::cli::{DecodeArgs, Output};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::{json, text, yaml};

/// Paths that the controller lists of one pair, at most.
const MAX_PATHS: usize = 256;

const COLUMNS: &[Column<PathItem>] = &[
    ("DESTINATION ADDRESS", |p| text(p.destination), false),
    ("SRH", srh, false),
    ("OVER", over, false),
    ("MTU", |p| text(p.mtu), false),
    ("SHARES NO", disjoint, false),
    ("MARKS", marks, false),
    ("PROGRAM", |p| text(p.program.join(", ")), true),
    ("LINKS", |p| text(p.links.iter().map(|l| l.link.as_str()).collect::<Vec<_>>().join(", ")), true),
];

/// What the controller is asked for.
///
/// # Errors
/// A host is missing.
pub(super) fn target(from: Option<&str>, to: Option<&str>) -> Result<String, Failure> {
    let (Some(from), Some(to)) = (from, to) else {
        return Err(Failure::new(Exit::Usage, "name two hosts: get paths FROM TO"));
    };
    let (from, to) = (from.to_owned(), to.to_owned());
    with_query("/api/v1/paths", &PathQuery { from, to, style: None, limit: Some(MAX_PATHS), next: None })
}

/// Prints the controller's answer.
///
/// # Errors
/// It is not what this program knows, or writing failed.
pub(super) fn show(answer: Value, output: Output, out: &mut dyn Write) -> Result<(), Failure> {
    match output {
        Output::Json => json(out, &answer),
        Output::Yaml => yaml(out, &answer),
        Output::Name => {
            let paths: Paths = read(answer)?;
            for path in paths.items {
                writeln!(out, "path/{}", path.destination)?;
            }
            Ok(())
        }
        Output::Table => write(&read(answer)?, false, out),
        Output::Wide => write(&read(answer)?, true, out),
    }
}

fn read<T: DeserializeOwned>(answer: Value) -> Result<T, Failure> {
    let differs = |e| Failure::new(Exit::Error, format!("the answer differs from the API of this canopyctl: {e}"));
    serde_json::from_value(answer).map_err(differs)
}

fn write(paths: &Paths, is_wide: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let columns: Vec<Column<PathItem>> = COLUMNS.iter().copied().filter(|column| is_wide || !column.2).collect();
    rows::write(&columns, &paths.items, out)?;
    let method = match paths.method {
        PathMethod::UpDown => "all shortest up-down paths",
        PathMethod::Detours => "paths of a heuristic",
    };
    let (shown, total) = (paths.items.len() as u64, paths.total);
    let of = if shown < total { format!("{shown} of {total}") } else { total.to_string() };
    writeln!(out, "{of}: {method}")?;
    for missing in missing(paths) {
        writeln!(out, "{missing}")?;
    }
    Ok(())
}

/// What is missing until packets take these paths.
pub(super) fn missing(paths: &Paths) -> Vec<String> {
    let contract = host_programs::MINOR_VERSION;
    let not_forwarded = || {
        format!("not all of these nodes have reported that they forward path programs of hosts: contract 1.{contract}")
    };
    let not_permitted =
        || format!("{} may not send path programs: its pathPrograms in the topology is not true", text(&paths.from));
    let all = [(!paths.forwarded).then(not_forwarded), (!paths.permitted).then(not_permitted)];
    all.into_iter().flatten().collect()
}

fn srh(path: &PathItem) -> String {
    if path.segments.is_empty() { "-".to_owned() } else { text(path.segments.len()) }
}

/// The nodes that it leads over.
fn over(path: &PathItem) -> String {
    let nodes: Vec<&str> = path.links.iter().skip(1).map(|link| link.from.as_str()).collect();
    text(nodes.join(" "))
}

fn disjoint(path: &PathItem) -> String {
    match path.disjoint {
        None => "-",
        Some(PathDisjoint::Plane) => "plane",
        Some(PathDisjoint::Node) => "node",
        Some(PathDisjoint::Link) => "link",
        Some(PathDisjoint::Not) => "",
    }
    .to_owned()
}

fn marks(path: &PathItem) -> String {
    let mut marks = Vec::new();
    for link in &path.links {
        let lossy = link.lossy_permille.map(|permille| format!("loses {:.1} %", f64::from(permille) / 10.0));
        let of_link = [link.drained.then(|| "drained".to_owned()), link.dead.then(|| "dead".to_owned()), lossy];
        marks.extend(of_link.into_iter().flatten().map(|mark| format!("{} {mark}", link.link)));
    }
    marks.extend(path.refused.as_ref().map(|why| format!("refused by the edge: {why}")));
    text(marks.join(", "))
}

/// See the module.
///
/// # Errors
/// The controller cannot be reached, or there is no such node.
pub async fn decode(client: &Client, args: &DecodeArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let query = DecodeQuery {
        address: args.address,
        segments: args.segments.clone(),
        segments_left: args.segments_left,
        at: args.at.clone(),
    };
    let target = with_query("/api/v1/paths/decode", &query)?;
    let answer: Value = client.get(&format!("decoding {}", args.address), &target).await?;
    if args.json {
        return json(out, &answer);
    }
    write_decoded(&read(answer)?, out)
}

fn write_decoded(decoded: &DecodedPath, out: &mut dyn Write) -> Result<(), Failure> {
    for step in &decoded.steps {
        let link = step.link.as_ref().map_or(String::new(), |link| format!(" over {}", text(link)));
        writeln!(out, "{}: {} at {}{link}", text(&step.place), text(&step.usid), text(&step.node))?;
    }
    match &decoded.end {
        Some(end) => writeln!(out, "{}", end_of(end))?,
        None => writeln!(out, "dropped: {}", text(&decoded.error))?,
    }
    if !decoded.forwarded {
        let contract = usid::MINOR_VERSION;
        writeln!(out, "not all of these nodes have reported that they forward by path SIDs: contract 1.{contract}")?;
    }
    Ok(())
}

fn end_of(end: &DecodedEnd) -> String {
    let node = text(&end.node);
    let given = |value: &Option<String>| text(value.as_deref().unwrap_or_default());
    match end.action {
        DecodedAction::Decapsulate => format!("{node} removes the header and forwards the inner packet by its routes"),
        DecodedAction::Deliver => {
            format!(
                "{node} removes the header and sends the inner packet to {} over {}",
                given(&end.to),
                given(&end.link)
            )
        }
        DecodedAction::Service => format!("service {:#06x} of {node} has the inner packet", end.service.unwrap_or(0)),
        DecodedAction::EndMt => format!("End.MT of {node}: the packet of a group, for its receivers"),
        DecodedAction::Replicate => format!("{node} copies the packet along tree {}", end.tree.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Catches a path whose nodes include a host, and an answer that does not state what is missing until packets take it.
    #[test]
    fn paths_are_rows_with_their_nodes_and_marks() {
        let link = |link: &str, from: &str, lossy: Option<u16>| json!({"link": link, "from": from, "destination": null, "drained": lossy.is_some(), "dead": false, "lossyPermille": lossy});
        let answer = json!({"apiVersion": "canopy/v1", "kind": "Paths", "metadata": {}, "from": "h1", "to": "h2", "method": "upDown",
            "total": 9, "permitted": false, "forwarded": false, "items": [{"program": ["uN 0x0001", "uN 0x0002"], "destination": "5f00:0:1:2::",
            "segments": [], "segmentsLeft": 0, "overhead": 40, "mtu": 8960, "disjoint": "node", "sound": false,
            "links": [link("h1/e0--n1/h", "h1", None), link("n1/e1--n2/e1", "n1", Some(21)), link("n2/h--h2/e0", "n2", None)]}]});
        let shown = |is_wide| {
            let mut out = Vec::new();
            write(&read(answer.clone()).unwrap(), is_wide, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let table = shown(false);
        let row: Vec<&str> =
            table.lines().nth(1).unwrap().split("  ").map(str::trim).filter(|c| !c.is_empty()).collect();
        let marks = "n1/e1--n2/e1 drained, n1/e1--n2/e1 loses 2.1 %";
        assert_eq!(row, ["5f00:0:1:2::", "-", "n1 n2", "8960", "node", marks], "{table}");
        let last = "not all of these nodes have reported that they forward path programs of hosts: contract 1.10\n\
            h1 may not send path programs: its pathPrograms in the topology is not true\n";
        assert!(table.ends_with(&format!("1 of 9: all shortest up-down paths\n{last}")), "{table}");
        assert!(shown(true).contains("uN 0x0001, uN 0x0002"));
    }

    /// Catches an error that is shown as an end, and an end without its node.
    #[test]
    fn a_decoded_header_is_its_steps_and_its_end() {
        let step = json!({"place": "uSID 1 of the destination address", "usid": "uN 0x0002", "node": "n2", "link": "n1/e1--n2/e1"});
        let shown = |end: Value, error: &str| {
            let decoded = json!({"apiVersion": "canopy/v1", "kind": "DecodedPath", "forwarded": true, "steps": [step], "end": end, "error": error});
            let mut out = Vec::new();
            write_decoded(&read(decoded).unwrap(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let end = json!({"action": "deliver", "node": "n2", "link": "n2/h--h2/e0", "to": "h2", "service": null, "tree": null});
        let first = "uSID 1 of the destination address: uN 0x0002 at n2 over n1/e1--n2/e1\n";
        let delivered = "n2 removes the header and sends the inner packet to h2 over n2/h--h2/e0\n";
        assert_eq!(shown(end, ""), format!("{first}{delivered}"));
        assert_eq!(shown(json!(null), "uSID 2: x"), format!("{first}dropped: uSID 2: x\n"));
    }
}
