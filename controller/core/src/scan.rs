// SPDX-License-Identifier: Apache-2.0
//! Reads the text of a selector from left to right, and names the position where it ceases to be one.

use canopy_model::FieldError;

/// A position in a text of parts that commas separate.
pub(crate) struct Scan<'a> {
    field: &'a str,
    text: &'a str,
    at: usize,
    /// What is possible, for errors.
    syntax: &'a str,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(field: &'a str, text: &'a str, syntax: &'a str) -> Self {
        Self { field, text, at: 0, syntax }
    }

    /// Skips spaces.
    pub(crate) fn spaces(&mut self) {
        self.word(|b| b == b' ');
    }

    /// The longest word of these octets, all of ASCII, which may be empty.
    pub(crate) fn word(&mut self, is_part: impl Fn(u8) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let (word, _) = rest.split_at(rest.bytes().take_while(|b| is_part(*b)).count());
        self.at += word.len();
        word
    }

    /// Skips this text if it is here.
    pub(crate) fn eat(&mut self, token: &str) -> bool {
        let is_here = self.text[self.at..].starts_with(token);
        if is_here {
            self.at += token.len();
        }
        is_here
    }

    /// True at a comma and at the end of the text.
    pub(crate) fn is_at_end_of_part(&self) -> bool {
        self.text[self.at..].is_empty() || self.text[self.at..].starts_with(',')
    }

    /// Skips spaces and the comma behind a part; `false` at the end of the text.
    pub(crate) fn part_ends(&mut self) -> Result<bool, FieldError> {
        self.spaces();
        if self.text[self.at..].is_empty() {
            return Ok(false);
        }
        if self.eat(",") { Ok(true) } else { Err(self.unexpected()) }
    }

    /// Where the scan is now, for [`Scan::error_at`].
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// What is here cannot be here.
    pub(crate) fn unexpected(&self) -> FieldError {
        let what = match self.text[self.at..].chars().next() {
            Some(next) => format!("{next:?} is not possible here"),
            None => "something is missing here".to_owned(),
        };
        self.error_at(self.at, &what, self.syntax)
    }

    /// An error about what is at a position.
    pub(crate) fn error_at(&self, at: usize, what: &str, possible: &str) -> FieldError {
        let character = self.text[..at].chars().count() + 1;
        FieldError::new(self.field, format!("character {character} of {:?}: {what}: {possible}", self.text))
    }
}
