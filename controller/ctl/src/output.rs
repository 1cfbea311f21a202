// SPDX-License-Identifier: Apache-2.0
//! Tables, JSON, YAML, and helpers that format values of the API.

use std::io::Write;

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::Value;

use crate::failure::{Exit, Failure};

/// A table without lines.
///
/// # Errors
/// Writing failed.
pub fn table(out: &mut dyn Write, header: &[&str], rows: Vec<Vec<String>>) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(header);
    table.add_rows(rows.into_iter().map(|row| row.into_iter().map(|cell| clean(&cell))));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Pretty JSON.
///
/// # Errors
/// Writing failed.
pub fn json(out: &mut dyn Write, value: &Value) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Failure::new(Exit::Error, e.to_string()))?;
    Ok(writeln!(out, "{text}")?)
}

/// YAML.
///
/// # Errors
/// Writing failed.
pub fn yaml(out: &mut dyn Write, value: &Value) -> Result<(), Failure> {
    let text = serde_yaml_ng::to_string(value).map_err(|e| Failure::new(Exit::Error, e.to_string()))?;
    Ok(write!(out, "{text}")?)
}

/// A scalar of the API as in its JSON; `-` if it is absent or empty.
pub fn text(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Err(_) | Ok(Value::Null) => "-".into(),
        Ok(Value::String(s)) if s.is_empty() => "-".into(),
        Ok(Value::String(s)) => clean(&s),
        Ok(Value::Bool(true)) => "yes".into(),
        Ok(Value::Bool(false)) => "no".into(),
        Ok(other) => other.to_string(),
    }
}

/// Replaces control characters: text from nodes must not control the terminal.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_without_control_characters() {
        assert_eq!(text("x\u{1b}[2Jy"), "x [2Jy");
        assert_eq!(
            (text(None::<u8>), text(""), text(true), text(Some(7))),
            ("-".into(), "-".into(), "yes".into(), "7".into())
        );
    }

    #[test]
    fn tables_have_a_header_and_no_trailing_blanks() {
        let mut out = Vec::new();
        table(&mut out, &["NAME", "PHASE"], vec![vec!["a".into(), "Ready".into()], vec!["longer".into(), "-".into()]])
            .unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "NAME    PHASE\na       Ready\nlonger  -\n");
    }
}
