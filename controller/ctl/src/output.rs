// SPDX-License-Identifier: Apache-2.0
//! Tables, JSON, YAML, and helpers that format values of the API.

use std::io::Write;

use comfy_table::{ContentArrangement, Table, presets};
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

/// The value at a JSON pointer as text; `-` if there is none.
pub fn text(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        None | Some(Value::Null) => "-".into(),
        Some(Value::String(s)) if s.is_empty() => "-".into(),
        Some(Value::String(s)) => clean(s),
        Some(Value::Bool(true)) => "yes".into(),
        Some(Value::Bool(false)) => "no".into(),
        Some(other) => other.to_string(),
    }
}

/// The array at a JSON pointer; empty where there is none.
pub fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Replaces control characters: text from nodes must not control the terminal.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_shown_without_control_characters() {
        let v = json!({"a": {"b": "x\u{1b}[2Jy"}, "n": null, "t": true, "i": 7});
        assert_eq!(text(&v, "/a/b"), "x [2Jy");
        assert_eq!(
            (text(&v, "/n"), text(&v, "/none"), text(&v, "/t"), text(&v, "/i")),
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
