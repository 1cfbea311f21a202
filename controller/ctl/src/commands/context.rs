// SPDX-License-Identifier: Apache-2.0
//! `context list|use|set|delete`: named servers.

use std::io::Write;
use std::path::PathBuf;

use canopy_identity::{AuthorityHash, Credentials};

use crate::cli::ContextAction;
use crate::client::Client;
use crate::contexts::{Context, Env, File, no_home};
use crate::documents::is_plain;
use crate::failure::{Exit, Failure};
use crate::output::table;

/// See the module.
///
/// # Errors
/// The file cannot be read or written, or has no such context.
pub fn run(action: &ContextAction, env: Env<'_>, out: &mut dyn Write) -> Result<(), Failure> {
    let file = File::of(env).ok_or_else(no_home)?;
    let mut all = file.read()?;
    match action {
        ContextAction::List => {
            let current = |name: &str| if all.current.as_deref() == Some(name) { "*" } else { "" };
            let row = |(name, Context { server, token_file, certificate_file, .. }): (&String, &Context)| {
                let shown = token_file.as_ref().or(certificate_file.as_ref());
                let token = shown.map_or("-".to_owned(), |file| file.display().to_string());
                vec![current(name).to_owned(), name.clone(), server.clone(), token]
            };
            return table(out, &["CURRENT", "NAME", "SERVER", "CREDENTIAL"], all.contexts.iter().map(row).collect());
        }
        ContextAction::Use { name } => {
            if !all.contexts.contains_key(name) {
                return Err(file.unknown(name, &all.contexts));
            }
            all.current = Some(name.clone());
            file.write(&all)?;
            writeln!(out, "context {name} is used from now on")?;
        }
        ContextAction::Set { name, address, authority, token, certificate } => {
            if !is_plain(name) {
                let why = format!("{name:?} is not a name of a context: use letters, digits, '-', '_' and '.'");
                return Err(Failure::new(Exit::Usage, why));
            }
            // What no command could use is not kept.
            let hash = authority.as_deref().map(str::parse::<AuthorityHash>).transpose();
            let own = certificate.as_ref().map(|file| Credentials::read_file(file)).transpose();
            let own = own.map_err(|e| Failure::new(Exit::Usage, format!("certificate file {e}")))?;
            let hash = hash.map_err(|e| Failure::new(Exit::Usage, e.to_string()))?;
            Client::showing(address, hash, own.as_ref())?;
            let absolute = |file: &PathBuf| {
                std::path::absolute(file).map_err(|e| Failure::new(Exit::Usage, format!("{}: {e}", file.display())))
            };
            let token_file = token.as_ref().map(absolute).transpose()?;
            let certificate_file = certificate.as_ref().map(absolute).transpose()?;
            let (server, authority) = (address.clone(), authority.clone());
            let context = Context { server, token_file, certificate_file, authority };
            let before = all.contexts.insert(name.clone(), context);
            // The first one is meant.
            let is_first = all.contexts.len() == 1 && all.current.is_none();
            if is_first {
                all.current = Some(name.clone());
            }
            file.write(&all)?;
            let done = if before.is_some() { "changed" } else { "added" };
            let used = if is_first { ", and used from now on" } else { "" };
            writeln!(out, "context {name} {done}{used}")?;
        }
        ContextAction::Delete { name } => {
            if all.contexts.remove(name).is_none() {
                return Err(file.unknown(name, &all.contexts));
            }
            let was_current = all.current.as_deref() == Some(name.as_str());
            if was_current {
                all.current = None;
            }
            file.write(&all)?;
            let now = if was_current { "; no context is used from now on" } else { "" };
            writeln!(out, "context {name} deleted{now}")?;
        }
    }
    Ok(())
}
