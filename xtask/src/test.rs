//! `cargo xtask test`: runs every test of the workspace, and prints one line with the totals.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::num::NonZero;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use cargo_metadata::Package;

use crate::{need, step};

/// If cargo has ended, how long to wait for more output before it counts as complete.
const SILENCE: Duration = Duration::from_secs(2);

/// Test targets that mostly wait for processes, timers and disks. They run in parallel with the
/// others, since alone they would leave the processors idle half of the time.
const WAITING: &[&str] = &["e2e"];

/// How many failed tests are run again, alone. More failures than that are no coincidence.
const MOST_REPEATS: usize = 5;

/// Enables failpoints, at which tests kill the program. Each step that compiles the workspace uses
/// the same features, so that nothing is compiled twice.
pub const FEATURES: [&str; 2] = ["--features", "gpool/failpoints"];

/// Runs all tests and returns the totals.
///
/// # Errors
/// If a requirement of the tests is missing, or cargo cannot be started.
pub fn run() -> anyhow::Result<Summary> {
    need::provide()?;
    // The two runs below start at the same time; neither should wait for the other's build.
    if !step::succeeds("build of the tests", all_with(&["--no-run"]))? {
        return Ok(Tally::default().summary(false));
    }
    step::announce("tests");
    let others = other_targets()?;
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let selected: Vec<&str> = WAITING.iter().flat_map(|name| ["--test", name]).collect();
            let mut output = Vec::new();
            run_one(overlapping(all_with(&selected)), &mut output).map(|summary| (summary, output))
        });
        let mut out = io::stdout().lock();
        let selected: Vec<&str> = others.iter().map(String::as_str).collect();
        let others = run_one(politely(&all_with(&selected)), &mut out);
        let documents = run_one(all_with(&["--doc"]), &mut out);
        let (waiting, output) = waiting.join().expect("no run panics")?;
        out.write_all(&output).context("passing on the tests' output")?;
        repeat_failed(waiting.plus(others?).plus(documents?), &mut out)
    })
}

/// Runs the failed tests again, one at a time on a machine without other load. A test that passes
/// then has a race or a deadline that the load broke: the summary names it, but the run passes.
fn repeat_failed(first: Summary, out: &mut impl Write) -> anyhow::Result<Summary> {
    if first.failed_tests.is_empty() || first.failed_tests.len() > MOST_REPEATS {
        return Ok(first);
    }
    step::announce("failed tests, again and alone");
    let mut command = all_with(&["--tests", "--", "--test-threads", "1", "--exact"]);
    command.args(&first.failed_tests);
    Ok(first.after_repeat(&run_one(command, out)?))
}

/// Runs the tests of one package; if there are `filters`, only tests with names that contain one of
/// them.
///
/// # Errors
/// If the package does not exist, or cargo cannot be started.
pub fn run_package(name: &str, filters: &[&str]) -> anyhow::Result<Summary> {
    let metadata = step::metadata()?;
    let is_called = |package: &&Package| {
        let folder = package.manifest_path.parent().and_then(|folder| folder.file_name());
        package.name.as_str() == name || folder == Some(name)
    };
    let package = metadata.packages.iter().find(is_called);
    let package = package.with_context(|| {
        let folders = metadata.packages.iter().filter_map(|it| it.manifest_path.parent());
        let names: Vec<&str> = folders.filter_map(|folder| folder.file_name()).collect();
        format!("there is no package {name:?}; there are {}", names.join(", "))
    })?;
    let mut command = step::cargo(&["test", "--locked", "--no-fail-fast"]);
    command.args(["--package", package.name.as_str()]);
    if package.features.contains_key("failpoints") {
        command.args(["--features", "failpoints"]);
    }
    command.arg("--").args(filters);
    run_one(command, &mut io::stdout().lock())
}

/// `cargo test` for the whole workspace. Selecting packages would change the features of their
/// dependencies and compile those again.
fn all_with(arguments: &[&str]) -> Command {
    let mut command = step::cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]);
    command.args(FEATURES).args(arguments);
    command
}

