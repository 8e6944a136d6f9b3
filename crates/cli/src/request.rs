//! Builds the request of `run` and `submit` from flags and words.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use gpool_client::{Client, JobsQuery};
use gpool_model::file_pattern::has_pattern;
use gpool_model::{Compat, GpuRequest, Millis};
use gpool_wire::{JobCreate, Problem, Quantity, RetryPolicy, Time, catalogue};
use rustix::fs::{Access, FileType, access, fstat, tell};

use crate::args::job_flags::JobFlags;
use crate::args::life_flags::LifeFlags;
use crate::caller::Variable;
use crate::failure::{Failure, Result};
use crate::foreign::translated::Translated;
use crate::reference::Reference;
use crate::render::clock::{Clock, now};
use crate::resolve;
use crate::script::{self, Script, in_path};
use crate::session::Session;
use crate::software::{self, env_file};
use crate::{array_files, caller, errors, flags, upload};

mod brought;
mod driver;
pub mod mail;

pub use brought::{of_brought, of_brought_script};

/// A job to submit, with notes about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The body of the request, without dependencies.
    pub job: JobCreate,
    /// The jobs that it waits for, as written.
    pub after: Vec<String>,
    /// The jobs of --after-one, as written.
    pub after_one: Vec<String>,
    /// The earliest start, as written.
    pub begin: Option<String>,
    /// The deadline, as written.
    pub deadline: Option<String>,
    /// Whether to refuse the job if it would wait.
    pub no_queue: bool,
    /// Notes about surprising interpretations.
    pub remarks: Vec<String>,
    /// Warnings about problems at the start of the job.
    pub warnings: Vec<String>,
    /// Whether to lower a priority that the caller may not use, and to drop an unknown project: in
    /// another scheduler they had another meaning.
    pub is_lenient: bool,
    /// Pools of another scheduler's request; the first one that exists counts.
    pub pools: Vec<String>,
    /// Whether it waits for all jobs with the same user and name that have not ended.
    pub singleton: bool,
}

/// The request for a command.
///
/// # Errors
/// A `GPOOL_SUBMIT_…` variable, the environment or the folder is not usable.
pub fn of_command(line: JobFlags, words: &[String]) -> Result<Request> {
    let flags = line.or(flags::from_variables(text_variables())?);
    let mut request = request(flags)?;
    let (command, remark) = command(words);
    request.remarks.extend(remark);
    if request.job.name.is_none() && command.len() != words.len() {
        // The name of the shell would not describe the job.
        request.job.name = words[0].split_whitespace().next().map(base_name);
    }
    // Slurm's srun does not read the lines of a script either.
    if !request.job.compat.iter().any(|compat| compat == Compat::Slurm.as_str()) {
        request.warnings.extend(script::unread_lines(&command[0]));
    }
    if request.job.activate.is_empty() && request.job.image.is_none() && !caller::is_remote() {
        // The activated software may provide the program.
        request.warnings.extend(not_found(&command, request.job.directory.as_deref()));
    }
    request.job.command = command;
    request.warnings.extend(unread_input(&request.job));
    Ok(request)
}

/// The request for a script, with flags from its directives.
pub fn of_script(line: JobFlags, script: &Script, arguments: &[String]) -> Result<Request> {
    of_brought_script(line, Translated::default(), |_| None, script, arguments)
}

/// The common part of all lines of `--from-jsonl`.
pub fn of_many(line: JobFlags) -> Result<Request> {
    request(line.or(flags::from_variables(text_variables())?))
}

/// The variables that are UTF-8; others can't be flags.
pub fn text_variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

