// SPDX-License-Identifier: Apache-2.0
//! What proves a fault: it is made under load, named by its cause, explained, raises its alert alone, and closes when it is mended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use canopy_e2e::prometheus::Prometheus;
use canopy_e2e::{Bed, up_changed};
use canopy_lab::{LabFile, Transfer, TransferSpec};
use serde_json::{Value, json};

/// Octets that no transfer of this test ends with.
const ENDLESS: u64 = 1 << 40;
/// Samples of an agent until a counter that rises has risen between two of them, each a second after the one before.
const SAMPLED: Duration = Duration::from_secs(2);

/// A lab whose controller is scraped, with group `g` under load.
pub(super) struct Watched {
    pub(super) bed: Bed,
    pub(super) prometheus: Prometheus,
    pub(super) load: Transfer,
    rows: Vec<String>,
    /// Codes of the causes so far.
    codes: BTreeSet<String>,
}

/// A fault of the catalogue.
pub(super) struct Fault {
    pub(super) name: &'static str,
    pub(super) make: fn(&mut Watched) -> Made,
}

/// A fault that was made.
pub(super) struct Made {
    /// Causes that open, `Code kind/name`, and no others.
    pub(super) causes: Vec<String>,
    /// What `canopyctl why` is asked, and a part of its answer.
    pub(super) why: (Vec<String>, String),
    /// What `canopyctl status` shows before there is a problem; empty: nothing.
    pub(super) at_once: String,
    pub(super) mend: Box<dyn FnOnce(&mut Watched)>,
}

impl Made {
    /// With one cause.
    pub(super) fn new(cause: impl Into<String>, of: &str, shown: impl Into<String>) -> Self {
        let of = of.split(' ').map(str::to_owned).collect();
        Self { causes: vec![cause.into()], why: (of, shown.into()), at_once: String::new(), mend: Box::new(|_| ()) }
    }

    /// `canopyctl status` names it by this text as long as no cause is open.
    pub(super) fn named_at_once(self, text: impl Into<String>) -> Self {
        Self { at_once: text.into(), ..self }
    }

    pub(super) fn mended_by(self, mend: impl FnOnce(&mut Watched) + 'static) -> Self {
        Self { mend: Box::new(mend), ..self }
    }
}

/// Figure 1 with group `g` of these receivers under load.
pub(super) fn watched(receivers: &[&str], change: impl FnOnce(&mut LabFile)) -> Watched {
    let mut bed = up_changed("figure1", |file| {
        change(file);
        Ok(())
    })
    .unwrap();
    let prometheus = Prometheus::start(&mut bed.lab).unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 4096, "stallAfterMs": 500})).unwrap();
    bed.limit("s1", 50).unwrap();
    let load = endless(&bed, "g", "s1", receivers);
    let flows = |_: &_| Ok(bed.group("g")?["delivery"]["state"] == "Flowing");
    bed.lab.wait("data to be acknowledged", flows).unwrap();
    Watched { bed, prometheus, load, rows: Vec::new(), codes: BTreeSet::new() }
}

/// A transfer that lasts until it is dropped, and whose source neither gives up nor slows down.
pub(super) fn endless(bed: &Bed, group: &str, source: &str, receivers: &[&str]) -> Transfer {
    let mut spec = TransferSpec {
        timeout: Duration::from_secs(3600),
        leave: false,
        ..TransferSpec::new(group, source, receivers, ENDLESS)
    };
    let args = ["--timeout", "200ms", "--retries", "0", "--ignore-cnps"];
    spec.args.insert(source.into(), args.map(Into::into).into());
    bed.lab.start_transfer(spec).unwrap()
}

impl Watched {
    /// Makes the fault, proves it, mends it, and proves its end.
    pub(super) fn prove(&mut self, fault: &Fault) {
        let (made, [named, explained, fired]) = self.open(fault);
        let mended = Instant::now();
        (made.mend)(self);
        self.closed(fault.name);
        self.row(fault.name, [named, explained, fired, Some(mended.elapsed())]);
    }

