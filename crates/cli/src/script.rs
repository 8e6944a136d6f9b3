//! Reads a script to submit, and refuses files that can't run as one. The job keeps this copy:
//! later changes of the file do not affect it.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use gpool_wire::ScriptText;
use gpool_wire::catalogue::{SCRIPT_MISSING, SCRIPT_NOT_RUNNABLE};

use crate::directives;
use crate::failure::{Failure, Result};

/// A script at the time of its submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Its path as written.
    pub path: String,
    pub bytes: Vec<u8>,
}

/// Largest script in bytes; a request is limited to 1 MB.
const SIZE_MAX: u64 = 512 * 1024;

/// Bytes that are checked to tell text from data.
const FIRST_BLOCK: usize = 4096;

impl Script {
    /// Reads a script; `-` is standard input.
    ///
    /// # Errors
    /// The file is missing, not a file, unreadable, too large, not text, empty, or without a `#!`
    /// line.
    pub fn read(path: &str) -> Result<Self> {
        if path == "-" {
            return Self::check(path, contents(path, &mut std::io::stdin().lock())?);
        }
        let metadata = std::fs::metadata(path).map_err(|error| missing(path, &error))?;
        if metadata.is_dir() {
            return Err(Failure::new(
                SCRIPT_MISSING,
                format!("{path} is a directory, not a script"),
            )
            .tip(format!("gpool submit {}", Path::new(path).join("SCRIPT").display())));
        }
        let mut file = File::open(path).map_err(|error| missing(path, &error))?;
        Self::check(path, contents(path, &mut file)?)
    }

    /// The script at the start of a command, if it has directives: then `run` submits it like
    /// `submit`. Any other program runs from its own place, since it may need files beside it.
    ///
    /// # Errors
    /// It has directives, and is no script otherwise.
    pub fn with_directives(program: &str) -> Result<Option<Self>> {
        match directed(program) {
            Some(bytes) => Self::check(program, bytes).map(Some),
            None => Ok(None),
        }
    }

    /// Checks the contents of a script.
    ///
    /// # Errors
    /// They are not text, empty, or without a `#!` line.
    pub fn check(path: &str, bytes: Vec<u8>) -> Result<Self> {
        if bytes.starts_with(b"\x7fELF") {
            return Err(Failure::new(
                SCRIPT_NOT_RUNNABLE,
                format!("{path} is a program, not a script"),
            )
            .tip(format!("gpool submit -- {}", runnable(path))));
        }
        if bytes[..bytes.len().min(FIRST_BLOCK)].contains(&0) {
            return Err(Failure::new(SCRIPT_NOT_RUNNABLE, format!("{path} is not a text file"))
                .why("it has NUL bytes at its start, so it can't be a script")
                .tip("gpool submit -- COMMAND…   (if a command reads this file)"));
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(Failure::new(SCRIPT_NOT_RUNNABLE, format!("{path} is empty"))
                .tip("write a script that starts with #!/bin/bash, or: gpool submit -- COMMAND…"));
        }
        if !bytes.starts_with(b"#!") {
            return Err(no_interpreter(path));
        }
        match dos_line(&bytes) {
            Some(line) => Err(Failure::new(
                SCRIPT_NOT_RUNNABLE,
                format!("{path} has DOS line breaks (CR LF) instead of UNIX ones (LF)"),
            )
            .why(format!("line {line} is the first; the kernel and shells read CR as text"))
            .tip(format!("sed -i 's/\\r$//' {path}"))),
            None => Ok(Self { path: path.to_owned(), bytes }),
        }
    }

    /// The script in the form of a request.
    #[must_use]
    pub fn to_wire(&self) -> ScriptText {
        let name = self.job_name().to_owned();
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => ScriptText { name, text: Some(text.to_owned()), base64: None },
            Err(_) => {
                let base64 = Some(BASE64_STANDARD.encode(&self.bytes));
                ScriptText { name, text: None, base64 }
            }
        }
    }

    /// The default name of its job.
    #[must_use]
    pub fn job_name(&self) -> &str {
        match self.path.as_str() {
            "-" => "stdin",
            path => Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path),
        }
    }
}

/// The first line that ends with CR LF, from 1.
fn dos_line(bytes: &[u8]) -> Option<usize> {
    let at = bytes.windows(2).position(|two| two == b"\r\n")?;
    Some(1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count())
}

/// A warning about a program that is a script with DOS line breaks in its `#!` line. The kernel
/// then looks for an interpreter with CR at the end of its name.
#[must_use]
pub fn dos_interpreter(path: &Path) -> Option<String> {
    let mut start = Vec::new();
    File::open(path).ok()?.take(256).read_to_end(&mut start).ok()?;
    let is_script = start.starts_with(b"#!") && dos_line(&start) == Some(1);
    let shown = path.display();
    is_script.then(|| {
        format!(
            "{shown} has DOS line breaks (CR LF), so its interpreter is not found; sed -i \
             's/\\r$//' {shown} converts them"
        )
    })
}