fn request(flags: JobFlags) -> Result<Request> {
    check_shared(&flags)?;
    // What belongs to this machine is of no use in a container.
    let is_clean = flags.clean_env || flags.request.0.image.is_some();
    // -e overrides files.
    let mut variables = env_file::read_all(&flags.software.env_file)?;
    variables.extend(flags.env.iter().cloned());
    let environment = caller::environment(is_clean, &variables)?;
    let directory = caller::directory(flags.cwd.as_deref())?;
    let software = match &directory {
        Some(directory) if !caller::is_remote() => {
            software::find(&flags.software, Path::new(directory))?
        }
        _ => software::refuse_remote(&flags.software)?,
    };
    let gpus = flags.request.0.gpus.clone();
    let mut job = JobCreate {
        gpus: match gpus {
            Some(gpus) => Some(gpus),
            None => gpus_of_variable(&variables, !is_clean && !flags.lenient)?,
        },
        directory,
        activate: software.activate,
        setup: software.setup,
        environment: environment.text,
        environment_bytes: environment.bytes,
        retry: retry(&flags.life)?,
        umask: caller::umask(),
        ..flags.request.0
    };
    array_files::fill(&mut job, flags.array)?;
    let (remarks, mut warnings) = (Vec::new(), unusable_files(&job));
    warnings.extend(software.warnings);
    let names = flags.env.iter().map(|variable| variable.name.as_str());
    warnings.extend(
        names
            .filter(|name| is_ours(name))
            .map(|name| format!("-e {name} has no effect: gpool sets this variable")),
    );
    warnings.extend(job.name.as_deref().and_then(misleading));
    let (life, after) = (flags.life, flags.after);
    let LifeFlags { after_one, begin, deadline, .. } = life;
    Ok(Request {
        job,
        after,
        after_one,
        begin,
        deadline,
        no_queue: flags.no_queue,
        remarks,
        warnings,
        is_lenient: flags.lenient,
        pools: Vec::new(),
        singleton: false,
    })
}

/// The number of GPUs from Valohai's variable: from `-e` or a file, else, if the job inherits the
/// shell's variables, from there. In a job the variable is the number of GPUs that it has, and
/// requests none.
fn gpus_of_variable(variables: &[Variable], inherits: bool) -> Result<Option<String>> {
    const NAME: &str = "VH_GPUS";
    let exported = || std::env::var(NAME).ok().filter(|value| !value.is_empty());
    let is_in_job = || std::env::var_os("GPOOL_JOB_ID").is_some();
    let (value, way) = match variables.iter().rev().find(|variable| variable.name == NAME) {
        Some(variable) => (variable.value.clone().or_else(exported), "-e "),
        None if inherits && !is_in_job() => (exported(), ""),
        None => return Ok(None),
    };
    let Some(value) = value else { return Ok(None) };
    match value.parse::<u32>() {
        Ok(_) if GpuRequest::parse(&value).is_ok() => Ok(Some(value)),
        _ => {
            let shown: String = value.chars().take(32).collect();
            let what = format!("{way}{NAME}={shown:?} is not a number of GPUs");
            Err(Failure::new(catalogue::INVALID, what).tip(format!("{way}{NAME}=2")))
        }
    }
}

/// Checks that `--shared` comes with an amount, which the scheduler needs.
fn check_shared(flags: &JobFlags) -> Result<()> {
    let job = &flags.request.0;
    let request = job.gpus.as_deref().and_then(|gpus| GpuRequest::parse(gpus).ok());
    let says_how_much = job.gpu_share.is_some()
        || job.gpu_memory.is_some()
        || request.is_some_and(|request| request.share().is_some());
    if !flags.shared || says_how_much {
        return Ok(());
    }
    Err(Failure::new(catalogue::INVALID, "--shared needs an amount of each GPU")
        .why("gpool counts the memory or fraction of each job, so that all fit on the GPU")
        .tip("--shared --gpu-memory 20G")
        .tip("--gpus 0.5"))
}

/// A warning about a name that has another meaning as a reference.
pub fn misleading(name: &str) -> Option<String> {
    let is_name = name.parse::<Reference>().is_ok_and(|meant| matches!(meant, Reference::Name(_)));
    let what = format!("the name {name:?} can't refer to the job; use its ID");
    (!is_name || name.contains(',')).then_some(what)
}

/// Whether gpool sets this variable for jobs, whatever its value at the caller.
fn is_ours(name: &str) -> bool {
    matches!(name, "CUDA_VISIBLE_DEVICES" | "CUDA_DEVICE_ORDER" | "NVIDIA_VISIBLE_DEVICES")
        || (name.starts_with("GPOOL_") && !name.starts_with("GPOOL_SUBMIT_"))
}

impl Request {
    /// Finds the jobs that it waits for.
    ///
    /// # Errors
    /// There is no such job, or the reference is not valid.
    pub fn resolve(&mut self, client: &Client, session: &Session) -> Result<()> {
        self.job.after = waited_for(client, session.me(), "--after", &self.after)?;
        self.job.after_one = waited_for(client, session.me(), "--after-one", &self.after_one)?;
        let clock = &session.screen.clock;
        if let Some(text) = &self.begin {
            let (at, remark) = begin(clock, text)?;
            self.job.begin = at;
            self.remarks.push(remark);
        }
        if let Some(text) = &self.deadline {
            let at = moment(clock, "--deadline", text)?;
            self.job.deadline = Some(at);
            self.remarks.push(format!("it must end by {}", clock.full(at)));
        }
        if self.singleton {
            let script = self.job.script.as_ref().map(|script| script.name.clone());
            let name = self.job.name.clone().or(script);
            let query =
                JobsQuery { user: Some(session.me().to_owned()), name, ..JobsQuery::default() };
            let same = resolve::every_job(client, &query)?;
            self.job.after.extend(same.iter().map(|job| format!("end:{}", job.id)));
        }
        if self.is_lenient {
            brought::drop_refused_fields(self, client)?;
        }
        if let Some(folder) = self.job.upload.take() {
            self.job.upload = Some(upload::send(Path::new(&folder), client, session)?);
        }
        self.warnings.extend(mail::not_sent(&self.job.notify, client));
        Ok(())
    }
}

