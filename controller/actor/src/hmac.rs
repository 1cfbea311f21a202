// SPDX-License-Identifier: Apache-2.0
//! The steps of the SRH HMAC TLV's keys: each is taken, durable first, once every node has confirmed the one before.

use canopy_controller_core::{Command, Domain};

use crate::Controller;
use crate::due::Due;
use crate::events::Code;

static STEP: Due = Due {
    is_due: Domain::hmac_is_due,
    command: || Command::AdvanceHmac,
    done: report,
    attempts: Controller::hmac_steps,
    failure: Code::HmacKeysNotChanged,
    meanwhile: "nodes keep their present keys",
};

fn report(controller: &Controller) {
    let view = controller.read(Domain::hmac);
    let ids: Vec<u32> = view.keys.iter().map(|key| key.id).collect();
    controller.events().note(Code::HmacKeysChanged, None, format!("keys {ids:?}, phase {:?}", view.phase));
}

impl Controller {
    /// Takes the next steps that are due. Must be called on the tokio runtime.
    pub(crate) fn advance_hmac(&self) {
        self.execute_due(&STEP);
    }
}
