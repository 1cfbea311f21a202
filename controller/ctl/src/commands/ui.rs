// SPDX-License-Identifier: Apache-2.0
//! `ui`: a browser that is signed in to the web UI.

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use canopy_controller_api::sign_in::SignInCode;
use serde_json::json;
use tokio::process::Command;

use crate::cli::UiArgs;
use crate::client::Client;
use crate::failure::Failure;
use crate::proxy::Proxy;

/// Without one of these, `xdg-open` finds no browser with a window, and may run one in this terminal.
const DISPLAYS: [&str; 3] = ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER"];
/// A browser that runs longer than this has not failed to start.
const STARTED_AFTER: Duration = Duration::from_secs(5);

/// See the module.
///
/// # Errors
/// The controller cannot be reached, or the port cannot be served at.
pub async fn run(client: &Client, args: &UiArgs, out: &mut dyn Write) -> Result<(), Failure> {
    match client.web() {
        Some(address) => show(client, &address, args, out).await,
        None => {
            let proxy = Proxy::bind(client.clone(), args.port).await?;
            let address = proxy.address();
            // A browser asks for the page before its program is known to have started.
            let serving = tokio::spawn(proxy.serve());
            show(client, &address, args, out).await?;
            writeln!(out, "serving it at {address}/ for the controller at {}, until Ctrl C", client.name())?;
            out.flush()?;
            _ = tokio::signal::ctrl_c().await;
            serving.abort();
            Ok(())
        }
    }
}

/// Opens the page at this address, signed in.
async fn show(client: &Client, address: &str, args: &UiArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let SignInCode { code, expires_in_seconds } =
        client.post("asking for a sign-in code", "/api/v1/sign-in-codes", &json!({})).await?;
    let url = format!("{address}/#{}", code.0);
    if args.print {
        writeln!(out, "{url}")?;
        return Ok(out.flush()?);
    }
    let has_display = DISPLAYS.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    if has_display && open(&url).await {
        return Ok(writeln!(out, "opened {address}/ in the browser; if none appears: canopyctl ui --print")?);
    }
    Ok(writeln!(
        out,
        "no browser could be started: open this on this machine within {expires_in_seconds} s, it works once\n  {url}"
    )?)
}

/// Whether a browser was started.
async fn open(url: &str) -> bool {
    let started =
        Command::new("xdg-open").arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(mut browser) = started else { return false };
    match tokio::time::timeout(STARTED_AFTER, browser.wait()).await {
        Ok(ended) => ended.is_ok_and(|status| status.success()),
        Err(_) => true,
    }
}