/// The contents of a script with directives.
fn directed(program: &str) -> Option<Vec<u8>> {
    let path = Path::new(program);
    let is_command = !program.contains('/') && in_path(program);
    if is_command || !path.is_file() || std::fs::metadata(path).ok()?.len() > SIZE_MAX {
        return None;
    }
    let bytes = std::fs::read(path).ok().filter(|bytes| bytes.starts_with(b"#!"))?;
    // The submission reports an invalid line.
    let has_some = directives::find(&bytes).map_or(true, |it| !it.directives.is_empty());
    has_some.then_some(bytes)
}

/// A warning about a script with directives that runs as a command.
#[must_use]
pub fn unread_lines(program: &str) -> Option<String> {
    directed(program)?;
    Some(format!(
        "{program} runs as a command, so gpool ignores its # GPOOL and #SBATCH lines; leave -- \
         out to use them"
    ))
}

/// Whether a folder of `PATH` has a program of this name.
#[must_use]
pub fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn contents(path: &str, from: &mut dyn std::io::Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(SIZE_MAX + 1).read_to_end(&mut bytes).map_err(|error| missing(path, &error))?;
    if bytes.len() as u64 > SIZE_MAX {
        return Err(Failure::new(SCRIPT_NOT_RUNNABLE, format!("{path} is too large for a script"))
            .why(format!("the maximum is {} KiB", SIZE_MAX / 1024))
            .tip(format!("gpool submit -- {}", runnable(path))));
    }
    Ok(bytes)
}

/// Programs that run files, by the ending of the file's name, with their `#!` line.
const INTERPRETERS: &[(&str, &str, &str)] = &[
    ("py", "python", "#!/usr/bin/env python3"),
    ("r", "Rscript", "#!/usr/bin/env Rscript"),
    ("jl", "julia", "#!/usr/bin/env julia"),
    ("pl", "perl", "#!/usr/bin/env perl"),
    ("rb", "ruby", "#!/usr/bin/env ruby"),
    ("lua", "lua", "#!/usr/bin/env lua"),
    ("js", "node", "#!/usr/bin/env node"),
    ("bash", "bash", "#!/bin/bash"),
];

/// The program that runs a file, by the ending of its name.
#[must_use]
pub fn interpreter(path: &str) -> &'static str {
    let end = Path::new(path).extension().and_then(|it| it.to_str()).unwrap_or("");
    let known = INTERPRETERS.iter().find(|(known, ..)| known.eq_ignore_ascii_case(end));
    known.map_or("sh", |(_, program, _)| program)
}

/// Endings of files that a command reads.
const DATA: &[&str] = &["yaml", "yml", "json", "toml", "ini", "cfg", "csv", "txt", "md"];

/// The failure for a file without `#!`: its name tells which program runs or reads it.
fn no_interpreter(path: &str) -> Failure {
    let file = Path::new(path);
    let end = file.extension().and_then(|it| it.to_str()).unwrap_or("").to_ascii_lowercase();
    let stem = file.file_stem().and_then(|it| it.to_str()).unwrap_or("");
    let refused = |what: String| Failure::new(SCRIPT_NOT_RUNNABLE, what);
    match (stem, &*end) {
        ("valohai", "yaml" | "yml") => refused(format!("gpool does not read {path}"))
            .why("it runs a command or a script: submit the command of a step")
            .tip("gpool submit --gpus 1 -- COMMAND   (the command of the step)")
            .tip("gpool help valohai"),
        (_, "jsonl") => refused(format!("{path} is not a script"))
            .why("a file of jobs, one JSON object per line, needs a flag")
            .tip(format!("gpool submit --from-jsonl {path}")),
        (_, "ipynb") => refused(format!("{path} is a notebook, not a script"))
            .tip(format!("gpool submit --gpus 1 -- jupyter execute {path}")),
        (_, end) if DATA.contains(&end) => refused(format!("{path} is not a script"))
            .why("its first line does not start with #!")
            .tip(format!("gpool submit -- COMMAND {path}   (the command that reads it)")),
        (_, end) => {
            let known = INTERPRETERS.iter().find(|(known, ..)| *known == end);
            let (_, program, line) = known.unwrap_or(&("", "sh", "#!/bin/bash"));
            let failure = refused(format!("{path} has no interpreter line"))
                .why("its first line does not start with #!");
            // The name of standard input is no argument of a command.
            let failure = match path {
                "-" => failure,
                path => failure.tip(format!("gpool submit -- {program} {path}")),
            };
            failure.tip(format!("add {line} as its first line"))
        }
    }
}

fn missing(path: &str, error: &std::io::Error) -> Failure {
    if error.kind() != std::io::ErrorKind::NotFound {
        return Failure::new(SCRIPT_MISSING, format!("can't read the script {path}: {error}"));
    }
    let failure = Failure::new(SCRIPT_MISSING, format!("there is no script {path}"));
    if path.contains('/') {
        return failure;
    }
    failure
        .why("without --, the first word is the name of a script file")
        .tip(format!("gpool submit -- {path} …   (if it is a command)"))
}

fn runnable(path: &str) -> String {
    if path.contains('/') { path.to_owned() } else { format!("./{path}") }
}
