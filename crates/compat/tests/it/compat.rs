//! Checks that `docs/using/compat.md` matches the tables of flags.

use std::fmt::Write as _;
use std::path::Path;

use gpool_cli::foreign::flag::{Spoken, Takes};
use gpool_compat::SHIMS;
use gpool_compat::shim::Family;

const HEAD: &str = "# Compatibility with Slurm and gflow

`gpool install-shims --slurm --gflow FOLDER` makes the commands of Slurm and gflow as links to
gpool. This page lists each of their flags, then the [public clients](#public-clients-of-slurm) of
Slurm that tests run, and at its end every example of gflow's documentation.
See `gpool help slurm` and `gpool help gflow` for how to use the commands.
The page on [Slurm scripts](slurm-scripts.md) lists 34 public batch scripts and how they run here.

- **covered**: does the same here
- **approximated**: does something near to it
- **ignored**: does nothing; a warning names it once, and `--strict` refuses it
- **use instead**: is refused, and the message names what to use

A flag that is not listed is refused with exit code 2, and the message names the nearest one.

Both commands and this page read the same tables, and
`GPOOL_BLESS=1 cargo test -p gpool --test it compat` writes the page anew.
";

fn document() -> String {
    let mut text = HEAD.to_owned();
    for (family, name) in [(Family::Slurm, "Slurm"), (Family::Gflow, "gflow")] {
        let _ = write!(text, "\n## {name}\n");
        for shim in SHIMS.iter().filter(|shim| shim.family == family) {
            for spoken in shim.spoken {
                section(&mut text, spoken);
            }
        }
    }
    text.push_str(CLIENTS);
    for [name, packages, when, runs, result] in clients() {
        let when = if when == "test" { "each test run" } else { "`cargo xtask clients`" };
        let versions = versions(&packages);
        let _ = writeln!(text, "| {name} | {versions} | {runs} | {when} | {result} |");
    }
    text.push_str(EXAMPLES);
    for (line, becomes, shown) in examples() {
        let line = PLACEHOLDERS.iter().fold(line, |line, word| line.replace(word, "JOB"));
        let line = line.replace("<me>", "alice");
        let way_out = if becomes == "refused" { format!(": {shown}") } else { String::new() };
        text.push_str(&wrapped(&format!("- `{line}` {becomes}{way_out}")));
    }
    text
}

const CLIENTS: &str = "
## Public clients of Slurm

Programs that call Slurm's commands. Tests run them with the commands of gpool.

| client | version | what runs | when | result |
| --- | --- | --- | --- | --- |
";

/// The clients: name, packages, when they run, what runs, and the result.
fn clients() -> Vec<[String; 5]> {
    let table = include_str!("../../../gpool/tests/clients/clients.tsv");
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    let cells = |row: &str| row.split('\t').map(str::to_owned).collect::<Vec<_>>();
    rows.map(|row| cells(row).try_into().unwrap_or_else(|row| panic!("{row:?}"))).collect()
}

/// Packages with their versions, which the table or the list of pins has: `submitit 1.5.4`.
fn versions(packages: &str) -> String {
    let pins = include_str!("../../../gpool/tests/clients/requirements.txt");
    let version = |package: &str| {
        let name = package.to_lowercase().replace('_', "-");
        let pin = pins.lines().find_map(|line| line.strip_prefix(&format!("{name}==")));
        pin.map(|pin| format!("{package} {}", pin.trim_end_matches(" \\")))
    };
    let one = |package: &str| match package.split_once("==") {
        Some((name, version)) => format!("{name} {version}"),
        None => version(package).unwrap_or_else(|| package.to_owned()),
    };
    let all: Vec<String> = packages.split(", ").map(one).collect();
    assert!(all.iter().all(|it| it.contains(' ')), "{packages} has no version");
    all.join(", ")
}

const EXAMPLES: &str = "
## Examples of gflow's documentation

A test runs each of these examples and checks its outcome. `JOB` stands for the ID of a job in the
state that the example is about. The message of a refused line names what to use instead.

";

/// The placeholders for jobs in the table of examples.
const PLACEHOLDERS: [&str; 5] = ["<done>", "<failed>", "<waiting>", "<held>", "<array>"];

/// The examples: command, whether it runs or is refused, and a part of its output.
fn examples() -> Vec<(String, String, String)> {
    let table = include_str!("../../../gpool/tests/examples/gflow.tsv");
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut cells = line.split('\t').map(str::to_owned);
            let mut cell = || cells.next().unwrap_or_default();
            (cell(), cell(), cell())
        })
        .collect()
}

fn section(text: &mut String, spoken: &Spoken) {
    let also = match spoken.name {
        "sbatch" => ", and `#SBATCH` lines",
        "gbatch" => ", and `# GFLOW` lines",
        _ => "",
    };
    let _ = write!(text, "\n### `{}`{also}\n\n{}.\n", spoken.name, spoken.about);
    let mut rows: Vec<_> = spoken.rows().collect();
    rows.sort_by_key(|flag| flag.long.to_ascii_lowercase());
    if !rows.is_empty() {
        text.push('\n');
    }
    for flag in rows {
        let mut name = format!("`--{}`", flag.long);
        for also in flag.also {
            let _ = write!(name, " `--{also}`");
        }
        if flag.short != '\0' {
            let _ = write!(name, " `-{}`", flag.short);
        }
        let line = format!("- {name} {}: {}", flag.standing.as_str(), flag.note);
        text.push_str(&wrapped(&line));
    }
}

/// Wraps at 100 columns and indents the following lines.
fn wrapped(line: &str) -> String {
    let mut text = String::new();
    let mut width = 0;
    for word in line.split(' ') {
        let n = word.chars().count();
        if width > 0 && width + 1 + n > 100 {
            text.push_str("\n ");
            width = 1;
        }
        if width > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += n;
    }
    text.push('\n');
    text
}

#[test]
fn the_document_is_what_the_tables_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/using/compat.md");
    let text = document();
    if std::env::var_os("GPOOL_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == text, "docs/using/compat.md differs; GPOOL_BLESS=1 writes it anew");
}

#[test]
fn no_flag_stands_twice_and_each_says_what_becomes_of_it() {
    for spoken in SHIMS.iter().flat_map(|shim| shim.spoken) {
        let mut names = std::collections::BTreeSet::new();
        for flag in spoken.rows() {
            assert!(!flag.note.is_empty(), "{} --{}", spoken.name, flag.long);
            let short = (flag.short != '\0').then(|| format!("-{}", flag.short));
            let all = std::iter::once(flag.long.to_owned());
            let all = all.chain(flag.also.iter().map(|also| (*also).to_owned())).chain(short);
            for name in all {
                assert!(names.insert(name.clone()), "{}: {name} twice", spoken.name);
            }
        }
        let help = spoken.read(&["--help".to_owned()]);
        assert!(help.is_ok(), "{}: {help:?}", spoken.name);
        // Each single flag is accepted, or refused with an alternative.
        for flag in spoken.rows() {
            let word = match flag.takes {
                Takes::Value => format!("--{}=1", flag.long),
                Takes::Nothing | Takes::Maybe => format!("--{}", flag.long),
            };
            if let Err(failure) = spoken.read(&[word]) {
                assert!(failure.text(false).contains(flag.note), "{}", failure.text(false));
            }
        }
    }
}
