//! `cargo xtask fuzz`: runs a coverage-guided fuzzer on every parser of user input, for a while
//! each. It needs only a C++ compiler: the Rust compiler's own passes count the reached code, and
//! `libfuzzer-sys` brings the fuzzer. A nightly compiler would add the address sanitizer, which
//! finds little in code without `unsafe`. Only this workspace is instrumented: the fuzzer looks for
//! faults in its parsers, and the tests share the build of the dependencies.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use anyhow::{Context, bail};

use crate::test::FEATURES;
use crate::{need, step};

const PACKAGE: &str = "gpool-fuzz";

/// The default time of each target.
const SECONDS: u32 = 60;

/// Most seconds for one input.
const PATIENCE: u32 = 20;

/// Most megabytes of one target.
const MEMORY: u32 = 2048;

/// Bytes of the longest input: enough for two of every element.
const INPUT_MAX: u32 = 4096;

/// If this variable is set, cargo has started this program in place of the compiler.
pub const AS_COMPILER: &str = "XTASK_AS_COMPILER";

/// The flags of `cargo fuzz`, as far as a stable compiler supports them.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Builds the targets and runs them, one for each processor at a time.
///
/// # Errors
/// If an argument is unknown, a build requirement is missing, or a file can't be written.
pub fn run(arguments: &[&str]) -> anyhow::Result<bool> {
    let known = targets()?;
    let FuzzArguments { seconds, until_quiet, seed, targets } = parse_arguments(arguments, &known)?;
    need::provide()?;
    if !need::on_path("c++") {
        bail!("the fuzzer's runtime needs a C++ compiler\n  try  apt-get install g++");
    }
    let Some(programs) = build()? else { return Ok(false) };
    step::announce(&format!("{} fuzz targets, {seconds} seconds each", targets.len()));
    println!("{}", FuzzStats::HEAD);
    let n_at_once = thread::available_parallelism().map_or(1, usize::from);
    let left = Mutex::new(targets.into_iter());
    let next = || left.lock().ok().and_then(|mut left| left.next());
    let work = || -> anyhow::Result<bool> {
        let mut is_clean = true;
        while let Some(target) = next() {
            let program = programs.get(&target).with_context(|| format!("{target} was built"))?;
            is_clean &= match until_quiet {
                true => fuzz_until_quiet(&target, program, seconds, seed)?,
                false => fuzz(&target, program, seconds, seed)?.0,
            };
        }
        Ok(is_clean)
    };
    let results: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..n_at_once).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("no worker panics")).collect()
    });
    results.into_iter().try_fold(true, |is_clean, result| Ok(is_clean & result?))
}

/// The names of all targets.
fn targets() -> anyhow::Result<Vec<String>> {
    let metadata = step::metadata()?;
    let package = metadata.packages.iter().find(|package| package.name.as_str() == PACKAGE);
    let package = package.with_context(|| format!("there is no package {PACKAGE}"))?;
    let programs = package.targets.iter().filter(|target| target.is_bin());
    Ok(programs.map(|target| target.name.clone()).collect())
}

/// The parsed arguments.
#[derive(Debug, PartialEq, Eq)]
struct FuzzArguments {
    seconds: u32,
    /// Whether a target that still reaches new code gets more time.
    until_quiet: bool,
    /// The seed, for the same inputs in the same order; `None` is random.
    seed: Option<u32>,
    targets: Vec<String>,
}

/// Parses the arguments.
fn parse_arguments(arguments: &[&str], known: &[String]) -> anyhow::Result<FuzzArguments> {
    let (mut seconds, mut until_quiet, mut seed) = (SECONDS, false, None);
    let mut targets = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if *word == "--seconds" {
            let number = words.next().and_then(|text| text.parse().ok()).filter(|n| *n > 0);
            seconds = number.context("--seconds needs a number of at least 1")?;
        } else if *word == "--until-quiet" {
            until_quiet = true;
        } else if *word == "--seed" {
            let number = words.next().and_then(|text| text.parse().ok()).filter(|n| *n > 0);
            seed = Some(number.context("--seed needs a number of at least 1")?);
        } else if known.iter().any(|target| target == word) {
            targets.push((*word).to_owned());
        } else {
            bail!("there is no fuzz target {word:?}; there are {}", known.join(", "));
        }
    }
    if targets.is_empty() {
        targets = known.to_vec();
    }
    Ok(FuzzArguments { seconds, until_quiet, seed, targets })
}

/// Builds all targets; `None` if that fails. The packages and features are those of the tests, so
/// that both use the same dependencies.
fn build() -> anyhow::Result<Option<BTreeMap<String, PathBuf>>> {
    let targets = targets()?;
    let mut command = step::cargo(&["build", "--locked", "--workspace"]);
    command.args(FEATURES).args(["--features", "gpool-fuzz/fuzzer"]);
    command.args(targets.iter().flat_map(|target| ["--bin", target]));
    let this = std::env::current_exe().context("finding this program")?;
    command.env("RUSTC_WORKSPACE_WRAPPER", this).env(AS_COMPILER, "1");
    if !step::succeeds("build of the fuzz targets", command)? {
        return Ok(None);
    }
    let programs = step::metadata()?.target_directory.into_std_path_buf().join("debug");
    Ok(Some(targets.into_iter().map(|name| (name.clone(), programs.join(name))).collect()))
}