/// Parses a time in the future from a flag.
pub fn moment(clock: &Clock, flag: &str, text: &str) -> Result<Time> {
    let read = clock.read_ahead(text, now());
    read.map_err(|why| Failure::new(catalogue::INVALID, format!("{flag}: {why}")))
}

/// Parses the earliest start, with a note about it; a time in the past means none.
pub fn begin(clock: &Clock, text: &str) -> Result<(Option<Time>, String)> {
    let at = moment(clock, "--begin", text)?;
    if at > now() {
        return Ok((Some(at), format!("it starts at {} at the earliest", clock.full(at))));
    }
    let remark = format!("--begin {} is in the past: the job may start at once", clock.full(at));
    Ok((None, remark))
}

/// The retries that flags request.
///
/// # Errors
/// A flag describes retries, but `--retry` is missing.
pub fn retry(flags: &LifeFlags) -> Result<Option<RetryPolicy>> {
    let says_how =
        !flags.retry_on.is_empty() || !flags.retry_exit.is_empty() || flags.backoff.is_some();
    let Some(most) = flags.retry else {
        if !says_how {
            return Ok(None);
        }
        let what = "--retry-on, --retry-exit and --backoff need a number of retries: --retry";
        return Err(Failure::new(catalogue::INVALID, what).tip("--retry 3"));
    };
    let retry = RetryPolicy {
        most,
        on: flags.retry_on.clone(),
        exits: flags.retry_exit.clone(),
        backoff: flags.backoff.clone().map(Quantity::Text),
    };
    retry.check().map_err(|refusal| Failure::from(Problem::from(refusal)))?;
    Ok(Some(retry))
}

/// Finds the ids of the jobs that flags name as dependencies.
///
/// # Errors
/// There is no such job, or the reference is not valid.
pub fn waited_for(client: &Client, me: &str, flag: &str, words: &[String]) -> Result<Vec<String>> {
    let mut jobs = Vec::new();
    for text in words {
        for (kind, reference, delay) in dependencies(flag, text)? {
            let delay = delay.map(|delay| format!("+{delay}")).unwrap_or_default();
            if let Reference::Range { .. } = &reference {
                let all = std::iter::once(&reference);
                let found = resolve::jobs(client, all, None, me, resolve::JobScope::Living)?;
                jobs.extend(found.ids.iter().map(|id| format!("{kind}:{id}{delay}")));
            } else {
                let (id, _) = resolve::one(client, &reference, me)?;
                jobs.push(format!("{kind}:{id}{delay}"));
            }
        }
    }
    Ok(jobs)
}

/// The kind of a dependency, the job, and the delay after its start.
pub type DependencyFlag = (&'static str, Reference, Option<Millis>);

/// Parses `[ok:|fail:|end:|each:|start:]JOB[+DELAY],…`; a kind applies until the next one.
pub fn dependencies(flag: &str, written: &str) -> Result<Vec<DependencyFlag>> {
    let bad = |why: String| {
        Failure::new(catalogue::INVALID, format!("{flag}: {why}"))
            .tip(format!("{flag} 17, {flag} ok:17,18, {flag} end:@ or {flag} start:17+5m"))
    };
    let mut kind = "ok";
    let mut found = Vec::new();
    for part in written.split(',') {
        let known = ["ok", "fail", "end", "each", "start"].into_iter();
        let mut named =
            known.filter_map(|kind| Some((kind, part.strip_prefix(kind)?.strip_prefix(':')?)));
        let reference = match named.next() {
            Some((named, reference)) => {
                kind = named;
                reference
            }
            None => part,
        };
        let (reference, delay) = match reference.rsplit_once('+').filter(|_| kind == "start") {
            Some((reference, delay)) => {
                let delay = gpool_model::parse::span(delay).map_err(|e| bad(e.to_string()))?;
                (reference, Some(delay))
            }
            None => (reference, None),
        };
        match reference.parse::<Reference>() {
            Ok(Reference::All) => {
                return Err(bad("`all` is not allowed here: give the jobs to wait for".to_owned()));
            }
            Ok(reference) => found.push((kind, reference, delay)),
            Err(error) => return Err(bad(error.to_string())),
        }
    }
    Ok(found)
}

/// The command, with a note if it is interpreted as a shell line: one word with blanks is a shell
/// line, unless a program has this name.
pub fn command(words: &[String]) -> (Vec<String>, Option<String>) {
    match words {
        [line] if line.contains(char::is_whitespace) && !Path::new(line).exists() => {
            let shell = ["/bin/sh", "-c", line].map(str::to_owned).to_vec();
            (
                shell,
                Some("one quoted word with blanks runs as a command line of /bin/sh".to_owned()),
            )
        }
        words => (words.to_vec(), None),
    }
}

fn base_name(path: &str) -> String {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path).to_owned()
}

