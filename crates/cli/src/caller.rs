//! The parts of a job that come from the submitting process: environment, umask, working folder.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

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

/// The environment of a job that this process submits.
///
/// # Errors
/// It is larger than a request may be.
pub fn environment(clean: bool, variables: &[Variable]) -> Result<Environment> {
    let environment = passed(std::env::vars_os(), clean, variables);
    let size: usize = environment.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if size > ENVIRONMENT_MAX {
        let largest = environment.iter().max_by_key(|(_, value)| value.len());
        let failure = Failure::new(
            errors::ENVIRONMENT_TOO_LARGE,
            "the environment is too large to send with a job",
        )
        .why(format!(
            "it has {} KB; a job may have {} KB",
            size / 1000,
            ENVIRONMENT_MAX / 1000
        ));
        let failure = match largest {
            Some((name, value)) => {
                let name = String::from_utf8_lossy(name);
                failure.why(format!("most of it is {name}, with {} KB", value.len() / 1000))
            }
            None => failure,
        };
        return Err(
            failure.tip("--clean-env passes HOME, PATH, USER and LANG only; add others by -e")
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
    fn new(entries: Vec<(Vec<u8>, Vec<u8>)>) -> Self {
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

fn passed(
    inherited: impl Iterator<Item = (OsString, OsString)>,
    clean: bool,
    variables: &[Variable],
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let inherited: Vec<(Vec<u8>, Vec<u8>)> =
        inherited.map(|(name, value)| (name.into_vec(), value.into_vec())).collect();
    let mut passed: Vec<(Vec<u8>, Vec<u8>)> = inherited
        .iter()
        .filter(|(name, _)| !clean || CLEAN.iter().any(|kept| kept.as_bytes() == name))
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
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(line.trim(), 8).ok()
}

/// The working folder of a job: the named one, or that of this process.
///
/// # Errors
/// It is unknown, is not UTF-8, or is not a folder.
pub fn directory(named: Option<&str>) -> Result<String> {
    let here = std::env::current_dir();
    let path = match (named, here) {
        (Some(named), here) => here.unwrap_or_default().join(named),
        (None, Ok(here)) => here,
        (None, Err(error)) => {
            return Err(Failure::new(
                errors::BAD_DIRECTORY,
                format!("can't tell the current folder: {error}"),
            )
            .why("it may have been removed")
            .tip("cd into one that exists, or name one by --cwd"));
        }
    };
    if named.is_some() && !path.is_dir() {
        return Err(Failure::new(
            errors::BAD_DIRECTORY,
            format!("{} is not a folder", path.display()),
        )
        .tip("name one that exists by --cwd"));
    }
    path.into_os_string().into_string().map_err(|path| {
        Failure::new(errors::BAD_DIRECTORY, format!("the folder {} is not UTF-8", path.display()))
            .why("the API speaks UTF-8 only")
            .tip("name another by --cwd, and cd into this one inside a script")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(clean: bool, variables: &[&str]) -> Vec<String> {
        let inherited = [("PATH", "/bin"), ("HOME", "/root"), ("SECRET", "x"), ("LD_PRELOAD", "y")];
        let inherited = inherited.into_iter().map(|(n, v)| (n.into(), v.into()));
        let variables: Vec<Variable> =
            variables.iter().map(|v| v.parse().expect("valid")).collect();
        passed(inherited, clean, &variables)
            .into_iter()
            .map(|(n, v)| {
                format!("{}={}", String::from_utf8_lossy(&n), String::from_utf8_lossy(&v))
            })
            .collect()
    }

    #[test]
    fn a_clean_environment_has_what_was_asked_for() {
        assert_eq!(names(true, &["A=1"]), ["PATH=/bin", "HOME=/root", "A=1"]);
        assert_eq!(names(true, &["SECRET"]), ["PATH=/bin", "HOME=/root", "SECRET=x"]);
        assert_eq!(names(true, &["NOT_SET"]), ["PATH=/bin", "HOME=/root"]);
        assert_eq!(
            names(false, &["PATH=/x=y", "PATH=/z"]),
            ["HOME=/root", "SECRET=x", "LD_PRELOAD=y", "PATH=/z"]
        );
    }

    #[test]
    fn names_of_variables_are_checked() {
        for text in ["", "=1", "1A=1", "A B=1", "A\n=1", "é=1"] {
            assert!(text.parse::<Variable>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_text_travels_as_bytes() {
        let environment = Environment::new(vec![
            (b"A".to_vec(), b"1".to_vec()),
            (b"B".to_vec(), b"\xff".to_vec()),
        ]);
        assert_eq!(environment.text, BTreeMap::from([("A".to_owned(), "1".to_owned())]));
        assert_eq!(environment.bytes, Some(BASE64_STANDARD.encode(b"B=\xff\0")));
    }

    #[test]
    fn the_mask_is_read() {
        assert!(umask().is_some_and(|mask| mask <= 0o777));
    }
}
