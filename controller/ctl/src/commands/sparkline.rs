// SPDX-License-Identifier: Apache-2.0
//! One line of characters whose height is a value. A gap is a blank.

/// Columns of a line, at most.
const WIDTH: usize = 60;
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII: [char; 8] = ['_', '.', ',', '-', '~', '=', '^', '#'];

/// The values from 0 to their maximum; more than fit in a line are averaged.
pub(super) fn draw(values: &[Option<f32>], is_ascii: bool) -> String {
    let merged = merged(values);
    let max = merged.iter().flatten().fold(0.0f32, |a, b| a.max(*b));
    steps(&merged, max, is_ascii)
}

/// The same of shares, from 0 to 1.
pub(super) fn shares(values: &[Option<f32>], is_ascii: bool) -> String {
    steps(&merged(values), 1.0, is_ascii)
}

fn merged(values: &[Option<f32>]) -> Vec<Option<f32>> {
    let columns = values.len().clamp(1, WIDTH);
    (0..columns).map(|at| column(values, at, columns)).collect()
}

fn steps(merged: &[Option<f32>], max: f32, is_ascii: bool) -> String {
    let steps = if is_ascii { ASCII } else { BLOCKS };
    let step = |value: f32| if max > 0.0 { (value.max(0.0) / max * 7.0).round() as usize } else { 0 };
    merged.iter().map(|value| value.map_or(' ', |value| steps[step(value).min(7)])).collect()
}

fn column(values: &[Option<f32>], at: usize, columns: usize) -> Option<f32> {
    let part = &values[at * values.len() / columns..(at + 1) * values.len() / columns];
    let known: Vec<f32> = part.iter().flatten().copied().collect();
    (!known.is_empty()).then(|| known.iter().sum::<f32>() / known.len() as f32)
}

/// Whether characters beyond ASCII can be shown, by the locale that is in force: the first of these that is set.
pub(super) fn is_utf8(locale: impl Fn(&str) -> Option<String>) -> bool {
    let found = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(locale).find(|value| !value.is_empty());
    let name = found.unwrap_or_default().to_ascii_lowercase();
    name.contains("utf-8") || name.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_are_shares_of_the_maximum_and_gaps_are_blank() {
        assert_eq!(draw(&[Some(0.0), None, Some(3.5), Some(7.0)], false), "▁ ▅█");
        assert_eq!(draw(&[Some(0.0), None, Some(3.5), Some(7.0)], true), "_ ~#");
        assert_eq!(draw(&[Some(0.0), Some(0.0)], false), "▁▁");
        assert_eq!(draw(&[Some(-1.0), Some(1.0)], false), "▁█");
        assert_eq!(draw(&[], false), " ");
        assert_eq!(shares(&[Some(0.0), None, Some(0.25), Some(0.5)], false), "▁ ▃▅", "of the whole");
        let long: Vec<_> = (0..600).map(|n| (n >= 300).then_some(1.0)).collect();
        assert_eq!(draw(&long, true), format!("{}{}", " ".repeat(30), "#".repeat(30)));
    }

    #[test]
    fn the_first_locale_that_is_set_decides() {
        let of = |set: &[(&str, &str)]| {
            let set: Vec<_> = set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            is_utf8(move |name| set.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone()))
        };
        assert!(of(&[("LANG", "de_DE.UTF-8")]) && of(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8")]));
        assert!(!of(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]) && !of(&[]));
    }
}
