// SPDX-License-Identifier: Apache-2.0
//! Field selectors: requirements on a small, stated set of fields per kind of resource.

use std::borrow::Cow;

use canopy_model::FieldError;
use canopy_model::status::GroupPhase;

use crate::problem::{ProblemCode, Severity};
use crate::scan::Scan;
use crate::states::{LinkState, NodeState, QueueState};
use crate::view::PortState;

/// A field by which resources of a kind are selected.
pub trait Field: Copy + PartialEq + 'static {
    /// All fields of the kind.
    const ALL: &'static [Self];

    /// As clients write it.
    fn name(self) -> &'static str;

    /// Every value that there is, as clients write it; empty if any word may be one.
    fn values(self) -> Vec<String>;
}

/// Declares the fields of a kind: name, and the values where they are a closed set.
macro_rules! fields {
    ($(#[$doc:meta])* $kind:ident { $($(#[$field_doc:meta])* $field:ident = $name:literal $(in $values:expr)?,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $kind {
            $($(#[$field_doc])* $field,)+
        }

        impl Field for $kind {
            const ALL: &'static [Self] = &[$(Self::$field,)+];

            fn name(self) -> &'static str {
                match self {
                    $(Self::$field => $name,)+
                }
            }

            fn values(self) -> Vec<String> {
                match self {
                    $(Self::$field => fields!(values $($values)?),)+
                }
            }
        }
    };
    (values) => { Vec::new() };
    (values $values:expr) => { $values };
}

fields! {
    /// Fields of groups.
    GroupField {
        /// Its name.
        Name = "name",
        /// Where it is in its life.
        Phase = "phase" in GroupPhase::ALL.map(|phase| phase.to_string()).to_vec(),
        /// The host that sends; empty if there is none.
        Source = "source",
        /// Its owner.
        Tenant = "tenant",
    }
}

fields! {
    /// Fields of nodes.
    NodeField {
        /// Whether its agent is connected.
        Connected = "connected" in truths(),
        /// Its name.
        Name = "name",
        /// In one word.
        State = "state" in names(NodeState::ALL.iter().map(|state| state.name())),
        /// Whether it runs its desired state.
        Synced = "synced" in truths(),
    }
}

fields! {
    /// Fields of hosts.
    HostField {
        /// Its name.
        Name = "name",
        /// The node that it is linked to.
        Node = "node",
        /// State of that node's port.
        Port = "port" in [PortState::Up, PortState::Down, PortState::Unknown].map(|state| format!("{state:?}")).to_vec(),
    }
}

fields! {
    /// Fields of link directions.
    LinkField {
        /// Whether it is out of service.
        Drained = "drained" in truths(),
        /// The link, `a--b`.
        Link = "link",
        /// The sending port, `node/port`.
        Name = "name",
        /// The sending node.
        Node = "node",
        /// The sending port's queue.
        Queue = "queue" in names(QueueState::ALL.iter().map(|state| state.name())),
        /// Whether it carries what it is asked to.
        State = "state" in names(LinkState::ALL.iter().map(|state| state.name())),
        /// Device and port at the far end.
        To = "to",
    }
}

fields! {
    /// Fields of drains.
    DrainField {
        /// The link, as the topology lists it; empty for a node.
        Link = "link",
        /// Its name.
        Name = "name",
        /// The node; empty for a link.
        Node = "node",
    }
}

fields! {
    /// Fields of problems.
    ProblemField {
        /// Its code.
        Code = "code" in ProblemCode::ALL.iter().map(ToString::to_string).collect(),
        /// Kind of the object that it is about.
        Kind = "kind" in ["controller", "node", "link", "port", "group", "member"].map(str::to_owned).to_vec(),
        /// Name of that object.
        Name = "name",
        /// Whether no other open problem explains it.
        Root = "root" in truths(),
        /// How bad it is.
        Severity = "severity" in [Severity::Critical, Severity::Warning, Severity::Info].map(|severity| severity.to_string()).to_vec(),
    }
}

fn names(all: impl Iterator<Item = &'static str>) -> Vec<String> {
    all.map(str::to_owned).collect()
}

fn truths() -> Vec<String> {
    [true, false].map(|truth| truth.to_string()).to_vec()
}

/// Requirements on fields, all of which must hold. The default selects everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSelector<F>(Vec<Requirement<F>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement<F> {
    field: F,
    is_equal: bool,
    value: String,
}

impl<F> Default for FieldSelector<F> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<F: Field> FieldSelector<F> {
    /// Parses `field=value` and `field!=value`, separated by commas; an empty text selects everything.
    ///
    /// # Errors
    /// Names `parameter`, the position, and what is possible there.
    pub fn parse(parameter: &str, text: &str) -> Result<Self, FieldError> {
        let names: Vec<&str> = F::ALL.iter().map(|field| field.name()).collect();
        let syntax =
            format!("use field=value or field!=value, separated by commas, with the fields {}", names.join(", "));
        let mut scan = Scan::new(parameter, text, &syntax);
        let mut all = Vec::new();
        loop {
            scan.spaces();
            if !scan.is_at_end_of_part() {
                all.push(Self::requirement(&mut scan, &syntax)?);
            }
            if !scan.part_ends()? {
                return Ok(Self(all));
            }
        }
    }

