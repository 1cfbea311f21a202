// SPDX-License-Identifier: Apache-2.0
//! Strings in arrays of a fixed size.

use std::ffi::c_char;

/// `text` with a terminating NUL, cut at a character if it is too long, and at an embedded NUL.
pub(crate) fn array<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    let mut end = text.find('\0').unwrap_or(text.len()).min(N - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    for (to, from) in array.iter_mut().zip(&text.as_bytes()[..end]) {
        *to = *from as c_char;
    }
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters() {
        let bytes = |array: [c_char; 4]| array.map(|c| c as u8);
        assert_eq!(bytes(array("abc")), *b"abc\0");
        assert_eq!(bytes(array("abcd")), *b"abc\0");
        assert_eq!(bytes(array("abé")), *b"ab\0\0");
        assert_eq!(bytes(array("a\0c")), *b"a\0\0\0");
    }
}
