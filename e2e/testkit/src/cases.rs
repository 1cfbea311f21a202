// SPDX-License-Identifier: Apache-2.0
//! Test programs with a `main` of their own, for tests that not every machine can run. A test that this machine cannot run is listed as
//! ignored, with the reason, in the words of Rust's own test programs; `scripts/test.py` counts it as skipped.

use std::io::{self, Write};
use std::panic::catch_unwind;
use std::process::ExitCode;

/// A test.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// It fails by panicking.
    pub run: fn(),
}

/// Runs the cases that the program's arguments select, in their order; `missing` is what this machine lacks for all of them. As in
/// Rust's own test programs, words are parts of names, `--list` lists, and `--include-ignored` runs what cannot be expected to pass.
pub fn run(cases: &[Case], missing: impl FnOnce() -> Option<String>) -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run_to(&args, cases, missing, &mut io::stdout()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(101),
        Err(e) => {
            eprintln!("writing the results: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Whether no case failed.
fn run_to(
    args: &[String],
    cases: &[Case],
    missing: impl FnOnce() -> Option<String>,
    out: &mut impl Write,
) -> io::Result<bool> {
    let has = |option: &str| args.iter().any(|a| a == option);
    let values = args.windows(2).filter(|w| w[0] == "--test-threads").map(|w| &w[1]).collect::<Vec<_>>();
    let words: Vec<_> = args.iter().filter(|a| !a.starts_with('-') && !values.contains(a)).collect();
    let chosen: Vec<_> =
        cases.iter().filter(|c| words.is_empty() || words.iter().any(|w| c.name.contains(w.as_str()))).collect();
    if has("--list") {
        return chosen.iter().try_for_each(|c| writeln!(out, "{}: test", c.name)).map(|()| true);
    }
    let missing = if chosen.is_empty() || has("--include-ignored") { None } else { missing() };
    let (mut passed, mut failed, mut ignored) = (0, 0, 0);
    for case in &chosen {
        if let Some(what) = &missing {
            ignored += 1;
            writeln!(out, "test {} ... ignored, {what}", case.name)?;
            continue;
        }
        let ok = catch_unwind(case.run).is_ok();
        *if ok { &mut passed } else { &mut failed } += 1;
        writeln!(out, "test {} ... {}", case.name, if ok { "ok" } else { "FAILED" })?;
    }
    let (word, others) = (if failed == 0 { "ok" } else { "FAILED" }, cases.len() - chosen.len());
    writeln!(
        out,
        "\ntest result: {word}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; {others} filtered out"
    )?;
    Ok(failed == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASES: [Case; 3] = [
        Case { name: "one_passes", run: || () },
        Case { name: "one_fails", run: || panic!("on purpose") },
        Case { name: "another_passes", run: || () },
    ];

    fn of(args: &[&str], missing: Option<&str>) -> (bool, String) {
        let args: Vec<_> = args.iter().map(|a| (*a).to_owned()).collect();
        let mut out = Vec::new();
        let ok = run_to(&args, &CASES, || missing.map(str::to_owned), &mut out).unwrap();
        (ok, String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_case_that_panics_fails_the_program_and_the_others_run() {
        let (ok, text) = of(&[], None);
        let lines = "test one_passes ... ok\ntest one_fails ... FAILED\ntest another_passes ... ok\n";
        let end = "\ntest result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!((ok, text), (false, format!("{lines}{end}")));
    }

    #[test]
    fn what_the_machine_cannot_run_is_ignored_with_its_reason_and_counted() {
        let (ok, text) = of(&["another", "--nocapture"], Some("no fq in this kernel"));
        let line = "test another_passes ... ignored, no fq in this kernel\n";
        let end = "\ntest result: ok. 0 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out\n";
        assert_eq!((ok, text), (true, format!("{line}{end}")));
        let (ok, text) = of(&["--include-ignored", "fails"], Some("no fq in this kernel"));
        assert!(!ok && text.contains("1 failed; 0 ignored"), "{text}");
    }

    #[test]
    fn arguments_are_those_of_rusts_own_test_programs() {
        assert_eq!(of(&["--list"], None).1, "one_passes: test\none_fails: test\nanother_passes: test\n");
        assert_eq!(of(&["--list", "one_"], None).1, "one_passes: test\none_fails: test\n");
        let (ok, text) = of(&["--test-threads", "1", "passes"], None);
        assert!(ok && text.contains("2 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out"), "{text}");
    }
}
