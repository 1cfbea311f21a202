// SPDX-License-Identifier: Apache-2.0
//! `route FROM TO`: the route with which the kernel of a host sends along a path (H.Encaps.Red, RFC 8986 section 5.2).

use std::io::Write;
use std::iter;

use canopy_controller_api::HostResource;
use canopy_controller_api::path::{PathItem, Paths};
use canopy_model::addressing::AddressPlan;

use super::{paths, segment};
use crate::cli::RouteArgs;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::text;

/// See the module.
///
/// # Errors
/// The controller cannot be reached, a host is not there or may not send programs, or no path is as wanted.
pub async fn run(client: &Client, args: &RouteArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let RouteArgs { from, to, path } = args;
    let listing = format!("paths from {from} to {to}");
    let paths: Paths = client.get(&listing, &paths::target(Some(from), Some(to))?).await?;
    let target = format!("/api/v1/hosts/{}", segment("host", to)?);
    let host: HostResource = client.get(&format!("host {to}"), &target).await?;
    writeln!(out, "{}", route(&paths, *path, &host.spec.prefix.to_string())?)?;
    Ok(())
}

/// The command that makes the route.
fn route(paths: &Paths, number: Option<u16>, to: &str) -> Result<String, Failure> {
    let refused = |why: String| Failure::new(Exit::Error, why);
    if let Some(missing) = paths::missing(paths).into_iter().next() {
        return Err(refused(missing));
    }
    let count = paths.items.len();
    let path = match number {
        Some(number) => paths.items.get(usize::from(number) - 1).ok_or_else(|| {
            Failure::new(
                Exit::Usage,
                format!("--path {number}: {count} paths lead from {} to {}", paths.from, paths.to),
            )
        })?,
        None => paths.items.iter().find(|path| path.sound && path.refused.is_none()).ok_or_else(|| {
            refused(format!("none of {count} paths is without a mark: see `get paths`, and choose one by --path"))
        })?,
    };
    if let Some(why) = &path.refused {
        return Err(refused(format!("the edge of {} refuses the program: {why}", paths.from)));
    }
    let port = port_of(path, &paths.from).ok_or_else(|| refused(format!("path without the link of {}", paths.from)))?;
    let addresses = iter::once(path.destination).chain(path.segments.iter().rev().copied());
    let segments: Vec<String> = addresses.map(|address| address.to_string()).collect();
    let gateway = AddressPlan::default().host_gateway();
    let (port, segments, mtu) = (text(port), segments.join(","), path.mtu);
    Ok(format!("ip -6 route replace {to} encap seg6 mode encap.red segs {segments} via {gateway} dev {port} mtu {mtu}"))
}

/// The port by which the path leaves its host.
fn port_of<'a>(path: &'a PathItem, host: &str) -> Option<&'a str> {
    let ends = path.links.first()?.link.split("--");
    ends.filter_map(|end| end.split_once('/')).find(|(device, _)| *device == host).map(|(_, port)| port)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn paths() -> Value {
        let link = |link: &str, from: &str| json!({"link": link, "from": from, "destination": null, "drained": false, "dead": false, "lossyPermille": null});
        let path = |destination: &str, segments: &[&str], sound: bool, refused: Value| {
            json!({"program": [], "destination": destination, "segments": segments, "segmentsLeft": segments.len(), "overhead": 40, "mtu": 4200,
                "disjoint": null, "sound": sound, "refused": refused, "links": [link("leaf1/h1--h1/eth7", "h1"), link("leaf2/h2--h2/e0", "leaf2")]})
        };
        json!({"apiVersion": "canopy/v1", "kind": "Paths", "metadata": {}, "from": "h1", "to": "h2", "method": "upDown", "total": 4,
        "permitted": true, "forwarded": true, "items": [
            path("5f00:0:1:e001::", &[], true, json!("it ends so")), path("5f00:0:1:5:2::", &[], false, json!(null)),
            path("5f00:0:1:6:2:6:2:6", &["5f00:0:2::", "5f00:0:7:8:9::"], true, json!(null)),
        ]})
    }

    fn made(paths: Value, number: Option<u16>) -> Result<String, String> {
        let paths = serde_json::from_value(paths).unwrap();
        route(&paths, number, "2001:db8:0:2::/64").map_err(|e| e.message)
    }

    /// Catches segments in the order of the wire, the port of the far end, and a path with a mark that is taken unasked.
    #[test]
    fn the_first_path_without_a_mark_is_taken_and_its_segments_are_in_the_order_of_the_way() {
        let wanted = |segments| {
            format!(
                "ip -6 route replace 2001:db8:0:2::/64 encap seg6 mode encap.red segs {segments} via fe80::1 dev eth7 mtu 4200"
            )
        };
        assert_eq!(made(paths(), None), Ok(wanted("5f00:0:1:6:2:6:2:6,5f00:0:7:8:9::,5f00:0:2::")));
        assert_eq!(made(paths(), Some(2)), Ok(wanted("5f00:0:1:5:2::")));
    }

    #[test]
    fn what_no_packet_could_take_is_refused_with_its_reason() {
        let error = |paths, number| made(paths, number).unwrap_err();
        assert_eq!(error(paths(), Some(1)), "the edge of h1 refuses the program: it ends so");
        assert_eq!(error(paths(), Some(4)), "--path 4: 3 paths lead from h1 to h2");
        let with = |field: &str| {
            let mut paths = paths();
            paths[field] = json!(false);
            paths
        };
        assert!(error(with("permitted"), None).starts_with("h1 may not send path programs"));
        assert!(error(with("forwarded"), Some(2)).contains("contract 1.10"));
        let mut marked = paths();
        marked["items"][2]["sound"] = json!(false);
        assert!(error(marked, None).starts_with("none of 3 paths is without a mark"));
    }
}
