//! Runs every block of ```console in README.md and docs/ and compares its output. The blocks of one
//! document are one session on a cluster of its own.
//!
//! A shell runs each line after `$ `; the lines up to the next are its output on both streams.
//! `[..]` stands for anything within a line, a line `...` for any lines. Times of day, durations
//! and the width of columns may differ. A block that can't be run says `console, not run` and is
//! counted. A block of another language whose first line is a name, `# train.py`, is that file.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Cluster, Running};

/// The most blocks that may be marked as not run.
const NOT_RUN_MAX: usize = 4;

/// The day before a time of day.
const DAYS: [&str; 8] = ["today ", "Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat ", "Sun "];

#[derive(Debug)]
struct Step {
    line: usize,
    command: String,
    expected: Vec<String>,
}

#[test]
fn the_transcripts_of_the_documents_match_the_output() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut n_steps, mut n_not_run, mut wrong) = (0, 0, Vec::new());
    for path in documents(&root) {
        // The port of a service may be taken on this machine.
        let text = std::fs::read_to_string(&path).unwrap().replace("8000", &free_port());
        let (steps, not_run) = read(&text);
        n_not_run += not_run;
        n_steps += steps.len();
        let name = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
        wrong.extend(play(&steps).map(|what| format!("{name}:{what}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(n_steps >= 20, "only {n_steps} commands are shown");
    assert!(n_not_run <= NOT_RUN_MAX, "{n_not_run} blocks are not run");
}

fn free_port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

fn documents(root: &Path) -> Vec<PathBuf> {
    let mut paths = vec![root.join("README.md")];
    for folder in ["docs", "docs/using", "docs/operating", "docs/developing"] {
        let entries = std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        paths.extend(entries.map(|entry| entry.path()));
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    paths
}

fn read(text: &str) -> (Vec<Step>, usize) {
    let (mut steps, mut n_not_run, mut is_inside): (Vec<Step>, _, _) = (Vec::new(), 0, false);
    let mut file: Option<String> = None;
    let mut before = "";
    for (number, line) in (1..).zip(text.lines()) {
        if let (true, Some(name)) = (before.starts_with("```"), file_name(line)) {
            file = Some(format!("cat > {name} <<'END OF FILE'\n"));
        }
        before = line;
        match line {
            "```" if file.is_some() => {
                let command = format!("{}END OF FILE", file.take().unwrap_or_default());
                steps.push(Step { line: number, command, expected: Vec::new() });
            }
            _ if file.is_some() => file.iter_mut().for_each(|file| {
                file.push_str(line);
                file.push('\n');
            }),
            "```console" => is_inside = true,
            _ if line.starts_with("```console") => n_not_run += 1,
            "```" => is_inside = false,
            _ if is_inside => match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => {
                    let command = command.to_owned();
                    steps.push(Step { line: number, command, expected: Vec::new() });
                }
                (None, Some(step)) => step.expected.push(line.trim_end().to_owned()),
                (None, None) => panic!("line {number}: a block begins with a command"),
            },
            _ => {}
        }
    }
    (steps, n_not_run)
}

/// The name of the file that a block is, by its first line.
fn file_name(line: &str) -> Option<&str> {
    let name = line.strip_prefix("# ")?;
    let (stem, extension) = name.rsplit_once('.')?;
    let is_plain = stem.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    (is_plain && ["py", "sh", "yaml", "yml", "jsonl"].contains(&extension)).then_some(name)
}

/// Runs a session; returns the first difference.
fn play(steps: &[Step]) -> Option<String> {
    if steps.is_empty() {
        return None;
    }
    let mut cluster = Cluster::unstarted(&["--devices", "sim:8xH100-80G"]);
    if !steps[0].command.starts_with("gpool up") {
        cluster.up();
    }
    let mut code = 0;
    let mut wrong = None;
    for step in steps {
        // Each command runs in a separate shell, so this one is answered here.
        let (seen, new_code) = match step.command.as_str() {
            "echo $?" => (format!("{code}\n"), 0),
            command => run(&cluster, command),
        };
        code = new_code;
        let seen: Vec<&str> = seen.lines().map(str::trim_end).collect();
        if !fits(&step.expected, &seen) {
            let Step { line, command, expected } = step;
            wrong = Some(format!("{line}: $ {command}\nexpected {expected:#?}\nseen {seen:#?}"));
            break;
        }
    }
    // A server that the session has started is not a child of this process.
    run(&cluster, "gpool down --now");
    wrong
}

fn run(cluster: &Cluster, line: &str) -> (String, i32) {
    let folder = Path::new(env!("CARGO_BIN_EXE_gpool")).parent().unwrap();
    let ours = cluster.command();
    let mut command = Command::new("bash");
    command.env_clear().current_dir(cluster.work());
    command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", folder.display());
    command.env("PATH", path).args(["-c", &format!("{{ {line}\n}} 2>&1")]);
    let ran = Running::start(&mut command, None).end();
    (ran.out, ran.code)
}

/// Whether the output matches the expected lines.
fn fits(expected: &[String], seen: &[&str]) -> bool {
    match (expected.split_first(), seen.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == "..." => {
            (0..=seen.len()).any(|n| fits(rest, &seen[n..]))
        }
        (Some((first, rest)), Some((line, more))) => {
            line_fits(&without_times(first), &without_times(line)) && fits(rest, more)
        }
        _ => false,
    }
}

/// Writes `~` for each time of day, with its day, and each duration, and one space for several.
fn without_times(line: &str) -> String {
    let (mut shown, mut rest) = (String::new(), line);
    while let Some(first) = rest.chars().next() {
        let length = if first == ' ' {
            length_of(rest, |it| it == ' ')
        } else if first.is_ascii_alphanumeric() {
            length_of(rest, |it| it.is_ascii_alphanumeric() || it == ':')
        } else {
            first.len_utf8()
        };
        let (part, after) = rest.split_at(length);
        if is_time(part.trim_end_matches(':')) {
            let day = DAYS.iter().find(|day| shown.ends_with(*day)).map_or(0, |day| day.len());
            shown.truncate(shown.len() - day);
            shown.push('~');
        } else {
            shown.push_str(if first == ' ' { " " } else { part });
        }
        rest = after;
    }
    shown
}

/// Returns the length of the start of `text` that has only such characters.
fn length_of(text: &str, is_such: impl Fn(char) -> bool) -> usize {
    text.find(|it: char| !is_such(it)).unwrap_or(text.len())
}

/// Whether a word is a time of day (`06:07`) or a duration (`3h00`, `192ms`).
fn is_time(word: &str) -> bool {
    let is_number = |part: &str| part.chars().all(|it| it.is_ascii_digit());
    let is_unit = |it: char| matches!(it, 'd' | 'h' | 'm' | 's');
    let is_clock =
        word.contains(':') && word.split(':').all(|part| part.len() == 2 && is_number(part));
    let is_duration = word.starts_with(|it: char| it.is_ascii_digit())
        && word.contains(is_unit)
        && word.chars().all(|it| it.is_ascii_digit() || is_unit(it));
    is_clock || is_duration
}

fn line_fits(expected: &str, seen: &str) -> bool {
    match expected.split_once("[..]") {
        None => expected == seen,
        Some((before, after)) => seen.strip_prefix(before).is_some_and(|rest| {
            let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            ends.into_iter().any(|at| line_fits(after, &rest[at..]))
        }),
    }
}

#[test]
fn lines_are_compared_as_they_are_written() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(fits(&lines("a [..] c\n...\nd"), &["a b c", "x", "y", "d"]));
    assert!(!fits(&lines("a [..] c"), &["a b d"]));
    assert!(!fits(&lines("a"), &["a", "b"]));
    assert!(fits(&lines("at 06:07: for  3h00"), &["at 18:15: for 192ms"]));
    assert!(fits(&lines("start today 06:07–09:07"), &["start 18:15–Tue 02:15"]));
    assert!(!fits(&lines("8 GPUs of lab1:0"), &["8 GPUs of lab1:1"]));
    let (steps, n_not_run) = read("```console\n$ a\nb\n```\n```console, not run\n$ c\n```\n");
    assert_eq!((steps.len(), n_not_run), (1, 1));
}
