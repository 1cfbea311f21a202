#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Grafana dashboards of deploy/grafana, from the code below, with Grafana's Foundation SDK.

Usage: scripts/dashboards.py           writes them
       scripts/dashboards.py --check   fails if a committed file differs, or if a dashboard is not as the lint below requires

Labels `node` of the agents' series come from service discovery (docs/metrics.md). A query whose series exist only once something has
happened ends in `or on () vector(0)`: a panel without data then means that nothing is scraped. The end-to-end test `dashboards` executes every
query.
"""

import json
import re
import sys
from pathlib import Path

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models

ROOT = Path(__file__).resolve().parent.parent
DIRECTORY = ROOT / "deploy/grafana"
REFERENCE = ROOT / "docs/metrics.md"
SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
RATE = "[$__rate_interval]"
# Series that Prometheus itself adds to each target.
SCRAPE = {"up", "scrape_duration_seconds", "scrape_samples_scraped"}


def target(expression, legend, instant=False, table_format=False):
    """One query."""
    query = prometheus.Dataquery().expr(expression).legend_format(legend).datasource(SOURCE)
    if table_format:
        query = query.format("table")
    return query.instant() if instant else query.range()


def with_queries(panel, queries, instant=False, table_format=False):
    """The panel with these queries, pairs of expression and legend, named A, B, C."""
    for number, (expression, legend) in enumerate(queries):
        panel = panel.with_target(target(expression, legend, instant, table_format).ref_id(chr(ord("A") + number)))
    return panel


def graph(title, description, unit, *queries, span=12):
    """Lines over time."""
    legend = common.VizLegendOptions().display_mode(common_models.LegendDisplayMode.LIST).show_legend(True)
    panel = timeseries.Panel().title(title).description(description).unit(unit).datasource(SOURCE).height(8).span(span)
    tooltip = common.VizTooltipOptions().mode(common_models.TooltipDisplayMode.MULTI)
    panel = panel.legend(legend.placement(common_models.LegendPlacement.BOTTOM)).tooltip(tooltip)
    return with_queries(panel.line_width(1).fill_opacity(8).span_nulls(False), queries)


def number(title, description, unit, expression, bad_above=None, span=4, legend="__auto"):
    """The present value; red above `bad_above`."""
    steps = [models.Threshold(value=None, color="green")]
    if bad_above is not None:
        steps.append(models.Threshold(value=bad_above + 0.5, color="red"))
    thresholds = dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)
    panel = stat.Panel().title(title).description(description).unit(unit).datasource(SOURCE).height(4).span(span)
    return with_queries(panel.thresholds(thresholds), [(expression, legend)], instant=True)


def rows(title, description, expression, span=24):
    """Series as rows of a table, with their labels as columns."""
    panel = table.Panel().title(title).description(description).unit("short").datasource(SOURCE).height(8).span(span)
    hidden = {"excludeByName": {"Time": True, "__name__": True, "instance": True, "job": True}}
    panel = panel.with_transformation(models.DataTransformerConfig(id_val="organize", options=hidden))
    return with_queries(panel, [(expression, "__auto")], instant=True, table_format=True)


def variable(name, query, label):
    """Values of a label, all of them unless one is chosen."""
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query({"query": query, "refId": name})
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .include_all(True)
        .multi(True)
        .all_value(".+")
        .current(models.VariableOption(selected=True, text="All", value="$__all"))
    )


def board(uid, title, description, variables, panels):
    """A dashboard, with links to the others."""
    links = dashboard.DashboardLink("Canopy").type(models.DashboardLinkType.DASHBOARDS).tags(["canopy"])
    made = (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags(["canopy"])
        .refresh("30s")
        .time("now-1h", "now")
        .timezone("browser")
        .readonly()
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .link(links.as_dropdown(True).include_vars(True).keep_time(True))
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )
    for each in variables:
        made = made.with_variable(each)
    for each in panels:
        made = made.with_panel(each)
    return made.build()


NODE = variable("node", "label_values(canopy_node_connected, node)", "Node")
GROUP = variable("group", "label_values(canopy_group_data_packets_total, group)", "Group")
PORT = variable("port", 'label_values(canopy_link_rate_bits_per_second{node=~"$node"}, port)', "Port")
OF_GROUP = '{group=~"$group"}'
OF_PORT = '{node=~"$node", port=~"$port"}'
OF_NODE = '{node=~"$node"}'
CONFIRMED = "sum by (le) (rate(canopy_intent_to_kernel_seconds_bucket[5m]))"


def fleet():
    """Is anything wrong, and how much is carried?"""
    return board("canopy-fleet", "Canopy / Fleet", "All nodes and groups: what is wrong, and what is carried.", [], [
        number("Nodes", "Nodes of the topology.", "short", "count(canopy_node_connected)"),
        number("Agents not connected", "Their nodes forward as last configured.", "short",
               "count(canopy_node_connected) - sum(canopy_node_connected)", 0),
        number("Nodes behind", "Nodes whose kernel does not have the newest desired state.", "short",
               "count(canopy_node_desired_generation != canopy_node_observed_generation) or vector(0)", 0),
        number("Problems", "Causes that are open, whatever their severity.", "short",
               "sum(canopy_problem_active) or vector(0)", 0),
        number("Groups", "Groups in any phase.", "short", "sum(canopy_groups)"),
        number("Groups not ready", "Groups in another phase than Ready and Pending.", "short",
               'sum(canopy_groups{phase!~"Ready|Pending"})', 0),
        rows("Causes", "Open problems that no other one explains, and how many they explain; docs/problems.md has what to do.",
             'canopy_problem_affected or on () label_replace(vector(0), "code", "none", "", "")'),
        graph("Groups by phase", "docs/operations.md explains the phases.", "short", ("sum by (phase) (canopy_groups)", "{{phase}}")),
        graph("Data", "Sent by sources once, and sent by ports of nodes, which is what replication makes of it.", "bps",
              ("sum(canopy:group_source_bits:rate1m)", "sources"),
              ("sum(rate(canopy_link_bytes_total[1m])) * 8", "ports with thresholds")),
        graph("From intent to kernel", "Time until every node that a change concerns has it in its kernel.", "s",
              (f"histogram_quantile(0.5, {CONFIRMED})", "median"), (f"histogram_quantile(0.99, {CONFIRMED})", "99 %")),
        graph("Drops", "Packets dropped, by reason; docs/datapath.md explains the reasons.", "pps",
              ("sum by (reason) (canopy:drops:rate5m) or on () vector(0)", "{{reason}}")),
        graph("Long-haul CNPs", "Sent by nodes, by action.", "pps",
              (f"sum by (action) (rate(canopy_link_long_haul_cnps_total{RATE}))", "{{action}}")),
        graph("Marks", "Data packets that nodes marked CE.", "pps",
              (f"sum(rate(canopy_link_packets_marked_total{RATE}))", "marked")),
    ])


def group():
    """Who is behind, and where?"""
    waits = f"canopy_group_high_psn{OF_GROUP} - canopy_group_min_next_psn{OF_GROUP}"
    lag = f"canopy_group_high_psn{OF_GROUP} - on (node, group) group_right () canopy_branch_next_psn{OF_GROUP}"

    def rate(family):
        return f"sum by (node, group) (rate({family}{OF_GROUP}{RATE}))"

    return board("canopy-group", "Canopy / Group", "A group at each node of its tree: data down, feedback up.", [GROUP], [
        graph("Data", "Bits of data packets from upstream.", "bps",
              (f"{rate('canopy_group_data_bytes_total')} * 8", "{{group}} at {{node}}")),
        graph("Not acknowledged", "Packets sent down that not every branch has acknowledged.", "short",
              (waits, "{{group}} at {{node}}")),
        graph("ACKs", "From branches, and sent upstream: the difference was merged.", "pps",
              (rate("canopy_group_acks_received_total"), "{{group}} at {{node}}, received"),
              (rate("canopy_group_acks_sent_total"), "{{group}} at {{node}}, sent")),
        graph("NAKs", "Lost packets, and receivers that are not ready.", "pps",
              (rate("canopy_group_naks_received_total"), "{{group}} at {{node}}, received"),
              (rate("canopy_group_naks_sent_total"), "{{group}} at {{node}}, sent")),
        graph("CNPs", "Receivers that see marks.", "pps",
              (rate("canopy_group_cnps_received_total"), "{{group}} at {{node}}, received"),
              (rate("canopy_group_cnps_sent_total"), "{{group}} at {{node}}, sent")),
        graph("Drops", "Packets of the group dropped, by reason.", "pps",
              (f"sum by (group, node, reason) (rate(canopy_drops_total{OF_GROUP}{RATE})) or on () vector(0)",
               "{{group}} at {{node}}: {{reason}}")),
        graph("Branches behind", "Packets that a branch has not acknowledged. Only of groups with the label canopy/metrics=branches.",
              "short", (lag, "{{group}}: {{branch}} at {{node}}")),
        graph("Time since feedback of branches", "Only of groups with the label canopy/metrics=branches.", "s",
              (f"canopy_branch_last_feedback_seconds{OF_GROUP}", "{{group}}: {{branch}} at {{node}}")),
        graph("Copies to branches", "Only of groups with the label canopy/metrics=branches.", "bps",
              (f"rate(canopy_branch_bytes_total{OF_GROUP}{RATE}) * 8", "{{group}}: {{branch}} at {{node}}")),
        graph("Epoch", "Grows with every change of tree or membership; nodes differ while a change is under way.", "short",
              (f"canopy_group_epoch{OF_GROUP}", "{{group}} at {{node}}")),
    ])


def link():
    """Which link is full, or loses packets?"""
    def rate(family):
        return f"rate({family}{OF_PORT}{RATE})"

    name = "{{node}}/{{port}}"
    return board("canopy-link", "Canopy / Link and congestion", "Ports: load, queue, marks, Long-haul CNPs, loss, round-trip time.",
                 [NODE, PORT], [
        graph("Load", "Share of the port's rate that data uses.", "percentunit", (f"canopy:link_load:ratio1m{OF_PORT}", name)),
        graph("Queue", "Largest depth in the last one to two seconds, and the thresholds.", "bytes",
              (f"canopy_link_queue_peak_bytes{OF_PORT}", name), (f"canopy_link_k_min_bytes{OF_PORT}", f"{name} K_min"),
              (f"canopy_link_k_max_bytes{OF_PORT}", f"{name} K_max")),
        graph("Congestion Level", "0 to 255; above 177 the queue exceeds K_max.", "short",
              (f"canopy_link_congestion_peak_level{OF_PORT}", name)),
        graph("Marks", "Data packets that the node marked CE, and packets above K_min that are not ECN capable.", "pps",
              (rate("canopy_link_packets_marked_total"), name), (rate("canopy_link_packets_not_ect_total"), f"{name} not ECN capable")),
        graph("Long-haul CNPs sent", "By action.", "pps", (rate("canopy_link_long_haul_cnps_total"), f"{name} {{{{action}}}}")),
        graph("Long-haul CNPs held back", "By reason; docs/long-haul.md explains the reasons.", "pps",
              (rate("canopy_link_long_haul_cnps_held_back_total"), f"{name} {{{{reason}}}}")),
        graph("Round-trip time", "As measured, and as the thresholds use it.", "s",
              (f"canopy_link_rtt_measured_seconds{OF_PORT}", f"{name} measured"), (f"canopy_link_rtt_seconds{OF_PORT}", f"{name} in use")),
        graph("Loss", "Share of Echo Requests without a reply, and of data packets that did not arrive in their turn.", "percentunit",
              (f"{rate('canopy_link_echo_requests_lost_total')} / ({rate('canopy_link_echo_requests_total')} > 0)", f"{name} requests"),
              (f"{rate('canopy_link_data_lost_total')} / ({rate('canopy_link_data_packets_total')} > 0)", f"{name} data")),
        graph("Drops of the queue", "Packets that the port's queue dropped.", "pps", (rate("canopy_link_queue_drops_total"), name)),
        graph("Found to lose packets", "Share that was lost when the controller found the link to be lossy.", "percentunit",
              (f"canopy_link_loss_ratio{OF_PORT}", name)),
    ])


def node():
    """Does it do what it was given?"""
    behind = f"canopy_node_desired_generation{OF_NODE} - canopy_node_observed_generation{OF_NODE}"
    return board("canopy-node", "Canopy / Node", "One agent and its kernel.", [NODE], [
        number("Agents scraped", "Agents whose metrics arrive.", "short", f'sum(up{{job="canopy-agent", node=~"$node"}})'),
        number("Sessions", "Agents that receive their configuration.", "short", f"sum(canopy_agent_session_up{OF_NODE})"),
        number("Items not as desired", "canopyctl describe node NAME lists them.", "short", f"sum(canopy_node_errors{OF_NODE})", 0),
        number("Groups", "Groups with counters.", "short", f"max(canopy_agent_groups{OF_NODE})"),
        number("In group _other", "Groups without series of their own.", "short", f"max(canopy_agent_groups_in_other{OF_NODE})"),
        number("Series left out", "Beyond what one scrape shows.", "short", f"max(canopy_agent_series_left_out{OF_NODE})", 0),
        graph("Behind", "Generations that the controller desires and the kernel does not have.", "short", (behind, "{{node}}")),
        graph("Drops", "Packets dropped, by reason.", "pps",
              (f"sum by (node, reason) (canopy:drops:rate5m{OF_NODE}) or on () vector(0)", "{{node}}: {{reason}}")),
        graph("Data sent", "Bits of data packets, by port.", "bps",
              (f"rate(canopy_link_bytes_total{OF_NODE}{RATE}) * 8", "{{node}}/{{port}}")),
        graph("Sample", "Time that one sample of the kernel takes, and its age at the scrape.", "s",
              (f"canopy_agent_sample_duration_seconds{OF_NODE}", "{{node}} duration"),
              (f"canopy_agent_sample_age_seconds{OF_NODE}", "{{node}} age")),
        graph("Lost telemetry", "Samples that could not be read, and samples and events that the controller did not take.", "short",
              (f"rate(canopy_agent_sample_failures_total{OF_NODE}{RATE})", "{{node}} not read"),
              (f"rate(canopy_agent_telemetry_dropped_total{OF_NODE}{RATE})", "{{node}} not taken")),
        graph("Ledger", "Size of its log.", "bytes", (f"canopy_ledger_size_bytes{OF_NODE}", "{{node}}")),
        rows("Versions", "Of agent and kernel.", f"canopy_agent_build_info{OF_NODE}"),
    ])


def controller():
    """Can what it shows be trusted?"""
    job = '{job="canopy-controller"}'
    return board("canopy-controller", "Canopy / Controller", "The controller, its store and its changes.", [], [
        number("Up", "Controllers that answer.", "short", f"sum(up{job})", span=3),
        number("Store read-only", "The disk is full, or the store has failed.", "short", "1 - min(canopy_store_writable)", 0, span=3),
        number("Lost commits", "1 until an operator has taken note.", "short", "max(canopy_store_lost_commits)", 0, span=3),
        number("Pending commits", "Taken back unless they are confirmed in time.", "short", "max(canopy_commit_pending)", span=3),
        number("Taken back in", "Time of the pending commit; 0 without one.", "s", "max(canopy_commit_rollback_seconds) or vector(0)", span=3),
        number("Term", "Rises with every start.", "short", "max(canopy_controller_term)", span=3),
        number("Problems left out", "Beyond what is shown.", "short", "max(canopy_controller_problems_left_out)", 0, span=3),
        number("Series left out", "Beyond what one scrape shows.", "short", "max(canopy_controller_series_left_out)", 0, span=3),
        graph("Changes", "Commands that changed the domain.", "ops", ("rate(canopy_controller_domain_revision[1m])", "{{instance}}")),
        graph("From intent to kernel", "Time until every node that a change concerns has it in its kernel.", "s",
              (f"histogram_quantile(0.5, {CONFIRMED})", "median"), (f"histogram_quantile(0.9, {CONFIRMED})", "90 %"),
              (f"histogram_quantile(0.99, {CONFIRMED})", "99 %")),
        graph("Changes under way", "Not confirmed by every node yet.", "short", ("canopy_intent_unconfirmed_changes", "{{instance}}")),
        graph("Changes not measured", "A node has left meanwhile, or too many waited.", "ops",
              (f"rate(canopy_intent_unmeasured_changes_total{RATE})", "{{instance}}")),
        graph("Scrape", "Time that a scrape takes.", "s",
              (f"scrape_duration_seconds{job}", "controller"), ('max(scrape_duration_seconds{job="canopy-agent"})', "slowest agent")),
        graph("Series", "Series of one scrape.", "short",
              (f"scrape_samples_scraped{job}", "controller"), ('max(scrape_samples_scraped{job="canopy-agent"})', "largest agent")),
        graph("Threshold changes", "Thresholds that were pushed to nodes.", "ops",
              (f"sum(rate(canopy_link_threshold_changes_total{RATE}))", "changes"),
              (f"sum(rate(canopy_link_rtts_refused_total{RATE}))", "refused round-trip times")),
        rows("Version", "Of the controller.", "canopy_controller_build_info", span=12),
    ])


def families(text):
    """Names that queries may have, of docs/metrics.md and of the recording rules."""
    names = set(re.findall(r"^\| `(canopy_\w+)` \|", text, re.M))
    histograms = set(re.findall(r"^\| `(canopy_\w+)_bucket` \|", text, re.M))
    rules = (ROOT / "deploy/prometheus/canopy.rules.yaml").read_text()
    recorded = set(re.findall(r"^  - record: (\S+)", rules, re.M))
    return names | recorded | {f"{name}_{part}" for name in histograms for part in ("sum", "count")}


def lint(made, known):
    """Faults of a dashboard, as sentences."""
    titles, area = set(), set()
    for panel in made["panels"]:
        title, position = panel["title"], panel["gridPos"]
        if title in titles:
            yield f"panel {title!r} exists twice"
        titles.add(title)
        if not panel.get("description", "").endswith("."):
            yield f"panel {title!r} has no description that is a sentence"
        if not panel["fieldConfig"]["defaults"].get("unit"):
            yield f"panel {title!r} has no unit"
        if panel["datasource"] != {"type": "prometheus", "uid": "${datasource}"}:
            yield f"panel {title!r} has a fixed data source"
        cells = {
            (x, y)
            for x in range(position["x"], position["x"] + position["w"])
            for y in range(position["y"], position["y"] + position["h"])
        }
        if cells & area or position["x"] + position["w"] > 24:
            yield f"panel {title!r} overlaps another one, or the edge"
        area |= cells
        if not panel.get("targets"):
            yield f"panel {title!r} has no query"
        for query in panel.get("targets", []):
            used = set(re.findall(r"\bcanopy[\w:]+|\b(?:up|scrape_\w+)\b", re.sub(r'"[^"]*"', "", query["expr"])))
            for name in sorted(used - known - SCRAPE):
                yield f"panel {title!r} queries {name}, which does not exist"
            if not used:
                yield f"panel {title!r} queries nothing"
            if not query.get("legendFormat"):
                yield f"panel {title!r} has a query without a legend"
    names = {v["name"] for v in made["templating"]["list"]}
    text = json.dumps(made["panels"])
    for name in names - set(re.findall(r"\$\{?(\w+)", text)):
        yield f"variable {name!r} is not used"


def encoded(made):
    """A dashboard as it is committed."""
    return json.dumps(made, cls=JSONEncoder, sort_keys=True, indent=2) + "\n"


def problems(name, text, known):
    """What is wrong with a dashboard's JSON."""
    parsed = json.loads(text)
    # What the schema does not know would be lost here.
    if encoded(models.Dashboard.from_json(parsed)) != text:
        yield f"{name}: is not what Grafana's schema reads of it"
    yield from (f"{name}: {fault}" for fault in lint(parsed, known))


def main():
    """Writes, or checks."""
    check, faults = sys.argv[1:] == ["--check"], []
    known = families(REFERENCE.read_text())
    DIRECTORY.mkdir(exist_ok=True)
    boards = {f"{made.__name__}.json": encoded(made()) for made in (fleet, group, link, node, controller)}
    for name, text in boards.items():
        path = DIRECTORY / name
        faults += problems(name, text, known)
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            faults.append(f"{name}: differs from scripts/dashboards.py; run it and commit the result")
    faults += [f"{path.name}: belongs to no dashboard" for path in DIRECTORY.glob("*.json") if path.name not in boards]
    for fault in faults:
        print(f"deploy/grafana: {fault}", file=sys.stderr)
    if not faults:
        print(f"deploy/grafana: {len(boards)} dashboards are {'current' if check else 'written'}")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