/// Runs the compiler, the first of the words, with the rest. If it compiles a crate, the fuzzer's
/// flags are added. Cargo has no setting that adds flags to the crates of a workspace only.
///
/// # Errors
/// If the compiler cannot be started.
pub fn compile(words: &[OsString]) -> anyhow::Result<ExitCode> {
    let (compiler, rest) = words.split_first().context("no compiler was given")?;
    let mut command = Command::new(compiler);
    command.args(rest);
    if is_fuzzed(rest) {
        command.args(FLAGS);
    }
    let status = command.status().with_context(|| format!("starting {}", compiler.display()))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns whether the arguments of a compiler are for a crate that runs within a fuzzer. Build
/// scripts and macros run in processes without one.
fn is_fuzzed(arguments: &[OsString]) -> bool {
    let value = |flag: &str| arguments.iter().skip_while(|word| *word != flag).nth(1);
    value("--crate-name").is_some_and(|name| name != "build_script_build")
        && value("--crate-type").is_none_or(|kind| kind != "proc-macro")
}

/// The folder for all files of this command: programs, inputs, logs.
fn folder() -> PathBuf {
    step::root().join("target/fuzz")
}

/// Runs one target in rounds of half the time, until a round reaches no new code, for at most twice
/// the time. Returns whether it found nothing. Each round starts with the inputs of the last one.
fn fuzz_until_quiet(
    target: &str,
    program: &Path,
    seconds: u32,
    seed: Option<u32>,
) -> anyhow::Result<bool> {
    let mut before = None;
    for n_halves in 1..=4 {
        let (is_clean, edges) = fuzz(target, program, seconds.div_ceil(2), seed)?;
        if !is_clean {
            return Ok(false);
        }
        if n_halves > 1 && before.as_ref() == Some(&edges) {
            break;
        }
        before = Some(edges);
    }
    Ok(true)
}

/// Runs one target and prints its row. Returns whether it found nothing, and how much code it
/// reached.
fn fuzz(
    target: &str,
    program: &Path,
    seconds: u32,
    seed: Option<u32>,
) -> anyhow::Result<(bool, String)> {
    let folder = folder();
    let found = folder.join("found").join(target);
    let inputs = folder.join("corpus").join(target);
    for folder in [&found, &inputs] {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    let log = folder.join(format!("{target}.log"));
    let file = File::create(&log).with_context(|| format!("making {}", log.display()))?;
    let began = Instant::now();
    let status = command(target, program, (seconds, seed), &found, &inputs)
        .stdout(file.try_clone().context("sharing the log")?)
        .stderr(file)
        .status()
        .with_context(|| format!("starting {}", program.display()))?;
    let said = fs::read(&log).with_context(|| format!("reading {}", log.display()))?;
    let said = String::from_utf8_lossy(&said);
    let row = FuzzStats::read(&said);
    println!("{}", row.line(target, began.elapsed().as_secs(), status.success()));
    if !status.success() {
        println!("{}", report(target, &said, &log));
    }
    Ok((status.success(), row.edges))
}

/// The folder for files that targets make: in memory if possible, since each input may make one.
fn scratch() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() }
}

/// The fuzzer's command line. New inputs go to a separate folder, since the inputs in the
/// repository are selected by hand.
fn command(
    target: &str,
    program: &Path,
    (seconds, seed): (u32, Option<u32>),
    found: &Path,
    inputs: &Path,
) -> Command {
    let mut command = step::command(program, &["-print_final_stats=1", "-reload=0"]);
    command.env("TMPDIR", scratch()).env("RUST_BACKTRACE", "0");
    command.arg(format!("-max_total_time={seconds}"));
    command.args(seed.map(|seed| format!("-seed={seed}")));
    command.arg(format!("-timeout={PATIENCE}"));
    command.arg(format!("-rss_limit_mb={MEMORY}"));
    command.arg(format!("-max_len={INPUT_MAX}"));
    command.arg(format!("-artifact_prefix={}/", found.display()));
    let sources = step::root().join("fuzz");
    let words = sources.join("dictionaries").join(target);
    if words.exists() {
        command.arg(format!("-dict={}", words.display()));
    }
    command.arg(inputs);
    for place in ["corpus", "regressions"] {
        let kept = sources.join(place).join(target);
        if kept.exists() {
            command.arg(kept);
        }
    }
    command
}

/// The fault, and how to reproduce it.
fn report(target: &str, said: &str, log: &Path) -> String {
    let is_told = |line: &&str| line.contains("panicked at") || line.starts_with("==");
    let first = said.lines().position(|line| is_told(&line)).unwrap_or(0);
    let what = said.lines().skip(first).take(5).map(|line| format!("    {line}\n"));
    let mut text: String = what.collect();
    text.push_str(&format!("    …  all of it: {}\n", log.display()));
    let written = said.lines().find_map(|line| line.split_once("Test unit written to "));
    if let Some((_, input)) = written {
        let again = format!("cargo run --package {PACKAGE} --bin {target} -- {input}");
        text.push_str(&format!("  again: {again}\n"));
        text.push_str(&format!("  keep:  cp {input} fuzz/regressions/{target}/\n"));
    }
    text
}