    /// The same for a fault that the lab cannot mend.
    pub(super) fn prove_open(&mut self, fault: &Fault) {
        let (_, [named, explained, fired]) = self.open(fault);
        self.row(fault.name, [named, explained, fired, None]);
    }

    fn open(&mut self, fault: &Fault) -> (Made, [Option<Duration>; 3]) {
        let (name, since) = (fault.name, Instant::now());
        let made = (fault.make)(self);
        let wanted: BTreeSet<String> = made.causes.iter().cloned().collect();
        let at_once = self.named_at_once(name, &made.at_once).then(|| since.elapsed());
        let among_others = self.wait_causes(name, &wanted);
        let named = at_once.unwrap_or_else(|| among_others.duration_since(since));
        self.codes.extend(wanted.iter().map(|cause| code(cause).to_owned()));
        let screen = self.canopyctl(&["status"]);
        println!("{name}: named after {:.1} s\n{screen}", named.as_secs_f64());
        assert!(wanted.iter().all(|cause| screen.contains(code(cause))), "{screen}");
        self.explained(name, &made.why);
        let explained = since.elapsed();
        let alerts: BTreeSet<String> =
            wanted.iter().filter(|cause| !is_info(&self.bed, cause)).map(|cause| alert(cause)).collect();
        self.wait_alerts(name, &alerts);
        let fired = (!alerts.is_empty()).then(|| since.elapsed());
        (made, [Some(named), Some(explained), fired])
    }

    /// Every cause so far opens early enough to be named within `limit`. By the registry: how long this machine takes is in the table.
    pub(super) fn opened_within(&self, limit: Duration) {
        let (_, codes) = self.bed.lab.rest("GET", "/api/v1/problem-codes", None).unwrap();
        let of = |item: &Value| (item["code"].as_str().unwrap().to_owned(), item["opensAfterMs"].as_u64().unwrap());
        let delays: BTreeMap<String, u64> = codes["items"].as_array().unwrap().iter().map(of).collect();
        for code in &self.codes {
            let delay = Duration::from_millis(delays[code]);
            assert!(
                delay + SAMPLED <= limit,
                "{code} opens {delay:?} after its symptom, and is to be named within {limit:?}"
            );
        }
    }

    /// Makes a fault that the domain mends by itself, and waits until it has, with an event about it if `shown` is not empty.
    pub(super) fn proves_mended(&mut self, name: &str, shown: &str, make: impl FnOnce(&mut Self)) {
        let since = Instant::now();
        let newest = self.events("").iter().filter_map(|e| e["sequence"].as_u64()).max();
        make(self);
        let is_reported = |watched: &Self| {
            let events = watched.events(shown);
            shown.is_empty() || events.iter().any(|e| e["sequence"].as_u64() > newest)
        };
        self.bed.lab.wait(&format!("{name}: an event with {shown}"), |_| Ok(is_reported(self))).unwrap();
        let reported = since.elapsed();
        self.closed(name);
        self.bed.wait_phase("g", "Ready").unwrap();
        self.row(name, [Some(reported), None, None, Some(since.elapsed())]);
    }

    /// Seconds until a fault was named (or its event arrived), explained, until its alert fired, and from its mending until all was closed.
    fn row(&mut self, name: &str, times: [Option<Duration>; 4]) {
        let text = |time: Duration| format!("{:.1}", time.as_secs_f64());
        let times = times.map(|time| format!("{:>9}", time.map_or("-".to_owned(), text))).join(" ");
        self.rows.push(format!("{name:<36}{times}"));
    }

    /// Prints the table of what was proven.
    pub(super) fn print(&self, class: &str) {
        println!("{class:<36}{:>9} {:>9} {:>9} {:>9}", "named", "explained", "alert", "closed");
        self.rows.iter().for_each(|row| println!("{row}"));
    }