/// All targets with tests except the waiting ones. They are selected by name: `--lib` and `--bins`
/// would compile each library and binary a second time, although they have no unit tests.
fn other_targets() -> anyhow::Result<Vec<String>> {
    let metadata = step::metadata()?;
    let targets = metadata.packages.iter().flat_map(|package| &package.targets);
    let mut selected = BTreeSet::new();
    for target in targets.filter(|target| target.test) {
        let flag = match target {
            target if target.is_test() => "--test",
            target if target.is_bin() => "--bin",
            target => anyhow::bail!("{} has unit tests; they belong in tests/it", target.name),
        };
        if !WAITING.contains(&target.name.as_str()) {
            selected.insert([flag.to_owned(), target.name.clone()]);
        }
    }
    Ok(selected.into_iter().flatten().collect())
}

/// The same command with more tests at a time than processors, because most of them sleep.
fn overlapping(mut command: Command) -> Command {
    let n_processors = thread::available_parallelism().map_or(2, NonZero::get);
    command.args(["--", "--test-threads", &(2 * n_processors).to_string()]);
    command
}

/// The same command at a lower priority, so that tests with deadlines do not miss them.
fn politely(command: &Command) -> Command {
    let mut polite = step::command("nice", &[]);
    polite.arg(command.get_program()).args(command.get_args());
    polite
}

/// Runs one command to its end and copies its output.
fn run_one(mut command: Command, out: &mut impl Write) -> anyhow::Result<Summary> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("starting cargo test")?;
    let output = child.stdout.take().expect("standard output was asked for as a pipe");
    let tally = pass_on(&mut child, &read_lines(output)?, out)?;
    let status = child.wait().context("waiting for cargo test")?;
    Ok(tally.summary(status.success()))
}

/// Reads lines on a separate thread: a process that a test left behind, and that holds the pipe
/// open, must not keep the run from ending.
fn read_lines(output: impl Read + Send + 'static) -> anyhow::Result<Receiver<Vec<u8>>> {
    let (sender, lines) = mpsc::sync_channel(64);
    let read = move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        // Bytes, since a failing test may print invalid text.
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

/// Copies lines as they come and counts results.
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

/// The counts from the closing lines of the test binaries so far.
#[derive(Debug, Default)]
struct Tally {
    n_passed: u64,
    n_failed: u64,
    n_skipped: u64,
    /// Test binaries that have started and not ended.
    n_open: u64,
    failed_tests: BTreeSet<String>,
    /// The names listed since the last line `failures:`.
    listed_names: Vec<String>,
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
            self.failed_tests.extend(self.listed_names.drain(..));
        } else if line.trim_end() == "failures:" {
            self.listed_names.clear();
        } else if let Some(name) = listed_name(line) {
            self.listed_names.push(name.to_owned());
        }
    }

    /// The totals. A binary without closing line counts as one failure, and so does a run that
    /// failed before any test, for example because the code does not compile.
    fn summary(&self, run_succeeded: bool) -> Summary {
        let n_failed = self.n_failed + self.n_open;
        let n_failed = if run_succeeded { n_failed } else { n_failed.max(1) };
        Summary {
            n_passed: self.n_passed,
            n_failed,
            n_skipped: self.n_skipped,
            failed_tests: self.failed_tests.clone(),
            unstable_tests: BTreeSet::new(),
        }
    }
}

/// Recognises `running 3 tests`.
fn is_opening(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    matches!(words.as_slice(), ["running", count, "test" | "tests"] if count.parse::<u64>().is_ok())
}

/// Recognises `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; …`.
fn closing_counts(line: &str) -> Option<[u64; 3]> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |name: &str| {
        counts.split("; ").find_map(|part| part.strip_suffix(name)?.trim_end().parse().ok())
    };
    Some([count("passed")?, count("failed")?, count("ignored")?])
}

/// Recognises a name in the list of failed tests at the end of a binary's output. Names of
/// documentation tests have spaces.
fn listed_name(line: &str) -> Option<&str> {
    let name = line.trim_end().strip_prefix("    ")?;
    (!name.is_empty() && !name.contains(char::is_whitespace)).then_some(name)
}

/// The totals of a run.
pub struct Summary {
    n_passed: u64,
    n_failed: u64,
    n_skipped: u64,
    /// The names of failed tests, as far as the output lists them.
    failed_tests: BTreeSet<String>,
    /// Tests that failed and passed when they were run again alone.
    unstable_tests: BTreeSet<String>,
}