/// A warning about a missing program. It may exist when the job starts, so this is not an error.
pub fn not_found(command: &[String], directory: Option<&str>) -> Option<String> {
    let program = command.first()?;
    if program.contains('/') {
        let path = Path::new(directory.unwrap_or("/")).join(program);
        return match std::fs::metadata(&path) {
            Ok(found) if found.is_dir() => Some(format!("{program} is a directory, not a program")),
            Ok(found) if found.is_file() && found.permissions().mode() & 0o111 == 0 => {
                let by = script::interpreter(program);
                Some(format!("{program} is not executable; to run it: {by} {program}"))
            }
            Ok(_) => script::dos_interpreter(&path),
            Err(error) => Some(format!("can't run {program} now: {error}")),
        };
    }
    std::env::var_os("PATH")?;
    if in_path(program) {
        return None;
    }
    let is_here = Path::new(directory.unwrap_or("/")).join(program).is_file();
    let then = match is_here {
        true => format!("to run the file here: {} {program}", script::interpreter(program)),
        false => "the job looks again when it starts".to_owned(),
    };
    Some(format!("there is no program {program:?} in PATH now; {then}"))
}

/// A warning about a pipe or file on standard input that the job will not read.
fn unread_input(job: &JobCreate) -> Option<String> {
    let input = std::io::stdin();
    let found = fstat(&input).ok().filter(|_| job.stdin.is_none())?;
    let has_input = match FileType::from_raw_mode(found.st_mode) {
        FileType::Fifo => true,
        // An empty or completely read file needs no warning.
        FileType::RegularFile => {
            tell(&input).is_ok_and(|at| u64::try_from(found.st_size).is_ok_and(|size| at < size))
        }
        _ => false,
    };
    let what = "jobs do not get standard input; give a file with --stdin FILE";
    has_input.then(|| what.to_owned())
}

/// Warnings about files that can't be read or created now. They may exist when the job starts, so
/// these are not errors.
pub fn unusable_files(job: &JobCreate) -> Vec<String> {
    if caller::is_remote() {
        return Vec::new();
    }
    let here = Path::new(job.directory.as_deref().unwrap_or("/"));
    let mut warnings = Vec::new();
    if let Some(path) = job.stdin.as_ref().filter(|path| !here.join(path).exists()) {
        warnings.push(format!("the file {path} does not exist now"));
    }
    for (flag, path) in [("--stdout", &job.stdout), ("--stderr", &job.stderr)] {
        let Some(path) = path.as_ref().map(|path| here.join(path)) else { continue };
        let folder = path.parent().unwrap_or(here);
        if path.is_dir() {
            warnings.push(format!("{flag}: {} is a folder", path.display()));
        } else if has_pattern(&folder.to_string_lossy(), &['j', 'J', 'A']) {
            // The job waits for such a folder, and makes it in the end.
        } else if !folder.is_dir() {
            warnings.push(format!("{flag}: the folder {} does not exist now", folder.display()));
        } else if access(folder, Access::WRITE_OK).is_err() {
            warnings.push(format!("{flag}: can't write to {}", folder.display()));
        }
    }
    warnings
}

/// The failure for a job that would have to wait.
#[must_use]
pub fn would_wait(reasons: &[gpool_wire::Reason]) -> Failure {
    let failure =
        Failure::new(errors::WOULD_WAIT, "the job can't start now, and --no-queue is set");
    let failure = reasons.iter().fold(failure, |failure, reason| failure.why(&reason.text));
    failure.tip("leave --no-queue out   (to wait in the queue)")
}