    /// No problem is open, and no alert fires.
    pub(super) fn closed(&self, fault: &str) {
        let mut seen = Default::default();
        let waited = self.bed.lab.wait(&format!("the end of {fault}"), |_| {
            seen = (causes(&self.bed), self.prometheus.firing()?, self.bed.canopyctl(&["status"])?);
            Ok(seen.0.is_empty() && seen.1.is_empty() && seen.2.contains("No problem is open"))
        });
        waited.unwrap_or_else(|e| panic!("{e:#}: {seen:?}"));
    }

    /// Waits until Prometheus has scraped the controller six more times: what opens now has raised its alert by then.
    pub(super) fn settle(&self) {
        let scrapes = || {
            let found = self.prometheus.query("count_over_time(up{job=\"canopy-controller\"}[2h])").unwrap();
            found[0]["value"][1].as_str().unwrap().parse::<u64>().unwrap()
        };
        let before = scrapes();
        self.bed.lab.wait("six more scrapes", |_| Ok(scrapes() > before + 6)).unwrap();
    }

    /// Waits until `canopyctl status` shows this text, which it does before a cause is open; false if there is none.
    fn named_at_once(&self, fault: &str, text: &str) -> bool {
        if text.is_empty() {
            return false;
        }
        let mut seen = String::new();
        let waited = self.bed.lab.wait(&format!("{fault}: {text}"), |_| {
            seen = self.bed.canopyctl(&["status"])?;
            Ok(seen.contains(text))
        });
        waited.unwrap_or_else(|e| panic!("{e:#}: {seen}"));
        println!("{fault}: shown at once\n{seen}");
        assert!(seen.contains("No problem is open"), "{seen}");
        true
    }

    /// Waits until these are the causes, and no others. Returns when all of them were named first: others may go once they are explained.
    fn wait_causes(&self, what: &str, wanted: &BTreeSet<String>) -> Instant {
        let (mut seen, mut named) = (BTreeSet::new(), None);
        let waited = self.bed.lab.wait(&format!("{what}: {wanted:?}"), |_| {
            seen = causes(&self.bed);
            if named.is_none() && seen.is_superset(wanted) {
                named = Some(Instant::now());
            }
            Ok(seen == *wanted)
        });
        waited.unwrap_or_else(|e| panic!("{e:#}: {seen:?}"));
        named.unwrap_or_else(Instant::now)
    }

    fn wait_alerts(&self, what: &str, wanted: &BTreeSet<String>) {
        let mut seen = BTreeSet::new();
        let waited = self.bed.lab.wait(&format!("the alerts of {what}: {wanted:?}"), |_| {
            seen = self.prometheus.firing()?;
            Ok(seen == *wanted)
        });
        waited.unwrap_or_else(|e| panic!("{e:#}: {seen:?}"));
    }

    fn explained(&self, fault: &str, (of, wanted): &(Vec<String>, String)) {
        let args: Vec<&str> = std::iter::once("why").chain(of.iter().map(String::as_str)).collect();
        let mut seen = String::new();
        let waited = self.bed.lab.wait(&format!("{args:?}: {wanted}"), |_| {
            seen = self.bed.canopyctl(&args)?;
            Ok(seen.contains(wanted.as_str()))
        });
        waited.unwrap_or_else(|e| panic!("{fault}: {e:#}: {seen}"));
    }

    pub(super) fn canopyctl(&self, args: &[&str]) -> String {
        self.bed.canopyctl(args).unwrap()
    }

    /// Events whose code or detail contains this text.
    fn events(&self, text: &str) -> Vec<Value> {
        let (_, events) = self.bed.lab.rest("GET", "/api/v1/events?limit=1000", None).unwrap();
        let has = |e: &&Value| [&e["code"], &e["detail"]].iter().any(|v| v.as_str().is_some_and(|v| v.contains(text)));
        events["items"].as_array().unwrap().iter().filter(has).cloned().collect()
    }

