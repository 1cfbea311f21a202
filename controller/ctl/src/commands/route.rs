// SPDX-License-Identifier: Apache-2.0
//! `route FROM TO`: the routes with which the kernel of a host sends along a path (H.Encaps.Red, RFC 8986 section 5.2).

use std::io::Write;
use std::iter;
use std::net::Ipv6Addr;

use canopy_controller_api::HostResource;
use canopy_controller_api::path::{PathItem, Paths};
use canopy_model::addressing::AddressPlan;

use super::{paths, segment};
use crate::cli::RouteArgs;
use crate::client::Client;
use crate::failure::{Exit, Failure};

/// Octets that Linux takes off a route's MTU for H.Encaps, with an SRH or without: IPv6 header and SRH, and for each segment.
const HEADROOM: u32 = 48;
const HEADROOM_OF_SEGMENT: u32 = 16;

/// See the module.
///
/// # Errors
/// The controller cannot be reached, a host is not there or may not send programs, or no path is as wanted.
pub async fn run(client: &Client, args: &RouteArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let RouteArgs { from, to, path } = args;
    let listing = format!("paths from {from} to {to}");
    let paths: Paths = client.get(&listing, &paths::target(Some(from), Some(to))?).await?;
    let host = async |name: &str| -> Result<HostResource, Failure> {
        client.get(&format!("host {name}"), &format!("/api/v1/hosts/{}", segment("host", name)?)).await
    };
    let (source, destination) = (host(from).await?, host(to).await?);
    out.write_all(routes(&paths, *path, &source, &destination)?.as_bytes())?;
    Ok(())
}

/// The commands that make the routes: one to the destination's prefix, which encapsulates, and one to the block, or to the node of one of several
/// links, by which the kernel sends what is encapsulated.
fn routes(
    paths: &Paths,
    number: Option<u16>,
    source: &HostResource,
    destination: &HostResource,
) -> Result<String, Failure> {
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
    let port = port_of(path, source)?;
    let addresses: Vec<Ipv6Addr> = iter::once(path.destination).chain(path.segments.iter().rev().copied()).collect();
    let [high, low, edge, ..] = path.destination.segments();
    // Of several links, each leads to the programs that begin at its own node.
    let (edge, length) = if source.spec.links.len() > 1 { (edge, 48) } else { (0, 32) };
    let outer = Ipv6Addr::new(high, low, edge, 0, 0, 0, 0, 0);
    let segments = addresses.iter().map(Ipv6Addr::to_string).collect::<Vec<_>>().join(",");
    let mtu = path.mtu + HEADROOM + HEADROOM_OF_SEGMENT * addresses.len() as u32;
    let (to, via) = (destination.spec.prefix, format!("via {} dev {port}", AddressPlan::default().host_gateway()));
    Ok(format!(
        "ip -6 route replace {outer}/{length} {via}\nip -6 route replace {to} encap seg6 mode encap.red segs {segments} {via} mtu {mtu}\n"
    ))
}

/// The port by which the path leaves its host.
///
/// # Errors
/// The link is another one, or the port's name is one that a shell would read as something else.
fn port_of<'a>(path: &'a PathItem, source: &HostResource) -> Result<&'a str, Failure> {
    let (host, spec) = (&source.metadata.name, &source.spec);
    let link = path.links.first().map_or("", |link| link.link.as_str());
    let behind = |(node, port): (&String, &String)| {
        let near = format!("{node}/{port}");
        let far = link.strip_prefix(&*format!("{near}--")).or_else(|| link.strip_suffix(&*format!("--{near}")));
        far.and_then(|far| far.strip_prefix(&*format!("{host}/")))
    };
    let all = iter::once((&spec.node, &spec.port)).chain(spec.links.iter().map(|link| (&link.node, &link.port)));
    let port = all.into_iter().find_map(behind);
    let port = port.ok_or_else(|| Failure::new(Exit::Error, format!("{host} has moved meanwhile: try again")))?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._@:-".contains(c);
    if port.is_empty() || port.starts_with('-') || !port.chars().all(is_plain) {
        let why = format!("the port of {host} is {:?} in the topology: that is no name to put into a command", port);
        return Err(Failure::new(Exit::Error, why));
    }
    Ok(port)
}

