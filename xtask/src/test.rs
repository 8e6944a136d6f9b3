//! `cargo xtask test`: every test of the workspace, and one line that sums them up.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::Context;

use crate::{need, step};

/// How long nothing may come after cargo has ended before its output counts as complete.
const SILENCE: Duration = Duration::from_secs(2);

/// Runs all tests and sums up how they went.
///
/// # Errors
/// If something that the tests need is missing, or cargo cannot be started.
pub fn run() -> anyhow::Result<Summary> {
    need::provide()?;
    step::announce("tests");
    let mut child = step::cargo(&["test", "--workspace", "--locked", "--no-fail-fast"])
        // With points at which tests kill the program.
        .args(["--features", "gpool/failpoints"])
        .stdout(Stdio::piped())
        .spawn()
        .context("starting cargo test")?;
    let output = child.stdout.take().expect("standard output was asked for as a pipe");
    let tally = pass_on(&mut child, &read_lines(output)?, &mut io::stdout().lock())?;
    let status = child.wait().context("waiting for cargo test")?;
    Ok(tally.summary(status.success()))
}

/// Reads lines on a thread of its own, so that a process which a test left behind, and which holds
/// the pipe open, cannot keep the run from ending.
fn read_lines(output: impl Read + Send + 'static) -> anyhow::Result<Receiver<Vec<u8>>> {
    let (sender, lines) = mpsc::sync_channel(64);
    let read = move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        // Bytes, because a failing test may print what is not text.
        while output.read_until(b'\n', &mut line).is_ok_and(|n_bytes| n_bytes > 0) {
            if sender.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    };
    thread::Builder::new()
        .name("test output".to_owned())
        .spawn(read)
        .context("starting a thread that reads the tests' output")?;
    Ok(lines)
}

/// Copies lines as they come, counting on the way.
fn pass_on(
    child: &mut Child,
    lines: &Receiver<Vec<u8>>,
    out: &mut impl Write,
) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    loop {
        match lines.recv_timeout(SILENCE) {
            Ok(line) => {
                out.write_all(&line)
                    .and_then(|()| out.flush())
                    .context("passing on the tests' output")?;
                tally.see(&String::from_utf8_lossy(&line));
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(tally),
            Err(RecvTimeoutError::Timeout) => {
                if child.try_wait().context("asking whether cargo test has ended")?.is_some() {
                    eprintln!("warning: a process that a test left behind holds its output open");
                    return Ok(tally);
                }
            }
        }
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
pub struct Summary {
    n_passed: u64,
    n_failed: u64,
    n_skipped: u64,
}

impl Summary {
    /// Whether nothing failed, neither a test nor the run itself.
    pub fn all_passed(&self) -> bool {
        self.n_failed == 0
    }
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
        output.lines().for_each(|line| tally.see(line));
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
    fn a_run_ends_with_its_program_even_if_something_holds_the_output() {
        let mut child = step::command("bash", &["-c", "echo running 1 test; sleep 10 & exit 0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash is there");
        let output = child.stdout.take().expect("a pipe");
        let lines = read_lines(output).expect("a thread");
        let mut passed_on = Vec::new();
        let tally = pass_on(&mut child, &lines, &mut passed_on).expect("output");
        assert_eq!(passed_on, b"running 1 test\n");
        assert_eq!(tally.n_open, 1);
    }

    #[test]
    fn other_lines_are_not_counted() {
        assert_eq!(summary_of("running late\ntest result: unknown\n", true), "0 passed, 0 failed");
    }
}
