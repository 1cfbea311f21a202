// SPDX-License-Identifier: Apache-2.0
//! Runs `ip`, `tc` and other tools: every error contains the command and its standard error.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

/// Runs to the end and returns what was printed to standard output.
///
/// # Errors
/// The command cannot be started (not installed?) or fails; its standard error is part of the message.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let out = command.stdin(Stdio::null()).output().with_context(|| format!("starting `{shown}`: is it installed?"))?;
    check(&shown, &out)?;
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Feeds `lines` to `command`'s standard input (`ip -batch -`, `tc -batch -`).
///
/// # Errors
/// As [`run`]; the error contains the line that failed if the command reports its number.
pub(crate) fn batch(command: &mut Command, lines: &[String]) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let shown = show(command);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting `{shown}`: is it installed?"))?;
    let mut stdin = child.stdin.take().with_context(|| format!("standard input of `{shown}`"))?;
    let out = std::thread::scope(|scope| {
        // A child that stops at a bad line closes the pipe: its own message names the cause, EPIPE would hide it.
        scope.spawn(move || stdin.write_all((lines.join("\n") + "\n").as_bytes()).ok());
        child.wait_with_output()
    })
    .with_context(|| format!("waiting for `{shown}`"))?;
    let line = failed_line(&out).and_then(|n| lines.get(n.checked_sub(1)?));
    check(&line.map_or(shown.clone(), |l| format!("{shown}`, line `{l}")), &out)
}

/// `ip` and `tc` print `Command failed -:7` for line 7 of standard input.
fn failed_line(out: &Output) -> Option<usize> {
    String::from_utf8_lossy(&out.stderr).lines().find_map(|l| l.strip_prefix("Command failed -:")?.trim().parse().ok())
}

fn check(shown: &str, out: &Output) -> Result<()> {
    if out.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&out.stderr);
    let message = if stderr.trim().is_empty() { "no message".into() } else { stderr.trim().replace('\n', "; ") };
    bail!("`{shown}` failed ({}): {message}", out.status)
}

fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_the_command_and_its_words() {
        let e = run(Command::new("ip").args(["link", "show", "no-such-if"])).unwrap_err().to_string();
        assert!(e.contains("`ip link show no-such-if` failed") && e.contains("does not exist"), "{e}");
        let e = format!("{:#}", run(&mut Command::new("no-such-program")).unwrap_err());
        assert!(e.contains("starting `no-such-program`"), "{e}");
    }

    #[test]
    fn a_batch_names_its_bad_line() {
        let lines = ["link show lo".to_owned(), "link show no-such-if".to_owned()];
        let e = batch(Command::new("ip").args(["-batch", "-"]), &lines).unwrap_err().to_string();
        assert!(e.contains("line `link show no-such-if`"), "{e}");
    }
}