impl Summary {
    fn plus(mut self, mut other: Self) -> Self {
        self.n_passed += other.n_passed;
        self.n_failed += other.n_failed;
        self.n_skipped += other.n_skipped;
        self.failed_tests.append(&mut other.failed_tests);
        self
    }

    /// The totals of a run after all its `failed_tests` were repeated. If a repeat failed, or none
    /// was found, the failures stay as they are.
    fn after_repeat(mut self, repeat: &Self) -> Self {
        let n_repeats = self.failed_tests.len() as u64;
        if repeat.all_passed() && repeat.n_passed >= n_repeats && self.n_failed == n_repeats {
            self.n_failed = 0;
            self.n_passed += n_repeats;
            self.unstable_tests = std::mem::take(&mut self.failed_tests);
        }
        self
    }

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
        if !self.unstable_tests.is_empty() {
            let names: Vec<&str> = self.unstable_tests.iter().map(String::as_str).collect();
            write!(f, ", {} passed only when repeated: {}", names.len(), names.join(", "))?;
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
    fn a_run_that_could_not_start_is_a_failure() {
        assert_eq!(summary_of("", false), "0 passed, 1 failed");
    }

    #[test]
    fn a_run_ends_with_its_program_even_if_a_process_holds_the_output() {
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
    fn every_test_target_is_in_one_of_the_two_runs() {
        let others = other_targets().expect("the workspace can be read");
        let is_selected = |flag: &str, name: &str| others.windows(2).any(|it| it == [flag, name]);
        assert!(is_selected("--bin", "xtask") && is_selected("--test", "it"), "{others:?}");
        assert!(is_selected("--test", "protocol"), "{others:?}");
        for waiting in WAITING {
            assert!(!others.iter().any(|word| word == waiting), "{others:?}");
        }
        let metadata = step::metadata().expect("the workspace can be read");
        let targets: Vec<_> = metadata.packages.iter().flat_map(|it| &it.targets).collect();
        for waiting in WAITING {
            assert!(targets.iter().any(|it| it.is_test() && it.name == *waiting), "{waiting}");
        }
    }

    #[test]
    fn an_unknown_package_is_refused_with_the_known_names() {
        let refused = run_package("nothing", &[]).err().expect("there is none").to_string();
        assert!(refused.contains("nothing") && refused.contains("xtask"), "{refused}");
    }

    /// The output of a binary after its test `a::b` failed.
    fn failure() -> Summary {
        let output = format!(
            "running 3 tests\n\nfailures:\n\n---- a::b stdout ----\n    indented\n\n\
             failures:\n    a::b\n\n{}",
            BAD.replace("2 failed", "1 failed")
        );
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.see(line));
        tally.summary(false)
    }

    fn passed(n_passed: u64) -> Summary {
        Tally { n_passed, ..Tally::default() }.summary(true)
    }

    #[test]
    fn runs_are_added_up() {
        let mut other = passed(3);
        other.n_skipped = 2;
        assert_eq!(failure().plus(other).to_string(), "4 passed, 1 failed, 2 skipped");
    }

    #[test]
    fn a_failed_test_that_passes_alone_is_named() {
        let first = failure();
        assert_eq!(first.failed_tests, BTreeSet::from(["a::b".to_owned()]));
        let repeated = first.after_repeat(&passed(1));
        assert!(repeated.all_passed());
        let text = "2 passed, 0 failed, 1 passed only when repeated: a::b";
        assert_eq!(repeated.to_string(), text);
    }

    #[test]
    fn a_repeat_excuses_nothing_else() {
        assert_eq!(failure().after_repeat(&failure()).to_string(), "1 passed, 1 failed");
        assert_eq!(failure().after_repeat(&passed(0)).to_string(), "1 passed, 1 failed");
        let died = Tally { n_open: 1, ..Tally::default() }.summary(false);
        assert!(!failure().plus(died).after_repeat(&passed(1)).all_passed());
    }

    #[test]
    fn other_lines_are_not_counted() {
        assert_eq!(summary_of("running late\ntest result: unknown\n", true), "0 passed, 0 failed");
    }
}
