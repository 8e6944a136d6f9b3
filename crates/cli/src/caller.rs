//! The parts of a job that come from the submitting process: environment, umask, working folder.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::prelude::{BASE64_STANDARD, Engine as _};

use crate::errors;
use crate::failure::{Failure, Result};

/// Largest environment in bytes. A request is limited to 1 MB, and bytes are encoded in base64.
const ENVIRONMENT_MAX: usize = 600_000;

/// The variables that `--clean-env` keeps.
const CLEAN: [&str; 4] = ["HOME", "PATH", "USER", "LANG"];

/// A variable from `-e`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its checked name.
    pub name: String,
    /// Its value; `None` means the caller's value.
    pub value: Option<String>,
}

impl std::str::FromStr for Variable {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (name, value) = match text.split_once('=') {
            None => (text, None),
            Some((name, value)) => (name, Some(value.to_owned())),
        };
        let mut letters = name.chars();
        let starts = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        if !starts || !letters.all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(format!(
                "{name:?} is not the name of a variable: letters, digits and _ only, not starting \
                 with a digit; write, for example, -e LR=0.1"
            ));
        }
        Ok(Self { name: name.to_owned(), value })
    }
}

/// Whether jobs go to another machine, where this process's environment and folder mean nothing.
static IS_REMOTE: AtomicBool = AtomicBool::new(false);

/// Sets whether the jobs of this process go to another machine.
pub fn set_remote(is_remote: bool) {
    IS_REMOTE.store(is_remote, Ordering::Relaxed);
}

/// Whether the jobs of this process go to another machine.
#[must_use]
pub fn is_remote() -> bool {
    IS_REMOTE.load(Ordering::Relaxed)
}

/// The environment of a job that this process submits. Over the network only the requested
/// variables go with it.
///
/// # Errors
/// It is larger than a request may be.
pub fn environment(clean: bool, variables: &[Variable]) -> Result<Environment> {
    let mut environment = passed(std::env::vars_os(), clean, variables);
    if is_remote() {
        let is_asked = |name: &[u8]| variables.iter().any(|it| it.name.as_bytes() == name);
        environment.retain(|(name, _)| is_asked(name));
    }
    let size: usize = environment.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if size > ENVIRONMENT_MAX {
        let largest = environment.iter().max_by_key(|(_, value)| value.len());
        let failure = Failure::new(
            errors::ENVIRONMENT_TOO_LARGE,
            "the environment is too large to send with a job",
        )
        .why(format!(
            "it has {} KB; the maximum is {} KB",
            size / 1000,
            ENVIRONMENT_MAX / 1000
        ));
        let failure = match largest {
            Some((name, value)) => {
                let name = String::from_utf8_lossy(name);
                failure
                    .why(format!("the largest variable is {name}, with {} KB", value.len() / 1000))
            }
            None => failure,
        };
        return Err(
            failure.tip("--clean-env   (passes only HOME, PATH, USER and LANG; -e adds others)")
        );
    }
    Ok(Environment::new(environment))
}

/// An environment in the form of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    /// The variables that are UTF-8.
    pub text: BTreeMap<String, String>,
    /// The other variables in base64, each ended by a zero byte; `None` if there are none.
    pub bytes: Option<String>,
}

impl Environment {
    /// Splits variables into texts and bytes.
    #[must_use]
    pub fn new(entries: Vec<(Vec<u8>, Vec<u8>)>) -> Self {
        let mut text = BTreeMap::new();
        let mut bytes = Vec::new();
        for (name, value) in entries {
            match (String::from_utf8(name), String::from_utf8(value)) {
                (Ok(name), Ok(value)) => {
                    text.insert(name, value);
                }
                (name, value) => {
                    let raw = |part: std::result::Result<String, std::string::FromUtf8Error>| {
                        part.map_or_else(|error| error.into_bytes(), String::into_bytes)
                    };
                    bytes.extend(raw(name));
                    bytes.push(b'=');
                    bytes.extend(raw(value));
                    bytes.push(0);
                }
            }
        }
        Self { text, bytes: (!bytes.is_empty()).then(|| BASE64_STANDARD.encode(bytes)) }
    }
}

