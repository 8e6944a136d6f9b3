//! The options of a step from the command line of `srun`.

use std::time::Duration;

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::{ParsedArgs, PassedFlag};
use gpool_cli::foreign::slurm::shape::GPUS_PER_PROCESS;
use gpool_cli::foreign::slurm::values;

use crate::gpus::GpuRequest as Gpus;
use crate::output::StdioOptions as Output;
use crate::plan::LayoutRequest;
use crate::watch::EndConditions;

#[derive(Debug, Clone)]
pub struct StepOptions {
    pub layout: LayoutRequest,
    /// The files of standard input, output and error.
    pub output: Output,
    pub gpus: Gpus,
    /// When the step ends early.
    pub limits: EndConditions,
    /// Whether it may share resources with other steps.
    pub overlap: bool,
    /// Whether MPI programs find their processes by PMI-1.
    pub has_pmi: bool,
    /// Whether it runs on its own terminal.
    pub pty: bool,
    /// Cores of each process: set in the environment, not enforced.
    pub cpus: Option<u64>,
    pub directory: String,
    export: Option<Vec<String>>,
}

impl StepOptions {
    /// Reads the flags.
    pub fn read(args: &ParsedArgs) -> Result<Self> {
        let last = |long: &str| args.flags.iter().rev().find(|given| given.flag.long == long);
        let number = |long: &str| last(long).map(small).transpose();
        let text = |long: &str| args.value(long).map(str::to_owned);
        let nodes = last("nodes").map(values::range).transpose()?.map(|(least, _)| least);
        let names = |long| args.list(long).map(str::to_owned).collect();
        let mut options = Self {
            layout: LayoutRequest {
                n: number("ntasks")?,
                nodes: nodes.map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
                per_node: number("ntasks-per-node")?,
                only: names("nodelist"),
                not: names("exclude"),
                skip: match last("relative") {
                    Some(given) => values::range(given)?.0.try_into().unwrap_or(u32::MAX),
                    None => 0,
                },
            },
            output: Output {
                input: text("input"),
                output: text("output"),
                error: text("error"),
                label: args.has("label"),
                unbuffered: args.has("unbuffered"),
                step: 0,
                appends: appends(last("open-mode"))?,
            },
            gpus: gpus(args)?,
            limits: EndConditions { kill_on_bad_exit: kills(args), wait: wait(last("wait"))? },
            overlap: args.has("overlap"),
            has_pmi: args.value("mpi") != Some("none"),
            pty: args.has("pty"),
            cpus: last("cpus-per-task").map(values::count).transpose()?,
            directory: gpool_cli::caller::directory(args.value("chdir"))?
                .unwrap_or_else(|| "/".to_owned()),
            export: last("export").map(values::quoted_list).transpose()?,
        };
        if options.pty {
            options.layout.n = Some(1);
        }
        Ok(options)
    }

    /// Whether a single process can replace `srun`, since it needs nothing of it while it runs.
    pub fn is_plain(&self) -> bool {
        let output = Output { step: self.output.step, ..Output::default() };
        let is_as_usual = Output { unbuffered: false, ..self.output.clone() } == output;
        (is_as_usual && self.gpus == Gpus::All && self.export.is_none()) || self.pty
    }

    /// The environment from `srun`, in the format of `/proc/PID/environ`.
    pub fn environment(&self) -> Vec<u8> {
        let parts: Vec<&str> = self.export.iter().flatten().map(String::as_str).collect();
        let is = |word: &str| parts.iter().any(|part| part.eq_ignore_ascii_case(word));
        let all = parts.is_empty() || is("ALL");
        let names: Vec<&str> = parts.iter().filter(|part| !part.contains('=')).copied().collect();
        let always = ["HOME", "PATH", "USER", "LOGNAME", "LANG", "SHELL"];
        let mut bytes = Vec::new();
        for (name, value) in std::env::vars_os() {
            let shown = name.to_string_lossy();
            let is_of_job = shown.starts_with("SLURM") || shown.starts_with("GPOOL_");
            if all || is_of_job || always.contains(&&*shown) || names.contains(&&*shown) {
                bytes.extend(name.as_encoded_bytes());
                bytes.push(b'=');
                bytes.extend(value.as_encoded_bytes());
                bytes.push(0);
            }
        }
        for part in parts.iter().filter(|part| part.contains('=')) {
            bytes.extend(part.as_bytes());
            bytes.push(0);
        }
        bytes
    }
}

/// Whether `--open-mode` keeps the contents of files.
fn appends(given: Option<&PassedFlag>) -> Result<bool> {
    given.map_or(Ok(false), |given| Ok(values::open_mode(given)? == "append"))
}

fn small(given: &PassedFlag) -> Result<u32> {
    Ok(u32::try_from(values::count(given)?).unwrap_or(u32::MAX))
}

/// The requested GPUs of the step, or else of the job.
fn gpus(args: &ParsedArgs) -> Result<Gpus> {
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let mut found = match std::env::var(GPUS_PER_PROCESS).ok().and_then(|n| n.parse().ok()) {
        Some(n) => Gpus::PerProcess(n),
        None => Gpus::All,
    };
    for given in &args.flags {
        match given.flag.long {
            "gpus-per-task" => found = Gpus::PerProcess(number(values::gpus(given)?.1)),
            "gpus-per-node" => found = Gpus::PerNode(number(values::gpus(given)?.1)),
            "gpus" => found = Gpus::Total(number(values::gpus(given)?.1)),
            "gres" => {
                if let Some((_, n)) = values::gres(given, &mut Vec::new())? {
                    found = Gpus::PerNode(number(n));
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Whether the first failing process ends the others.
fn kills(args: &ParsedArgs) -> bool {
    args.value("kill-on-bad-exit").is_some_and(|value| value != "0")
}

/// Time for the others after the first process has ended; 0 means no limit.
fn wait(given: Option<&PassedFlag>) -> Result<Option<Duration>> {
    let Some(given) = given else { return Ok(None) };
    match given.value.trim().parse::<u64>() {
        Ok(0) => Ok(None),
        Ok(seconds) => Ok(Some(Duration::from_secs(seconds))),
        Err(_) => Err(Failure::new(
            errors::INVALID,
            format!("--wait: {:?} is not a number of seconds", given.value),
        )
        .tip("--wait=60")),
    }
}
