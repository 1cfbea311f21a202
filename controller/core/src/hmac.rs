// SPDX-License-Identifier: Apache-2.0
//! The keys of the SRH HMAC TLV: how they are taken into use, replaced and given up while packets flow.
//!
//! ```text
//! Off --enabled--> Starting --> On --rotate--> Accepting --> Sending --> On
//!                     any --not enabled--> Stopping --> Off
//! ```
//!
//! | phase | keys | headends sign with | without a valid TLV |
//! |---|---|---|---|
//! | Starting, Stopping | all | the one that sends | accepted |
//! | On | one | it | dropped |
//! | Accepting | the former and the new one | the former | dropped |
//! | Sending | the same | the new one | dropped |
//!
//! An arrow without a word is taken once every node has confirmed the phase: then none sends what another one drops.

use canopy_model::srh_hmac::{FlagBit, HmacKey, HmacPhase, SrhHmac};

/// What operators want of the domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HmacSettings {
    /// Headends sign the SRH of every packet, and all nodes require it.
    pub enabled: bool,
    /// The flags of signed SRHs; another value makes the domain rotate to a key with it.
    pub flag_bit: FlagBit,
}

/// The phase that a domain with these keys is in.
pub(crate) fn phase(hmac: Option<&SrhHmac>, settings: HmacSettings) -> HmacPhase {
    match hmac {
        None => HmacPhase::Off,
        Some(hmac) if !hmac.required && settings.enabled => HmacPhase::Starting,
        Some(hmac) if !hmac.required => HmacPhase::Stopping,
        Some(hmac) => match hmac.keys() {
            [_] => HmacPhase::On,
            [former, ..] if former.id == hmac.sending().id => HmacPhase::Accepting,
            _ => HmacPhase::Sending,
        },
    }
}

/// What follows, if anything does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A key has to be drawn: the first one, or the next one.
    Draw,
    /// These keys, at once.
    Now(SrhHmac),
    /// These keys, or none, once every node has confirmed the present ones.
    Confirmed(Option<SrhHmac>),
}

/// The step behind the present one; `None` if the domain is as wanted.
pub(crate) fn next(hmac: Option<&SrhHmac>, settings: HmacSettings) -> Option<Next> {
    let Some(hmac) = hmac else { return settings.enabled.then_some(Next::Draw) };
    match phase(Some(hmac), settings) {
        HmacPhase::Starting => Some(Next::Confirmed(Some(hmac.requiring(true)))),
        HmacPhase::Stopping => Some(Next::Confirmed(None)),
        _ if !settings.enabled => Some(Next::Now(hmac.requiring(false))),
        HmacPhase::Accepting => Some(Next::Confirmed(Some(hmac.sending_newest()))),
        HmacPhase::Sending => Some(Next::Confirmed(Some(hmac.only_sending()))),
        HmacPhase::On if hmac.sending().flag_bit != settings.flag_bit => Some(Next::Draw),
        HmacPhase::On | HmacPhase::Off => None,
    }
}

/// The keys with `key` as the next one: the first of a domain without keys, or the one that a rotation begins with.
pub(crate) fn with_next(hmac: Option<&SrhHmac>, key: HmacKey) -> SrhHmac {
    match hmac {
        Some(hmac) => hmac.with_next(key),
        None => SrhHmac::first(key),
    }
}

#[cfg(test)]
mod tests {
    use canopy_model::srh_hmac::{HmacKeyId, HmacSecret};

    use super::*;

    fn key(id: u32, flag_bit: FlagBit) -> HmacKey {
        HmacKey { id: HmacKeyId::new("id", id).unwrap(), secret: HmacSecret::new([id as u8; 32]), flag_bit }
    }