/// The results of a run, from the fuzzer's output.
#[derive(Debug, Default, PartialEq, Eq)]
struct FuzzStats {
    n_runs: String,
    per_second: String,
    edges: String,
    inputs: String,
}

impl FuzzStats {
    const HEAD: &str = "target           runs   runs/s    edges   inputs  seconds  found";

    fn read(said: &str) -> Self {
        let stat = |name: &str| {
            let of = |line: &str| line.strip_prefix(name).map(|rest| rest.trim().to_owned());
            said.lines().rev().find_map(of).unwrap_or_else(|| "-".to_owned())
        };
        // #4096  REDUCE cov: 312 ft: 900 corp: 77/1234b lim: 43 …
        let word = |name: &str| {
            let mut lines = said.lines().rev().filter(|line| line.starts_with('#'));
            let rest = lines.find_map(|line| line.split_once(name).map(|(_, rest)| rest));
            let word = rest.and_then(|rest| rest.split([' ', '/']).next());
            word.unwrap_or("-").to_owned()
        };
        Self {
            n_runs: stat("stat::number_of_executed_units:"),
            per_second: stat("stat::average_exec_per_sec:"),
            edges: word(" cov: "),
            inputs: word(" corp: "),
        }
    }

    fn line(&self, target: &str, seconds: u64, is_clean: bool) -> String {
        let Self { n_runs, per_second, edges, inputs } = self;
        let found = if is_clean { "nothing" } else { "CRASH" };
        format!(
            "{target:<10} {n_runs:>10} {per_second:>8} {edges:>8} {inputs:>8} {seconds:>8}  {found}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_found_and_unknown_ones_refused() {
        let known = targets().expect("the workspace can be read");
        assert!(known.iter().any(|target| target == "job"), "{known:?}");
        let all = FuzzArguments {
            seconds: SECONDS,
            until_quiet: false,
            seed: None,
            targets: known.clone(),
        };
        assert_eq!(parse_arguments(&[], &known).ok(), Some(all));
        let some = parse_arguments(&["--seconds", "5", "job"], &known).ok();
        let of_job = |seconds, until_quiet, seed| FuzzArguments {
            seconds,
            until_quiet,
            seed,
            targets: vec!["job".to_owned()],
        };
        assert_eq!(some, Some(of_job(5, false, None)));
        let same = parse_arguments(&["job", "--seed", "7"], &known).ok();
        assert_eq!(same, Some(of_job(SECONDS, false, Some(7))));
        let quiet = parse_arguments(&["--until-quiet", "job"], &known).ok();
        assert_eq!(quiet, Some(of_job(SECONDS, true, None)));
        for wrong in [&["--seconds"][..], &["--seconds", "0"], &["--seed", "x"], &["nothing"]] {
            assert!(parse_arguments(wrong, &known).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn build_scripts_and_macros_are_not_fuzzed() {
        let is_fuzzed =
            |line: &str| is_fuzzed(&line.split(' ').map(Into::into).collect::<Vec<_>>());
        assert!(is_fuzzed("--crate-name gpool_wire src/lib.rs --crate-type lib"));
        assert!(!is_fuzzed("--crate-name off src/lib.rs --crate-type proc-macro"));
        assert!(!is_fuzzed("--crate-name build_script_build build.rs --crate-type bin"));
        assert!(!is_fuzzed("-vV"));
    }

    #[test]
    fn a_row_shows_the_fuzzers_last_figures() {
        let said = "#2\tINITED cov: 8 ft: 8 corp: 1/1b exec/s: 0 rss: 27Mb\n\
                    #79\tREDUCE cov: 11 ft: 12 corp: 4/51b lim: 778 exec/s: 0 rss: 27Mb\n\
                    Done 90 runs in 2 second(s)\n\
                    stat::number_of_executed_units: 90\nstat::average_exec_per_sec:     45\n";
        let row = FuzzStats::read(said);
        let line = "job                90       45       11        4        2  nothing";
        assert_eq!(row.line("job", 2, true), line);
        assert_eq!(FuzzStats::read("killed").line("job", 2, false).matches(" -").count(), 4);
    }

    #[test]
    fn a_crash_is_reported_with_the_command_that_reproduces_it() {
        let said = "INFO: Seed: 1\nthread '<unnamed>' panicked at a.rs:1:1:\nno way\n\
                    Test unit written to /x/found/job/crash-1\n";
        let text = report("job", said, Path::new("/x/job.log"));
        assert!(text.starts_with("    thread '<unnamed>' panicked at a.rs:1:1:\n    no way\n"));
        assert!(
            text.contains("--package gpool-fuzz --bin job -- /x/found/job/crash-1\n"),
            "{text}"
        );
        assert!(text.contains("cp /x/found/job/crash-1 fuzz/regressions/job/\n"));
    }
}
