// SPDX-License-Identifier: Apache-2.0
//! The keys of the SRH HMAC TLV: every step is durable, waits for every node, and is resumed by a controller that restarts.

use canopy_model::srh_hmac::{FlagBit, HmacPhase, MINOR_VERSION, SrhHmac};

use super::*;

const ON: HmacSettings = HmacSettings { enabled: true, flag_bit: FlagBit::Linux };

/// A controller that restarts with these settings.
fn restarted(world: &World, hmac: HmacSettings) -> World {
    let (plan, thresholds, term) = (AddressPlan::default(), ThresholdSettings::default(), world.domain.term() + 1);
    let domain = Domain::restore(plan, thresholds, hmac, secret(), term, world.records.clone()).unwrap();
    World { domain, records: world.records.clone() }
}

fn on(hmac: HmacSettings) -> World {
    let mut world = World::with(crate::testing::fabric(3, 2, 2));
    world = restarted(&world, hmac);
    while world.domain.hmac().phase != HmacPhase::On {
        world.confirm();
        advance(&mut world);
    }
    world
}

fn advance(world: &mut World) {
    world.run(Command::AdvanceHmac).unwrap();
}

/// The keys that every node has.
fn keys(world: &World) -> Option<SrhHmac> {
    let nodes = world.domain.all_nodes();
    let of = |name: &str| world.domain.node_spec(name).unwrap().base.hmac.clone();
    let first = of(&nodes[0].name);
    assert!(nodes.iter().all(|n| of(&n.name) == first), "all nodes have the same keys");
    first
}

/// Confirms for every node but this one.
fn confirm_without(world: &mut World, late: &str) {
    for node in world.domain.all_nodes().into_iter().filter(|n| n.name != late) {
        let report = reported(&node.name, node.spec.generation, vec![]);
        world.domain.report(NodeStatus { observed_term: world.domain.term(), ..report }).unwrap();
    }
}

#[test]
fn the_keys_come_into_use_step_by_step_and_each_waits_for_every_node() {
    let mut world = World::with(crate::testing::fabric(3, 2, 2));
    assert_eq!((keys(&world), world.domain.hmac_is_due()), (None, false));
    world = restarted(&world, ON);
    // The first key needs no confirmation: nothing is required yet.
    assert!(world.domain.hmac_is_due());
    advance(&mut world);
    let starting = keys(&world).unwrap();
    assert_eq!((world.domain.hmac().phase, starting.required), (HmacPhase::Starting, false));
    let late = world.domain.all_nodes()[0].name.clone();
    confirm_without(&mut world, &late);
    assert!(!world.domain.hmac_is_due());
    advance(&mut world);
    assert_eq!(world.domain.hmac().phase, HmacPhase::Starting, "a step that is not due changes nothing");
    let view = world.domain.hmac();
    assert_eq!((view.unconfirmed, view.waiting[0].node.as_str()), (1, late.as_str()));
    world.confirm();
    assert!(world.domain.hmac_is_due());
    advance(&mut world);
    let on = keys(&world).unwrap();
    assert_eq!((world.domain.hmac().phase, on.required, on.keys()), (HmacPhase::On, true, starting.keys()));
    world.confirm();
    assert!(!world.domain.hmac_is_due());
}

#[test]
fn a_rotation_is_resumed_in_every_phase_by_a_controller_that_restarts() {
    let mut world = on(ON);
    let former = keys(&world).unwrap().sending().clone();
    world.confirm();
    world.run(Command::RotateHmac).unwrap();
    assert!(world.problem(Command::RotateHmac).starts_with("InUse: "), "one at a time");
    let mut next = None;
    for (phase, ids) in [(HmacPhase::Accepting, 2), (HmacPhase::Sending, 2), (HmacPhase::On, 1)] {
        for _ in 0..2 {
            let now = keys(&world).unwrap();
            assert_eq!((world.domain.hmac().phase, now.keys().len(), now.required), (phase, ids, true));
            next.get_or_insert_with(|| now.keys()[1].clone());
            let sends = if phase == HmacPhase::Accepting { &former } else { next.as_ref().unwrap() };
            assert_eq!(now.sending(), sends);
            // A new controller knows no confirmation of the one before.
            world = restarted(&world, ON);
            assert_eq!(keys(&world), Some(now));
            assert!(!world.domain.hmac_is_due());
        }
        world.confirm();
        advance(&mut world);
    }
    assert_eq!(keys(&world).unwrap().keys(), [next.unwrap()]);
}

#[test]
fn a_node_with_a_group_in_error_holds_the_rotation_and_is_named() {
    let mut world = on(ON);
    world.confirm();
    world.run(Command::RotateHmac).unwrap();
    world.confirm();
    let node = world.domain.all_nodes()[1].clone();
    let error =
        ItemError { kind: ItemKind::Group, name: "g".into(), group: None, detail: "group g is not applied".into() };
    let report = reported(&node.name, node.spec.generation, vec![error]);
    world.domain.report(NodeStatus { observed_term: world.domain.term(), ..report }).unwrap();
    assert!(!world.domain.hmac_is_due());
    assert_eq!(world.domain.hmac().waiting[0].reason, "group g is not applied");
    world.confirm();
    assert!(world.domain.hmac_is_due());
}

