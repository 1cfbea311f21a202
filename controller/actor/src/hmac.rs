// SPDX-License-Identifier: Apache-2.0
//! The steps of the SRH HMAC TLV's keys: each is taken, durable first, once every node has confirmed the one before.

use std::sync::atomic::Ordering;

use canopy_controller_core::{Command, Outcome};

use crate::Controller;
use crate::events::Code;

impl Controller {
    /// Takes the next steps that are due. One task does it for all callers. Must be called on the tokio runtime.
    pub(crate) fn advance_hmac(&self) {
        if !self.read(|d| d.hmac_is_due()) || self.advancing_hmac().swap(true, Ordering::AcqRel) {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            loop {
                let done = this.execute(Command::AdvanceHmac, None, false).await;
                this.advancing_hmac().store(false, Ordering::Release);
                match done {
                    Ok(done) if done.outcome == Outcome::Updated => {
                        let view = this.read(|d| d.hmac());
                        let ids: Vec<u32> = view.keys.iter().map(|key| key.id).collect();
                        let detail = format!("keys {ids:?}, phase {:?}", view.phase);
                        this.events().note(Code::HmacKeysChanged, None, None, detail);
                    }
                    Ok(_) => {}
                    Err(e) => {
                        // The next report triggers another attempt.
                        let detail = format!("nodes keep their present keys until the next attempt: {e}");
                        this.events().note(Code::HmacKeysNotChanged, None, None, detail);
                        return;
                    }
                }
                if !this.read(|d| d.hmac_is_due()) || this.advancing_hmac().swap(true, Ordering::AcqRel) {
                    return;
                }
            }
        });
    }
}
