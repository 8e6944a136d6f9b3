//! Standard input and output of a step's processes: the named files, or the streams of `srun`, line
//! by line if there are several processes.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread::JoinHandle;

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::labelled::Labelled;
use gpool_model::file_pattern::{FileNames, has_pattern};
use gpool_sys::awaited;

use crate::plan::Plan;

/// The flags for files and labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StdioOptions {
    pub input: Option<String>,
    pub output: Option<String>,
    pub error: Option<String>,
    /// Whether each line starts with the rank of its process.
    pub label: bool,
    /// Whether output is copied without waiting for whole lines.
    pub unbuffered: bool,
    /// The number of the step, for file names.
    pub step: u32,
    /// `--open-mode=append`: whether files keep their contents.
    pub appends: bool,
}

/// The open files, and the threads that copy lines.
#[derive(Default)]
pub struct Outputs {
    files: BTreeMap<String, File>,
    carriers: Vec<JoinHandle<()>>,
}

/// An output stream of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Output,
    Errors,
}

impl Outputs {
    /// Standard input, output and error of a process.
    pub fn three(
        &mut self,
        options: &StdioOptions,
        plan: &Plan,
        rank: usize,
    ) -> Result<[OwnedFd; 3]> {
        let input = self.input(options, plan, rank)?;
        let output = self.end(options, plan, rank, Which::Output)?;
        let errors = self.end(options, plan, rank, Which::Errors)?;
        Ok([input, output, errors])
    }

    /// Waits until all lines are written.
    pub fn finish(self) {
        self.carriers.into_iter().for_each(|thread| drop(thread.join()));
    }

    fn input(&self, options: &StdioOptions, plan: &Plan, rank: usize) -> Result<OwnedFd> {
        let open = |path: &str| {
            File::open(path).map(OwnedFd::from).map_err(|error| not_opened(path, &error))
        };
        let is_for = match options.input.as_deref() {
            // Only one of several processes can read the input.
            None | Some("all") => rank == 0,
            Some("none") => false,
            Some(number) if number.parse::<usize>().is_ok() => number.parse() == Ok(rank),
            Some(path) => return open(&fill_in(path, plan, rank, options.step)),
        };
        match is_for {
            true => own(io::stdin()),
            false => open("/dev/null"),
        }
    }

    fn end(
        &mut self,
        options: &StdioOptions,
        plan: &Plan,
        rank: usize,
        which: Which,
    ) -> Result<OwnedFd> {
        let named = match which {
            Which::Output => options.output.as_ref(),
            Which::Errors => options.error.as_ref().or(options.output.as_ref()),
        };
        let file = match named.map(String::as_str) {
            None | Some("all") => None,
            Some("none") => Some(self.file("/dev/null", options, false)?),
            Some(number) if number.parse::<usize>().is_ok() => match number.parse() == Ok(rank) {
                true => None,
                false => Some(self.file("/dev/null", options, false)?),
            },
            Some(path) => {
                // The program that submitted the job may still be making the folder.
                let is_awaited = path
                    .rsplit_once('/')
                    .is_some_and(|(folder, _)| has_pattern(folder, &['j', 'J', 'A']));
                Some(self.file(&fill_in(path, plan, rank, options.step), options, is_awaited)?)
            }
        };
        let is_direct = options.unbuffered || file.is_some() || plan.processes.len() == 1;
        if is_direct && !options.label {
            return match (file, which) {
                (Some(file), _) => Ok(file.into()),
                (None, Which::Output) => own(io::stdout()),
                (None, Which::Errors) => own(io::stderr()),
            };
        }
        let (read, write) = io::pipe().map_err(|error| not_opened("a pipe", &error))?;
        let to: Box<dyn Write + Send> = match (file, which) {
            (Some(file), _) => Box::new(file),
            (None, Which::Output) => Box::new(io::stdout()),
            (None, Which::Errors) => Box::new(io::stderr()),
        };
        let width = plan.processes.len().saturating_sub(1).to_string().len();
        let label = match options.label {
            true => format!("{rank:width$}: "),
            false => String::new(),
        };
        self.carriers.push(std::thread::spawn(move || carry(read, Labelled::new(label, to))));
        Ok(write.into())
    }

    /// Opens a file for writing; the first writer truncates it.
    fn file(&mut self, path: &str, options: &StdioOptions, is_awaited: bool) -> Result<File> {
        if let Some(file) = self.files.get(path) {
            return file.try_clone().map_err(|error| not_opened(path, &error));
        }
        let open = || -> io::Result<File> {
            let file = OpenOptions::new().append(true).create(true).open(path)?;
            if !options.appends && file.metadata()?.is_file() {
                file.set_len(0)?;
            }
            Ok(file)
        };
        let opened = if is_awaited { awaited::create(Path::new(path), open) } else { open() };
        let file = opened.map_err(|error| not_opened(path, &error))?;
        let own = file.try_clone().map_err(|error| not_opened(path, &error))?;
        self.files.insert(path.to_owned(), own);
        Ok(file)
    }
}

/// Copies the output of a process by whole lines.
fn carry(mut from: io::PipeReader, mut to: Labelled<Box<dyn Write + Send>>) {
    let mut buffer = vec![0; 32 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(n_read @ 1..) => {
                // Like in any pipe, a process without a reader ends by SIGPIPE.
                if to.write_all(&buffer[..n_read]).and_then(|()| to.flush()).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => return drop(to.finish()),
        }
    }
}

/// A copy of a stream for a process.
fn own(stream: impl std::os::fd::AsFd) -> Result<OwnedFd> {
    let fd = stream.as_fd().try_clone_to_owned();
    fd.map_err(|error| not_opened("a stream", &error))
}

fn not_opened(path: &str, error: &io::Error) -> Failure {
    Failure::new(errors::USAGE, format!("srun: can't open {path}: {error}"))
}

/// Expands Slurm's patterns in a path of a step.
///
/// Source: the manual of srun, "IO Redirection".
fn fill_in(path: &str, plan: &Plan, rank: usize, step: u32) -> String {
    if path.contains('\\') {
        return path.replace('\\', "");
    }
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let host = &plan.hosts[plan.processes[rank].host];
    let (job, array) = (variable("SLURM_JOB_ID"), variable("SLURM_ARRAY_JOB_ID"));
    let names = FileNames {
        job: &job,
        number: if array.is_empty() { &job } else { &array },
        element: variable("SLURM_ARRAY_TASK_ID").parse().unwrap_or(0),
        name: &variable("SLURM_JOB_NAME"),
        user: &variable("USER"),
        node: &host.node,
        rank: u32::try_from(rank).unwrap_or(u32::MAX),
    };
    let node = plan.nodes().iter().position(|node| *node == host.node).unwrap_or(0);
    names.fill(&of_step(path, node, step))
}

/// Expands the patterns that only steps have: `%s`, `%n`, `%J`.
fn of_step(path: &str, node: usize, step: u32) -> String {
    let mut filled = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('%') {
        filled.push_str(before);
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let width = after[..digits].parse::<usize>().unwrap_or(0).min(10);
        let letter = after[digits..].chars().next();
        match letter {
            Some('s') => filled.push_str(&format!("{step:0width$}")),
            Some('n') => filled.push_str(&format!("{node:0width$}")),
            Some('J') => filled.push_str(&format!("%{width}j.{step}")),
            letter => {
                filled.push('%');
                filled.push_str(&after[..digits]);
                filled.extend(letter);
            }
        }
        rest = &after[digits + letter.map_or(0, char::len_utf8)..];
    }
    filled + rest
}
