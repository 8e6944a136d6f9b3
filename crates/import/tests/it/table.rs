//! Each file of `files/` has the commands and notes, or the error, of the file beside it.
//! `GPOOL_BLESS=1` writes these.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpool_cli::args::job_flags::JobFlags;
use gpool_import::{Import, Surroundings};

/// The variables of the caller.
pub fn variable(name: &str) -> Option<String> {
    match name {
        "USER_NAME" => Some("ana".to_owned()),
        "HOME" => Some("/home/ana".to_owned()),
        "LONG" => Some("x".repeat(1000)),
        _ => None,
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/files")
}

/// The files with their names.
pub fn samples() -> Vec<(String, String)> {
    let mut samples = Vec::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "yaml") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            samples.push((name, fs::read_to_string(path).unwrap()));
        }
    }
    samples.sort();
    samples
}

fn read(text: &str) -> Result<Import, gpool_import::YamlError> {
    let surroundings = Surroundings { folder: "/home/ana/project", variable: &variable };
    Import::read(text, &surroundings)
}

#[test]
fn each_file_has_its_commands_or_its_error() {
    let mut wrong = Vec::new();
    for (name, text) in samples() {
        let shown = match read(&text) {
            Ok(import) => import.shell_script(&format!("{name}.yaml")),
            Err(error) => format!("error: {error}\n"),
        };
        let path = folder().join(format!("{name}.txt"));
        if std::env::var_os("GPOOL_BLESS").is_some() {
            fs::write(&path, &shown).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        if expected != shown {
            wrong.push(format!("{name}:\n{shown}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each key of a file is taken or has a note: a key that no tool has gets one, wherever it is.
#[test]
fn no_key_is_dropped() {
    let nested = ["dstack-image", "sky-train", "kai-pod", "kai-job", "compose-train"];
    let mut n_places = 0;
    for (name, text) in samples().into_iter().filter(|it| nested.contains(&it.0.as_str())) {
        let lines: Vec<&str> = text.lines().collect();
        for ix in 0..lines.len() {
            let line = lines[ix];
            let indent = line.len() - line.trim_start().len();
            // Maps of names, and texts, have no keys of their own.
            let is_key = line.trim_start().split(':').next().is_some_and(|key| {
                !key.is_empty() && key.chars().all(|c| c.is_ascii_alphabetic() || c == '_')
            });
            let is_in = |place: &str| {
                let above = lines[..=ix].iter().rev();
                let mut outer = above.filter(|it| it.len() - it.trim_start().len() < indent);
                outer.next().is_some_and(|it| it.trim_start().starts_with(place))
            };
            let free =
                ["envs", "secrets", "file_mounts", "setup", "run", "labels", "x-common", "report"];
            if !is_key
                || line.contains("envoy")
                || free.iter().any(|place| is_in(place))
                || is_in("services")
            {
                continue;
            }
            let added = format!("{}zzz: 1", " ".repeat(indent));
            let mut all = lines.clone();
            all.insert(ix, &added);
            let Ok(import) = read(&all.join("\n")) else { continue };
            n_places += 1;
            let is_noted = import.notes.iter().any(|note| note.key.ends_with("zzz"));
            assert!(is_noted, "{name}, line {}: zzz has no note", ix + 1);
        }
    }
    assert!(n_places > 60, "{n_places}");
}

/// The words of each command, as a shell reads the printed text, are those that are submitted, and
/// `gpool submit` accepts them.
#[test]
fn printed_commands_are_the_submitted_ones() {
    let mut n_jobs = 0;
    for (name, text) in samples() {
        let Ok(import) = read(&text) else { continue };
        let printed = import.shell_script(&name);
        let shell = "gpool() { printf '%s\\0' \"$@\" >&2; printf '\\1' >&2; echo 7; }\n";
        let script = format!("{shell}{printed}");
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let read_words = String::from_utf8(output.stderr).unwrap();
        let commands: Vec<Vec<&str>> = read_words
            .split_terminator('\u{1}')
            .map(|command| command.split_terminator('\0').collect())
            .collect();
        assert_eq!(commands.len(), import.jobs.len(), "{name}: {read_words:?}");
        for (job, found) in import.jobs.iter().zip(&commands) {
            n_jobs += 1;
            let mut words = job.words();
            words.extend(job.after.iter().map(|on| format!("--after={}:7", on.kind)));
            let flags = JobFlags::read(&words).unwrap_or_else(|error| panic!("{name}: {error:?}"));
            assert_eq!(flags.request.0.name.as_deref(), Some(job.name.as_str()), "{name}");
            let mut create = flags.request.0;
            create.command.clone_from(&job.command);
            if create.upload.is_none() {
                let checked = create.check("/");
                assert!(checked.is_ok(), "{name}: {checked:?}");
            }
            let submit = ["submit", "--parsable"].into_iter();
            let found: Vec<&str> = found
                .iter()
                .copied()
                .skip_while(|word| submit.clone().any(|it| it == *word))
                .collect();
            let mut expected: Vec<&str> = words.iter().map(String::as_str).collect();
            expected.push("--");
            expected.extend(job.command.iter().map(String::as_str));
            assert_eq!(found, expected, "{name}");
        }
    }
    assert!(n_jobs > 25, "{n_jobs}");
}
