// SPDX-License-Identifier: Apache-2.0
//! The state of a node, of a link direction or of a queue in one word, the same in lists and in their filters. A link on the map is uncertain if either of its ends is.

use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};

use canopy_units::Octets;

use crate::problem::{ProblemCode, Severity};
use crate::threshold::Thresholds;

/// Declares a closed set of words that a field selector compares.
macro_rules! words {
    ($(#[$doc:meta])* $kind:ident { $($(#[$word_doc:meta])* $word:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $kind {
            $($(#[$word_doc])* $word,)+
        }

        impl $kind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$word,)+];

            /// As in the API.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$word => stringify!($word),)+
                }
            }
        }

        impl Display for $kind {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

words! {
    /// Whether a node has what it was given.
    NodeState {
        /// Its kernel has the desired state.
        InSync,
        /// It has the desired generation, but for some items.
        ItemErrors,
        /// It has an earlier generation, or one of another term.
        Behind,
        /// Its agent is connected, and has not reported yet.
        NotReported,
        /// Its agent is away and is to be back soon.
        Restarting,
        /// It is leaving for good.
        Retiring,
        /// It has left for good.
        Retired,
        /// Its agent is not connected.
        NotConnected,
    }
}

words! {
    /// Whether a link direction carries what it is asked to.
    LinkState {
        /// Nothing is known to be wrong.
        InService,
        /// A problem of the link or of its sending port is open.
        Problem,
        /// The topology or a drain takes the link out of service.
        Drained,
        /// What is known of it is old: the agent of its sending node is not connected any more.
        AgentNotConnected,
        /// The agent of its sending node has not reported yet.
        NotReported,
    }
}

words! {
    /// The queue of a sending port, by its largest depth in this window and the one before.
    QueueState {
        /// It was above K_max.
        AboveKMax,
        /// It was above K_min: packets are marked.
        AboveKMin,
        /// It was below K_min, after packets had been marked or sources notified.
        Marked,
        /// Nothing has been marked there.
        Quiet,
        /// The port has no thresholds, or its agent reported nothing lately.
        Unknown,
    }
}

impl QueueState {
    /// Of a queue with this largest depth. `reacted`: packets were marked there, or sources notified.
    pub fn of(deepest: Octets, thresholds: Thresholds, reacted: bool) -> Self {
        match () {
            () if deepest > thresholds.k_max => Self::AboveKMax,
            () if deepest > thresholds.k_min => Self::AboveKMin,
            () if reacted => Self::Marked,
            () => Self::Quiet,
        }
    }
}

/// The worst open problem of a link or port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Which one.
    pub code: ProblemCode,
    /// How bad it is.
    pub severity: Severity,
}

impl Trouble {
    /// The worse one; of two that are as bad, `self`.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        if other.severity < self.severity { other } else { self }
    }
}

/// Troubles by the name of the link (`a--b`) or port (`node/port`).
pub type Troubles = HashMap<String, Trouble>;
