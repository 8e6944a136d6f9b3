//! `cargo xtask test`: every test of the workspace, and one last line that sums them up.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::process::Stdio;

use anyhow::Context;

use crate::{need, step};

/// Runs all tests and tells whether all passed.
///
/// # Errors
/// If something that the tests need is missing, or cargo cannot be started.
pub fn run() -> anyhow::Result<bool> {
    need::provide()?;
    step::announce("tests");
    let mut child = step::cargo(&["test", "--workspace", "--locked", "--no-fail-fast"])
        .stdout(Stdio::piped())
        .spawn()
        .context("starting cargo test")?;
    let output = child.stdout.take().expect("standard output was asked for as a pipe");
    let mut tally = Tally::default();
    pass_on(BufReader::new(output), io::stdout().lock(), &mut tally)?;
    let status = child.wait().context("waiting for cargo test")?;

    let summary = tally.summary(status.success());
    println!("\n{summary}");
    Ok(status.success() && summary.n_failed == 0)
}

/// Copies lines as they come, counting on the way.
fn pass_on(mut lines: impl BufRead, mut out: impl Write, tally: &mut Tally) -> anyhow::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        // Bytes, because a failing test may print what is not text.
        if lines.read_until(b'\n', &mut line).context("reading the tests' output")? == 0 {
            return Ok(());
        }
        out.write_all(&line).and_then(|()| out.flush()).context("passing on the tests' output")?;
        tally.see(&String::from_utf8_lossy(&line));
    }
}

/// What the closing lines of the test binaries have said so far.
#[derive(Debug, Default)]
struct Tally {
    n_passed: u64,
    n_failed: u64,
    n_skipped: u64,
    /// Test binaries that said that they begin and have not said how they ended.
    n_open: u64,
}

impl Tally {
    fn see(&mut self, line: &str) {
        if is_opening(line) {
            self.n_open += 1;
        } else if let Some([passed, failed, ignored]) = closing_counts(line) {
            self.n_passed += passed;
            self.n_failed += failed;
            self.n_skipped += ignored;
            self.n_open = self.n_open.saturating_sub(1);
        }
    }

    /// A binary that died without a closing line counts as one failure, and so does a run that
    /// failed before any test could, for instance because something does not compile.
    fn summary(&self, run_succeeded: bool) -> Summary {
        let n_failed = self.n_failed + self.n_open;
        let n_failed = if run_succeeded { n_failed } else { n_failed.max(1) };
        Summary { n_passed: self.n_passed, n_failed, n_skipped: self.n_skipped }
    }
}

/// `running 3 tests`
fn is_opening(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    matches!(words.as_slice(), ["running", count, "test" | "tests"] if count.parse::<u64>().is_ok())
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s`
fn closing_counts(line: &str) -> Option<[u64; 3]> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |name: &str| {
        counts.split("; ").find_map(|part| part.strip_suffix(name)?.trim_end().parse().ok())
    };
    Some([count("passed")?, count("failed")?, count("ignored")?])
}

/// The last line of a run.
struct Summary {
    n_passed: u64,
    n_failed: u64,
    n_skipped: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.n_passed, self.n_failed)?;
        if self.n_skipped > 0 {
            write!(f, ", {} skipped", self.n_skipped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &str = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; \
                      finished in 0.12s\n";
    const BAD: &str = "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 5 filtered \
                       out; finished in 3.00s\n";

    fn summary_of(output: &str, run_succeeded: bool) -> String {
        let mut tally = Tally::default();
        let mut copy = Vec::new();
        pass_on(output.as_bytes(), &mut copy, &mut tally).expect("memory does not fail");
        assert_eq!(copy, output.as_bytes(), "output is passed on as it is");
        tally.summary(run_succeeded).to_string()
    }

    #[test]
    fn all_binaries_are_summed() {
        let output = format!("\nrunning 4 tests\n{OK}\nrunning 3 tests\n{BAD}");
        assert_eq!(summary_of(&output, false), "4 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn a_binary_that_died_counts_as_a_failure() {
        let output = format!("running 4 tests\n{OK}running 1 test\ntest boom ... ");
        assert_eq!(summary_of(&output, false), "3 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn a_run_that_could_not_begin_is_a_failure() {
        assert_eq!(summary_of("", false), "0 passed, 1 failed");
    }

    #[test]
    fn other_lines_are_not_counted() {
        assert_eq!(summary_of("running late\ntest result: unknown\n", true), "0 passed, 0 failed");
    }
}