/// The variables of a process in a job, and of a command that `salloc` runs for one.
const IN_JOB: [&[u8]; 2] = [b"GPOOL_JOB_ID", b"GPOOL_ALLOCATION"];

/// Whether a variable describes the job of this process, and not one that it submits.
fn describes_job(name: &[u8]) -> bool {
    (name.starts_with(b"GPOOL_") && !name.starts_with(b"GPOOL_SUBMIT_"))
        || (name.starts_with(b"SLURM_") && name != b"SLURM_CONF")
        || [&b"SLURMD_NODENAME"[..], b"SRUN_GPUS_PER_TASK", b"GFLOW_ARRAY_TASK_ID", b"GFLOW_JOB_ID"]
            .contains(&name)
}

/// Chooses the variables that a job gets: the inherited ones, unless `clean`, and the requested
/// ones.
pub fn passed(
    inherited: impl Iterator<Item = (OsString, OsString)>,
    clean: bool,
    variables: &[Variable],
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let inherited: Vec<(Vec<u8>, Vec<u8>)> =
        inherited.map(|(name, value)| (name.into_vec(), value.into_vec())).collect();
    let is_in_job = inherited.iter().any(|(name, _)| IN_JOB.contains(&&**name));
    let is_passed = |name: &[u8]| !clean || CLEAN.iter().any(|kept| kept.as_bytes() == name);
    let mut passed: Vec<(Vec<u8>, Vec<u8>)> = inherited
        .iter()
        .filter(|(name, _)| is_passed(name) && !(is_in_job && describes_job(name)))
        .cloned()
        .collect();
    for variable in variables {
        let name = variable.name.as_bytes();
        let value = match &variable.value {
            Some(value) => Some(value.clone().into_bytes()),
            None => inherited.iter().find(|(other, _)| other == name).map(|(_, v)| v.clone()),
        };
        passed.retain(|(other, _)| other != name);
        passed.extend(value.map(|value| (name.to_owned(), value)));
    }
    passed
}

/// The umask of this process, from `/proc`: the system call can only read it by setting it.
#[must_use]
pub fn umask() -> Option<u32> {
    if is_remote() {
        return None;
    }
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(line.trim(), 8).ok()
}

/// The working folder of a job: the named one, or that of this process. Over the network the named
/// one is a folder of the server, and `None` stands for the user's home there.
///
/// # Errors
/// It is unknown, is not UTF-8, or is not a folder.
pub fn directory(named: Option<&str>) -> Result<Option<String>> {
    if !is_remote() {
        return local_directory(named).map(Some);
    }
    match named {
        Some(named) if !named.starts_with('/') => Err(Failure::new(
            errors::BAD_DIRECTORY,
            format!("--cwd {named}: a folder on the server must be absolute"),
        )
        .tip("--cwd /home/ana/project   (default: your home folder on the server)")),
        named => Ok(named.map(str::to_owned)),
    }
}

fn local_directory(named: Option<&str>) -> Result<String> {
    let here = std::env::current_dir();
    let path = match (named, here) {
        (Some(named), here) => here.unwrap_or_default().join(named),
        (None, Ok(here)) => here,
        (None, Err(error)) => {
            return Err(Failure::new(
                errors::BAD_DIRECTORY,
                format!("can't find the current folder: {error}"),
            )
            .why("it may have been removed")
            .tip("change to another folder, or give one with --cwd"));
        }
    };
    if named.is_some() && !path.is_dir() {
        return Err(Failure::new(
            errors::BAD_DIRECTORY,
            format!("{} is not a folder", path.display()),
        )
        .tip("give an existing folder with --cwd"));
    }
    path.into_os_string().into_string().map_err(|path| {
        Failure::new(errors::BAD_DIRECTORY, format!("the folder {} is not UTF-8", path.display()))
            .why("paths in the API must be UTF-8")
            .tip("give another folder with --cwd, and change to this one in a script")
    })
}