#[cfg(test)]
mod tests {
    use canopy_controller_api::host::HostLink;
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

    fn host(name: &str, node: &str, port: &str, prefix: &str) -> HostResource {
        let host = json!({"apiVersion": "canopy/v1", "kind": "Host", "metadata": {"name": name, "tenant": "default", "labels": {}, "generation": 1},
            "spec": {"node": node, "port": port, "prefix": prefix, "address": "2001:db8::1", "mtu": 9000},
            "status": {"port": "Up", "reason": "", "sources": 0, "receivers": 0, "groups": []}});
        serde_json::from_value(host).unwrap()
    }

    fn made(paths: Value, number: Option<u16>) -> Result<String, String> {
        let paths: Paths = serde_json::from_value(paths).unwrap();
        let source = host(&paths.from, "leaf1", "h1", "2001:db8:0:1::/64");
        routes(&paths, number, &source, &host("h2", "leaf2", "h2", "2001:db8:0:2::/64")).map_err(|e| e.message)
    }

    /// Catches segments in the order of the wire, the port of the far end, and a path with a mark that is taken unasked.
    #[test]
    fn the_first_path_without_a_mark_is_taken_and_its_segments_are_in_the_order_of_the_way() {
        let wanted = |segments, mtu| {
            format!(
                "ip -6 route replace 5f00::/32 via fe80::1 dev eth7\nip -6 route replace 2001:db8:0:2::/64 encap seg6 mode encap.red segs {segments} via fe80::1 dev eth7 mtu {mtu}\n"
            )
        };
        assert_eq!(made(paths(), None), Ok(wanted("5f00:0:1:6:2:6:2:6,5f00:0:7:8:9::,5f00:0:2::", 4_296)));
        assert_eq!(made(paths(), Some(2)), Ok(wanted("5f00:0:1:5:2::", 4_264)));
    }

    /// Catches a route by which programs of one link leave by the other.
    #[test]
    fn of_several_links_each_has_the_programs_that_begin_at_its_node() {
        let mut of = paths();
        of["items"][2]["links"][0]["link"] = json!("h1/eth9--leaf7/h1");
        let paths: Paths = serde_json::from_value(of).unwrap();
        let mut source = host(&paths.from, "leaf1", "h1", "2001:db8:0:1::/64");
        let link = |node: &str| HostLink { node: node.to_owned(), port: "h1".to_owned(), mtu: 9000 };
        source.spec.links = vec![link("leaf1"), link("leaf7")];
        let made = routes(&paths, None, &source, &host("h2", "leaf2", "h2", "2001:db8:0:2::/64")).unwrap();
        let (outer, inner) = made.split_once('\n').unwrap();
        assert_eq!(outer, "ip -6 route replace 5f00:0:1::/48 via fe80::1 dev eth9");
        assert!(inner.contains("dev eth9 mtu"), "{inner}");
    }

    /// Catches a name that the shell which the commands are given to would carry out, and the port of another device.
    #[test]
    fn a_port_is_that_of_the_host_and_a_plain_name() {
        let with = |from: &str, link: &str| {
            let mut paths = paths();
            (paths["from"], paths["items"][2]["links"][0]["link"]) = (json!(from), json!(link));
            made(paths, None)
        };
        for link in ["h--1/eth7--leaf1/h1", "leaf1/h1--h--1/eth7"] {
            assert!(with("h--1", link).unwrap().contains("dev eth7\n"), "{link}");
        }
        assert!(with("h1", "leaf1/h1--h1/eth--0").unwrap().contains("dev eth--0\n"));
        for port in ["eth0;reboot", "$(reboot)", "a b", "-6", "", "e\u{7}"] {
            let error = with("h1", &format!("leaf1/h1--h1/{port}")).unwrap_err();
            assert!(error.contains("no name to put into a command"), "{error}");
        }
        assert!(with("h1", "leaf9/h1--h1/eth7").unwrap_err().contains("has moved"));
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