    pub(super) fn phase(&self) -> String {
        self.bed.group("g").unwrap()["phase"].as_str().unwrap().to_owned()
    }
}

/// `Code kind/name` of the open causes.
pub(super) fn causes(bed: &Bed) -> BTreeSet<String> {
    let (status, body) = bed.lab.rest("GET", "/api/v1/status", None).unwrap();
    assert_eq!(status, 200, "{body}");
    let text = |p: &Value, pointer: &str| p.pointer(pointer).unwrap().as_str().unwrap().to_owned();
    let name = |p: &Value| format!("{} {}/{}", text(p, "/code"), text(p, "/object/kind"), text(p, "/object/name"));
    body["problems"].as_array().unwrap().iter().map(name).collect()
}

fn code(cause: &str) -> &str {
    cause.split(' ').next().unwrap()
}

fn alert(cause: &str) -> String {
    let (code, object) = cause.split_once(' ').unwrap();
    format!("Canopy{code} {}", object.split_once('/').unwrap().1)
}

/// Whether problems of this code raise no alert.
fn is_info(bed: &Bed, cause: &str) -> bool {
    bed.canopyctl(&["explain", code(cause)]).unwrap().to_lowercase().contains("info")
}

/// Puts the topology with `change` made to every link; returns the links as they were.
pub(super) fn put_links(bed: &Bed, change: impl Fn(&mut Value)) -> Value {
    let (_, mut topology) = bed.lab.rest("GET", "/api/v1/topology", None).unwrap();
    let before = topology["spec"]["links"].clone();
    topology["spec"]["links"].as_array_mut().unwrap().iter_mut().for_each(change);
    let spec = topology["spec"].clone();
    let body = json!({"apiVersion": "canopy/v1", "kind": "Topology", "metadata": {"name": "default"}, "spec": spec});
    let (status, answer) = bed.lab.rest("PUT", "/api/v1/topology", Some(&body)).unwrap();
    assert_eq!(status, 200, "{answer}");
    before
}

pub(super) fn in_device(bed: &Bed, device: &str, line: &str) {
    let mut words = line.split(' ');
    let out = bed.lab.command(device, words.next().unwrap()).unwrap().args(words).output().unwrap();
    assert!(out.status.success(), "{device}: {line}: {}", String::from_utf8_lossy(&out.stderr));
}

/// The node and port that a host is attached to.
pub(super) fn edge_of(bed: &Bed, host: &str) -> (String, String) {
    let (_, member) = bed.lab.rest("GET", &format!("/api/v1/groups/g/members/{host}"), None).unwrap();
    let text = |field: &str| member["status"][field].as_str().unwrap().to_owned();
    (text("node"), text("port"))
}

/// The link of the tree in force between `node` and its parent, as the topology names it, and its end at the parent.
pub(super) fn link_to(bed: &Bed, node: &str) -> (String, String) {
    let parent = bed.parent("g", node).unwrap();
    let tree = bed.group("g").unwrap()["tree"].clone();
    let at = tree.as_array().unwrap().iter().find(|n| n["node"] == parent.as_str()).unwrap().clone();
    let branch = at["branches"].as_array().unwrap().iter().find(|b| b["name"] == node).unwrap().clone();
    let end = format!("{parent}/{}", branch["port"].as_str().unwrap());
    let (_, link) = bed.lab.rest("GET", &format!("/api/v1/links/{end}"), None).unwrap();
    (link["spec"]["link"].as_str().unwrap().to_owned(), end)
}

/// Runs a Python program in a device's namespace until it is killed.
pub(super) fn python(bed: &Bed, device: &str, script: &str) -> std::process::Child {
    bed.lab.command(device, "python3").unwrap().args(["-c", script]).spawn().unwrap()
}

pub(super) fn end(mut child: std::process::Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}