#[test]
fn what_operators_want_now_is_what_the_domain_goes_to() {
    // Another flag bit is another key.
    let mut world = restarted(&on(ON), HmacSettings { flag_bit: FlagBit::Rfc8754, ..ON });
    for _ in 0..4 {
        advance(&mut world);
        world.confirm();
    }
    let rfc = keys(&world).unwrap();
    assert_eq!((rfc.keys().len(), rfc.sending().flag_bit), (1, FlagBit::Rfc8754));
    // Off: nothing is required before headends cease to sign.
    world = restarted(&world, HmacSettings::default());
    advance(&mut world);
    let stopping = keys(&world).unwrap();
    assert_eq!(
        (world.domain.hmac().phase, stopping.required, stopping.keys()),
        (HmacPhase::Stopping, false, rfc.keys())
    );
    assert!(!world.domain.hmac_is_due());
    world.confirm();
    advance(&mut world);
    assert_eq!((world.domain.hmac().phase, keys(&world)), (HmacPhase::Off, None));
    assert!(!world.records.contains_key("domain/hmac"));
    assert!(world.problem(Command::RotateHmac).starts_with("Invalid: hmac.enabled"));
    assert_eq!(keys(&restarted(&world, HmacSettings::default())), None);
}

#[test]
fn a_node_that_comes_later_has_the_keys_and_its_programs_name_the_segments_that_its_headend_sends() {
    let mut world = on(ON);
    for command in [group("g"), source("g", "h1-1"), receiver("g", "h2-1"), receiver("g", "h3-2")] {
        world.run(command).unwrap();
    }
    let nodes = world.domain.all_nodes();
    let specs: Vec<_> = nodes.iter().map(|n| world.domain.node_spec(&n.name).unwrap()).collect();
    let programs: Vec<_> = specs.iter().flat_map(|s| s.groups.values().map(move |g| (s, g))).collect();
    let headend = programs.iter().find_map(|(_, g)| g.headend.as_ref()).unwrap();
    assert!(programs.len() >= 4);
    for (spec, program) in &programs {
        let mut other = (**program).clone();
        other.headend = None;
        assert_eq!(other.segments(&spec.base.addressing).as_ref(), Some(&headend.segments), "{}", spec.base.name);
    }
    // Where the headend is not known, what it signs is not either.
    let mut unknown = programs[0].1.clone();
    (unknown.headend, unknown.headend_address) = (None, None);
    assert_eq!(unknown.segments(&specs[0].base.addressing), None);
}

#[test]
fn no_form_of_a_record_or_a_view_shows_a_secret_but_the_stored_one() {
    let world = on(ON);
    let secret: String = keys(&world).unwrap().sending().secret.reveal().iter().map(|o| format!("{o:02x}")).collect();
    let record = &world.records["domain/hmac"];
    let shown =
        format!("{record:?} {:?} {:?}", world.domain.hmac(), world.domain.node_spec(&world.domain.all_nodes()[0].name));
    assert!(shown.contains("HmacSecret(..)") && !shown.contains(&secret));
}

#[test]
fn a_phase_checks_each_node_about_once_however_many_reports_there_are() {
    let mut world = World::with(crate::testing::fabric(3, 2, 2));
    world = restarted(&world, ON);
    advance(&mut world);
    let names: Vec<String> = world.domain.all_nodes().iter().map(|n| n.name.clone()).collect();
    let checked = || super::super::hmac::CHECKED.with(std::cell::Cell::take);
    checked();
    let (late, others) = names.split_last().unwrap();
    for name in (0..100).flat_map(|_| others) {
        let generation = world.domain.node_spec(name).unwrap().generation;
        let report = reported(name, generation, vec![]);
        world.domain.report(NodeStatus { observed_term: world.domain.term(), ..report }).unwrap();
        assert!(!world.domain.hmac_is_due(), "{late} has not confirmed");
    }
    // Once after each report and once for each question, and once more for each node that has confirmed.
    let (count, most) = (checked(), 2 * 100 * others.len() + names.len());
    assert!(count <= most, "{count} > {most}");
    world.confirm();
    assert!(world.domain.hmac_is_due());
}

#[test]
fn an_agent_that_does_not_know_the_tlv_holds_the_first_phase_and_is_named() {
    let mut world = World::with(crate::testing::fabric(3, 2, 2));
    world = restarted(&world, ON);
    advance(&mut world);
    world.confirm();
    let node = world.domain.all_nodes()[0].name.clone();
    let report = |world: &World, minor_version| {
        let generation = world.domain.node_spec(&node).unwrap().generation;
        NodeStatus { observed_term: world.domain.term(), minor_version, ..reported(&node, generation, vec![]) }
    };
    let earlier = report(&world, MINOR_VERSION - 1);
    world.domain.report(earlier).unwrap();
    advance(&mut world);
    let view = world.domain.hmac();
    assert_eq!((view.phase, view.unconfirmed, &view.waiting[0].node), (HmacPhase::Starting, 1, &node));
    assert!(view.waiting[0].reason.ends_with("upgrade it"), "{:?}", view.waiting);
    let upgraded = report(&world, MINOR_VERSION);
    world.domain.report(upgraded).unwrap();
    advance(&mut world);
    assert_eq!(world.domain.hmac().phase, HmacPhase::On);
}
