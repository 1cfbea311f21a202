// SPDX-License-Identifier: Apache-2.0
//! `hmac status` and `hmac rotate`.

use std::io::Write;

use canopy_controller_api::hmac::{Hmac, HmacKey, HmacWait};
use canopy_model::srh_hmac::FlagBit;
use hyper::Method;

use crate::cli::{HmacAction, HmacArgs};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::text;

/// Executes the command.
///
/// # Errors
/// The controller cannot be reached, or refused.
pub async fn run(client: &Client, args: &HmacArgs, out: &mut dyn Write) -> Result<(), Failure> {
    if args.action == HmacAction::Rotate {
        client.change("rotating the key of the HMAC TLV", Method::POST, "/api/v1/hmac/rotate", None).await?;
    }
    let hmac: Hmac = client.get("asking for the keys of the HMAC TLV", "/api/v1/hmac").await?;
    show(&hmac, out)
}

fn show(hmac: &Hmac, out: &mut dyn Write) -> Result<(), Failure> {
    let Hmac { phase, keys, unconfirmed, waiting } = hmac;
    writeln!(out, "Phase:  {phase:?}")?;
    for HmacKey { id, flag_bit, sends } in keys {
        let flags = match flag_bit {
            FlagBit::Rfc8754 => "rfc8754",
            FlagBit::Linux => "linux",
        };
        writeln!(out, "Key:    {id} ({flags}{})", if *sends { ", sends" } else { "" })?;
    }
    writeln!(out, "Nodes that have not confirmed: {unconfirmed}")?;
    for HmacWait { node, reason } in waiting {
        writeln!(out, "  {}: {}", text(node), text(reason))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use canopy_model::srh_hmac::HmacPhase;

    use super::*;

    #[test]
    fn the_status_names_the_keys_and_who_is_waited_for() {
        let key = |id, sends| HmacKey { id, flag_bit: FlagBit::Linux, sends };
        let hmac = Hmac {
            phase: HmacPhase::Accepting,
            keys: vec![key(7, true), key(8, false)],
            unconfirmed: 1,
            waiting: vec![HmacWait { node: "n3".into(), reason: "its agent is not connected".into() }],
        };
        let mut out = Vec::new();
        show(&hmac, &mut out).unwrap();
        let wanted = "Phase:  Accepting\nKey:    7 (linux, sends)\nKey:    8 (linux)\nNodes that have not confirmed: 1\n  n3: its agent is not connected\n";
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }
}