    fn requirement(scan: &mut Scan<'_>, syntax: &str) -> Result<Requirement<F>, FieldError> {
        let at = scan.position();
        let name = scan.word(|b| b.is_ascii_alphanumeric());
        if name.is_empty() {
            return Err(scan.unexpected());
        }
        let known = F::ALL.iter().copied().find(|field| field.name() == name);
        let field = known.ok_or_else(|| scan.error_at(at, &format!("{name:?} is not a field of this kind"), syntax))?;
        scan.spaces();
        let is_equal = !scan.eat("!=");
        if is_equal && !scan.eat("==") && !scan.eat("=") {
            return Err(scan.unexpected());
        }
        scan.spaces();
        let at = scan.position();
        let value = scan.word(is_value_byte);
        let values = field.values();
        if !values.is_empty() && !values.iter().any(|known| known == value) {
            let possible = format!("use one of {}", values.join(", "));
            return Err(scan.error_at(at, &format!("{value:?} is not a value of {name}"), &possible));
        }
        Ok(Requirement { field, is_equal, value: value.to_owned() })
    }

    /// True when every requirement holds for the values that `value` reads.
    pub fn matches<'a>(&self, value: impl Fn(F) -> Cow<'a, str>) -> bool {
        self.0.iter().all(|r| (value(r.field) == r.value) == r.is_equal)
    }

    /// True when every requirement on this field holds for `value`.
    pub fn allows(&self, field: F, value: &str) -> bool {
        self.0.iter().filter(|r| r.field == field).all(|r| (r.value == value) == r.is_equal)
    }

    /// The value that this field must have, if one is required.
    pub fn required(&self, field: F) -> Option<&str> {
        self.0.iter().find(|r| r.field == field && r.is_equal).map(|r| r.value.as_str())
    }

    /// True if there is a requirement on this field.
    pub fn requires(&self, field: F) -> bool {
        self.0.iter().any(|r| r.field == field)
    }

    /// True if every requirement is on this field.
    pub fn is_only(&self, field: F) -> bool {
        self.0.iter().all(|r| r.field == field)
    }

    /// True if it selects everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same with one more requirement.
    #[must_use]
    pub fn with(mut self, field: F, value: String) -> Self {
        self.0.push(Requirement { field, is_equal: true, value });
        self
    }
}

/// What a value consists of: whatever is neither a space nor a part of the syntax.
fn is_value_byte(b: u8) -> bool {
    b.is_ascii_graphic() && !matches!(b, b',' | b'=' | b'!')
}

/// A text of `true` or `false`, to be compared.
pub fn truth(of: bool) -> Cow<'static, str> {
    Cow::Borrowed(if of { "true" } else { "false" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Result<FieldSelector<HostField>, FieldError> {
        FieldSelector::parse("fieldSelector", text)
    }

    #[test]
    fn all_requirements_must_hold() {
        let matches = |text: &str| {
            host(text).unwrap().matches(|field| {
                Cow::Borrowed(match field {
                    HostField::Name => "h1",
                    HostField::Node => "n1",
                    HostField::Port => "Up",
                })
            })
        };
        for holds in ["", "name=h1", " name == h1 , node!=n2", "port=Up,,name=h1", "port!=Down,"] {
            assert!(matches(holds), "{holds:?}");
        }
        for fails in ["name=h2", "name=h1,node!=n1", "name=", "port!=Up"] {
            assert!(!matches(fails), "{fails:?}");
        }
        let selector = host("port!=Down,node=n1").unwrap().with(HostField::Port, "Up".into());
        assert!(selector.allows(HostField::Port, "Up") && !selector.allows(HostField::Port, "Unknown"));
        assert!(selector.allows(HostField::Name, "any") && selector.requires(HostField::Node));
        assert!(!selector.requires(HostField::Name) && !selector.is_empty());
    }

    #[test]
    fn a_bad_selector_is_refused_with_the_position_and_what_is_possible() {
        for (bad, position, possible) in [
            ("name", 5, "name, node, port"),
            ("name=a,phase=Ready", 8, "name, node, port"),
            ("port=up", 6, "Up, Down, Unknown"),
            ("port=", 6, "Up, Down, Unknown"),
            ("node=n1 n2", 9, "separated by commas"),
            ("=x", 1, "name, node, port"),
            ("name=a=b", 7, "field!=value"),
            ("name=é", 6, "field!=value"),
        ] {
            let e = host(bad).unwrap_err().to_string();
            assert!(e.starts_with("fieldSelector: ") && e.contains(&format!("character {position} ")), "{bad:?}: {e}");
            assert!(e.contains(possible), "{bad:?}: {e}");
        }
    }

    #[test]
    fn closed_sets_are_those_of_the_api() {
        assert_eq!(GroupField::Phase.values().len(), GroupPhase::ALL.len());
        assert!(GroupField::Phase.values().contains(&"Stalled".to_owned()) && GroupField::Name.values().is_empty());
        assert_eq!(NodeField::Synced.values(), ["true", "false"]);
        assert_eq!(ProblemField::Severity.values(), ["critical", "warning", "info"]);
    }
}