    /// Follows the steps; returns the phases, with the identifiers of the keys and which one sends.
    fn walk(mut hmac: Option<SrhHmac>, settings: HmacSettings) -> (Vec<String>, Option<SrhHmac>) {
        let mut seen = Vec::new();
        for drawn in 10.. {
            let keys = hmac.iter().flat_map(SrhHmac::keys).map(|k| k.id.get()).collect::<Vec<_>>();
            let sending = hmac.as_ref().map(|h| h.sending().id.get());
            seen.push(format!("{:?} {keys:?} {sending:?}", phase(hmac.as_ref(), settings)));
            hmac = match next(hmac.as_ref(), settings) {
                None => break,
                Some(Next::Draw) => Some(with_next(hmac.as_ref(), key(drawn, settings.flag_bit))),
                Some(Next::Now(next)) => Some(next),
                Some(Next::Confirmed(next)) => next,
            };
        }
        (seen, hmac)
    }

    #[test]
    fn every_phase_leads_to_what_is_wanted() {
        let on = HmacSettings { enabled: true, flag_bit: FlagBit::Rfc8754 };
        let (seen, hmac) = walk(None, on);
        assert_eq!(seen, ["Off [] None", "Starting [10] Some(10)", "On [10] Some(10)"]);
        let rotating = Some(with_next(hmac.as_ref(), key(7, FlagBit::Rfc8754)));
        let (seen, rotated) = walk(rotating.clone(), on);
        assert_eq!(seen, ["Accepting [10, 7] Some(10)", "Sending [10, 7] Some(7)", "On [7] Some(7)"]);
        let (seen, linux) = walk(rotated.clone(), HmacSettings { flag_bit: FlagBit::Linux, ..on });
        assert_eq!(seen.len(), 4);
        assert_eq!(linux.unwrap().sending().flag_bit, FlagBit::Linux);
        let off = HmacSettings { enabled: false, ..on };
        let (seen, hmac) = walk(rotating.clone(), off);
        assert_eq!(seen, ["Accepting [10, 7] Some(10)", "Stopping [10, 7] Some(10)", "Off [] None"]);
        assert_eq!(hmac, None);
        // Wanted again before it has ended: nothing is required until every node has confirmed that headends sign.
        let stopping = match next(rotating.as_ref(), off) {
            Some(Next::Now(hmac)) => Some(hmac),
            other => panic!("{other:?}"),
        };
        let (seen, _) = walk(stopping, on);
        assert_eq!(seen[0], "Starting [10, 7] Some(10)");
        assert_eq!(seen.last().unwrap(), "On [7] Some(7)");
    }

    /// Between two nodes one of which is a phase ahead: what either sends as a headend, the other accepts.
    #[test]
    fn no_node_drops_what_another_one_sends_while_one_is_a_phase_ahead() {
        let settings = [true, false].map(|enabled| HmacSettings { enabled, flag_bit: FlagBit::Rfc8754 });
        let start = [None, Some(with_next(None, key(1, FlagBit::Rfc8754)))];
        let one = SrhHmac::new(vec![key(1, FlagBit::Rfc8754)], key(1, FlagBit::Rfc8754).id, true).ok();
        let rotating = Some(with_next(one.as_ref(), key(2, FlagBit::Linux)));
        for (hmac, settings) in start.into_iter().chain([one, rotating]).flat_map(|h| settings.map(|s| (h.clone(), s)))
        {
            let mut hmac = hmac;
            for drawn in 10.. {
                let after = match next(hmac.as_ref(), settings) {
                    None => break,
                    Some(Next::Draw) => Some(with_next(hmac.as_ref(), key(drawn, settings.flag_bit))),
                    Some(Next::Now(next)) => Some(next),
                    Some(Next::Confirmed(next)) => next,
                };
                let accepts = |by: &Option<SrhHmac>, from: &Option<SrhHmac>| {
                    let Some(by) = by.as_ref().filter(|by| by.required) else { return true };
                    from.as_ref().is_some_and(|from| by.keys().contains(from.sending()))
                };
                assert!(accepts(&hmac, &after) && accepts(&after, &hmac), "{hmac:?} {after:?}");
                hmac = after;
            }
        }
    }
}
