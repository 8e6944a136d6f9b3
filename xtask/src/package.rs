//! `cargo xtask package`: a Debian package and an image of the server, from one binary. Equal input
//! gives equal bytes: every time stamp is that of the commit.

mod deb;
mod image;
mod program;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::{need, step};
use program::Program;

/// Usage errors end with it.
const USAGE: &str = "try  cargo xtask package [--binary FILE] [--version VERSION] [--out FOLDER]";

/// Programs that build the packages, each with its package of Debian.
const TOOLS: &[(&str, &str)] = &[
    ("dpkg-deb", "dpkg"),
    ("tar", "tar"),
    ("gzip", "gzip"),
    ("sha256sum", "coreutils"),
    ("ldd", "libc-bin"),
    ("grep", "grep"),
];

/// The flags of the command.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    binary: Option<PathBuf>,
    version: Option<String>,
    out: Option<PathBuf>,
}

/// The input of both packages.
struct Release {
    program: Program,
    version: String,
    /// Seconds since 1970 of every time stamp.
    epoch: u64,
    /// The folder of the packages.
    out: PathBuf,
}

impl Release {
    /// The path of a package with this ending.
    fn package(&self, end: &str) -> PathBuf {
        let architecture = self.program.architecture;
        self.out.join(format!("gpool_{}_{architecture}.{end}", self.version))
    }
}

/// Builds both packages and prints their paths.
///
/// # Errors
/// A flag is wrong, a tool is missing, or the binary can't be packaged.
pub fn run(words: &[&str]) -> anyhow::Result<bool> {
    let options = options(words)?;
    if let Some((tool, package)) = TOOLS.iter().find(|(tool, _)| !need::on_path(tool)) {
        bail!("packages need the program {tool}\n  try  apt-get install {package}");
    }
    let epoch = epoch()?;
    let target: PathBuf = step::metadata()?.target_directory.into();
    let binary = match options.binary {
        Some(path) => path,
        None => {
            let build = step::cargo(&["build", "--release", "--locked", "--bin", "gpool"]);
            if !step::succeeds("build of gpool", build)? {
                return Ok(false);
            }
            target.join("release/gpool")
        }
    };
    let program = Program::read(&binary)?;
    let version = options.version.unwrap_or_else(|| program.version.clone());
    let out = options.out.unwrap_or_else(|| target.join("packages"));
    fs::create_dir_all(&out).with_context(|| format!("creating {}", out.display()))?;
    // The program in the package finds itself by a path without links.
    let out = out.canonicalize().context("resolving the folder of the packages")?;
    let release = Release { program, version, epoch, out };
    for path in [deb::build(&release)?, image::build(&release)?] {
        println!("{}", path.display());
    }
    Ok(true)
}

fn options(words: &[&str]) -> anyhow::Result<Options> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(flag) = words.next() {
        let mut value = || match words.next() {
            Some(value) if !value.is_empty() => Ok((*value).to_owned()),
            _ => bail!("{flag} needs a value\n  {USAGE}"),
        };
        match *flag {
            "--binary" => options.binary = Some(absolute(&value()?)?),
            "--out" => options.out = Some(absolute(&value()?)?),
            "--version" => options.version = Some(valid_version(value()?)?),
            _ => bail!("package has no flag {flag:?}\n  {USAGE}"),
        }
    }
    Ok(options)
}

/// Paths are relative to the caller's folder, while steps run in the root of the repository.
fn absolute(path: &str) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("{path:?} is no path"))
}

/// Checks a version as Debian has it. Source: Debian Policy Manual, 5.6.12.
fn valid_version(version: String) -> anyhow::Result<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || ".+~-".contains(c);
    if version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(is_part) {
        return Ok(version);
    }
    bail!(
        "{version:?} is no version of a Debian package: it begins with a digit, and has letters, \
         digits and . + ~ -\n  try  --version 0.1.0+site1"
    )
}

/// The time of the commit, or `SOURCE_DATE_EPOCH`.
/// Source: <https://reproducible-builds.org/specs/source-date-epoch/>.
fn epoch() -> anyhow::Result<u64> {
    let remedy = "try  SOURCE_DATE_EPOCH=1767225600 cargo xtask package";
    if let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") {
        let number = text.parse();
        return number.with_context(|| {
            format!("SOURCE_DATE_EPOCH={text}: no number of seconds since 1970\n  {remedy}")
        });
    }
    let log = output(&mut step::command("git", &["log", "-1", "--format=%ct"]));
    let time = log.ok().and_then(|text| text.trim().parse().ok());
    time.with_context(|| format!("git has no time of a commit here\n  {remedy}"))
}

/// The standard output of a command that must succeed.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("starting {name}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("{name} failed ({}): {}", output.status, why.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The license and changes of gpool, which both packages have.
fn license() -> anyhow::Result<String> {
    let path = step::root().join("LICENSE-MIT");
    read(&path)
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_values_and_versions_are_those_of_debian() {
        let wrong = [&["--binary"][..], &["--out", ""], &["deb"], &["--version", "v1"]];
        for words in wrong {
            let refused = options(words).unwrap_err().to_string();
            assert!(refused.contains("\n  try  "), "{refused}");
        }
        let found = options(&["--version", "0.1.0+site1", "--binary", "/bin/gpool"]).unwrap();
        assert_eq!(found.version.as_deref(), Some("0.1.0+site1"));
        assert_eq!(found.binary.as_deref(), Some(Path::new("/bin/gpool")));
    }
}
