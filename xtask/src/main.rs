//! Developer commands, run as `cargo xtask …` from anywhere in the repository: the tests, the
//! checks, and both as in continuous integration. None of this is shipped.

mod check;
mod clients;
mod compare;
mod document;
mod fuzz;
mod kill;
mod layering;
mod markers;
mod names;
mod need;
mod package;
mod prose;
mod shape;
mod sim;
mod step;
mod test;
mod tidy;
mod wheel;

use std::process::ExitCode;

/// Printed by `help`, and with an error for an unknown command.
const USAGE: &str = "\
usage: cargo xtask <command>

  test    Install the tools that the tests need, and run all tests;
          `test NAME [FILTER]…` runs those of one crate with the installed tools
  check   Check format, lints, documentation, layering, shape, names, prose,
          tidiness and dependencies
  ci      Run check, fuzz and test: required before a change is merged
  compare Compare the speed and memory of this tree with those of a commit
          [COMMIT] [--only NAME,…] [--same]
  sim     Simulate with faults; `cargo xtask sim --help` lists its options
  clients Run large public clients of Slurm, each in a virtual environment
          [NAME]…
  kill    Kill the real binary with kill -9 under load
          [--rounds N] [--seed N] [--release]
  fuzz    Fuzz every parser of user input
          [--seconds N] [--until-quiet] [--seed N] [TARGET]…
  package Build a Debian package, and an image of the server, in target/packages
          [--binary FILE] [--version VERSION] [--out FOLDER]
  wheel   Build the wheel for Python: the program and the client
  help    Print this help
";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if std::env::var_os(fuzz::AS_COMPILER).is_some() {
        return fuzz::compile(&arguments).unwrap_or_else(|error| failure(&error));
    }
    let arguments: Vec<_> =
        arguments.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["test"] => summed_up(test::run()),
        ["test", name, filters @ ..] => summed_up(test::run_package(name, filters)),
        ["check"] => check().map(|failed| failed.is_empty()),
        ["ci"] => ci(),
        ["clients", names @ ..] => clients::run(names),
        ["compare", rest @ ..] => compare::run(rest),
        ["sim", rest @ ..] => sim::run(rest),
        ["kill", rest @ ..] => kill::run(rest),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["package", rest @ ..] => package::run(rest),
        ["wheel"] => wheel::run(),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(true)
        }
        [] => return usage_error("no command was given"),
        [word] => return usage_error(&format!("unknown command {word:?}")),
        [word, ..] => return usage_error(&format!("{word} takes no arguments, or is no command")),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => failure(&error),
    }
}

fn failure(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}

/// Prints the summary of the tests; returns whether all passed.
fn summed_up(summary: anyhow::Result<test::Summary>) -> anyhow::Result<bool> {
    let summary = summary?;
    println!("\n{summary}");
    Ok(summary.all_passed())
}

/// Runs all checks and prints the names of the failed ones last.
fn check() -> anyhow::Result<Vec<&'static str>> {
    let failed = check::run()?;
    step::announce("checks");
    say_failed(&failed);
    Ok(failed)
}

/// Runs the checks, the fuzzers and the tests. The tests run even if a check fails, so that one run
/// shows all faults. They run last, so that their summary is the last line.
fn ci() -> anyhow::Result<bool> {
    let mut failed = check()?;
    // Always with the same inputs, so that a failure is due to the change. `fuzz` tries others.
    if !fuzz::run(&["--seed", "1", "--seconds", "30", "--until-quiet"]).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        false
    }) {
        failed.push("fuzz");
    }
    let summary = test::run()?;
    say_failed(&failed);
    println!("\n{summary}");
    Ok(failed.is_empty() && summary.all_passed())
}

fn say_failed(checks: &[&str]) {
    if checks.is_empty() {
        eprintln!("all checks passed");
    } else {
        eprintln!("checks failed: {}", checks.join(", "));
    }
}

fn usage_error(what: &str) -> ExitCode {
    eprintln!("error: {what}\n\n{USAGE}");
    ExitCode::from(2)
}
