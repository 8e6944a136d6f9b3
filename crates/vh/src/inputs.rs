//! Brings the files of inputs into `inputs/NAME`: links to paths of the node, copies for
//! containers, and downloads.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::folder;
use crate::plan::{Folders, Plan, PlannedInput};

/// Where the step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Host,
    /// A container sees no paths of the node, so files are copied.
    Container,
}

/// A file of an input.
#[derive(Debug, Clone)]
pub struct InputFile {
    pub input: String,
    /// The path below the folder of the input.
    pub name: String,
    pub size: u64,
    pub address: String,
}

/// Brings the files of all inputs. Files that are there already stay: a requeued job goes on.
///
/// # Errors
/// A file is missing or can't be fetched; the text says which.
pub fn prepare(plan: &Plan, execution: &Path, place: Place) -> Result<Vec<InputFile>, String> {
    let mut files = Vec::new();
    for input in &plan.inputs {
        let target = execution.join("inputs").join(&input.name);
        let failed = |why: String| format!("input {:?}: {why}", input.name);
        fs::create_dir_all(&target).map_err(|error| failed(error.to_string()))?;
        let mut used = Names::default();
        for source in &input.sources {
            let names = match &source.path {
                Some(path) => from_path(path, input, &target, place, &mut used),
                None => download(&source.address, input, &target, &mut used).map(|it| vec![it]),
            };
            for name in names.map_err(failed)? {
                let size = target.join(&name).metadata().map_or(0, |it| it.len());
                let (input, address) = (input.name.clone(), source.address.clone());
                files.push(InputFile { input, name, size, address });
            }
        }
    }
    Ok(files)
}

/// The names of the files of an input.
#[derive(Default)]
struct Names(BTreeSet<PathBuf>);

impl Names {
    /// A name for another file: its own, or with a number if a file before has that. The order of
    /// files is always the same, and so are the numbers.
    fn free(&mut self, name: &Path) -> PathBuf {
        let text = |part: Option<&OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let end = name.extension().map(|end| format!(".{}", text(Some(end)))).unwrap_or_default();
        let numbered = |n: u32| name.with_file_name(format!("{}-{n}{end}", text(name.file_stem())));
        let mut all = std::iter::once(name.to_owned()).chain((2..).map(numbered));
        all.find(|name| self.0.insert(name.clone())).unwrap_or_default()
    }
}

/// The last part of an address, without its query.
fn file_name(address: &str) -> Result<&str, String> {
    let path = address.split(['?', '#']).next().unwrap_or_default();
    match path.rsplit('/').next() {
        Some(name) if !matches!(name, "" | "." | "..") => Ok(name),
        _ => Err(format!("{address} names no file; set filename")),
    }
}

fn download(
    address: &str,
    input: &PlannedInput,
    target: &Path,
    used: &mut Names,
) -> Result<String, String> {
    let name = input.filename.as_deref().map_or_else(|| file_name(address), Ok)?;
    let name = used.free(Path::new(name));
    let target = inside(target, &name)?;
    let name = name.display().to_string();
    if target.exists() {
        return Ok(name);
    }
    let part = target.with_extension("part");
    let curl = Command::new("curl")
        .args(["--fail", "--location", "--silent", "--show-error", "--retry", "3", "--proto"])
        .args(["=http,https", "--output"])
        .arg(&part)
        .args(["--", address])
        .status();
    match curl {
        Ok(status) if status.success() => {
            fs::rename(&part, &target).map_err(|error| format!("{}: {error}", target.display()))?;
            Ok(name)
        }
        Ok(_) => Err(format!("{address} can't be downloaded; see the message of curl")),
        Err(error) => Err(format!("can't run curl, which downloads inputs: {error}")),
    }
}

/// Links or copies the files of a path, which may have `*` in it.
fn from_path(
    path: &str,
    input: &PlannedInput,
    target: &Path,
    place: Place,
    used: &mut Names,
) -> Result<Vec<String>, String> {
    let source = Path::new(path);
    if !path.contains('*') && !source.is_dir() {
        let name = input.filename.as_deref().map_or_else(|| file_name(path), Ok)?;
        let name = used.free(Path::new(name));
        place_file(source, &inside(target, &name)?, place)?;
        return Ok(vec![name.display().to_string()]);
    }
    let pattern = match path.contains('*') {
        true => path.to_owned(),
        false => format!("{}/*", path.trim_end_matches('/')),
    };
    let star = pattern.find('*').unwrap_or(pattern.len());
    let base = Path::new(pattern[..star].rsplit_once('/').map_or("/", |(base, _)| base));
    let base = if base.as_os_str().is_empty() { Path::new("/") } else { base };
    let mut below = Vec::new();
    folder::walk(base, Path::new(""), &mut below)
        .map_err(|error| format!("can't read {}: {error}", base.display()))?;
    below.sort();
    let mut names = Vec::new();
    for file in below {
        let whole = base.join(&file);
        let Some(text) = whole.to_str().filter(|text| matches(&pattern, text)) else { continue };
        let name = match input.folders {
            Folders::None => whole.file_name().map(PathBuf::from).unwrap_or_default(),
            Folders::Full => PathBuf::from(text.trim_start_matches('/')),
            Folders::Suffix => file.clone(),
        };
        let name = used.free(&name);
        place_file(&whole, &inside(target, &name)?, place)?;
        names.push(name.display().to_string());
    }
    if names.is_empty() {
        return Err(format!("{path} matches no file"));
    }
    Ok(names)
}

/// A path below a folder; names never leave it.
fn inside(folder: &Path, name: &Path) -> Result<PathBuf, String> {
    let is_plain = name.components().all(|part| matches!(part, Component::Normal(_)));
    if !is_plain || name.as_os_str().is_empty() {
        return Err(format!("{:?} is no name of a file in the input", name.display().to_string()));
    }
    Ok(folder.join(name))
}

fn place_file(source: &Path, target: &Path, place: Place) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", source.display());
    if !source.is_file() {
        return Err(format!("{} is missing, or no file", source.display()));
    }
    if target.symlink_metadata().is_ok() {
        return Ok(());
    }
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    match place {
        Place::Host => symlink(source, target).map_err(failed),
        Place::Container => fs::copy(source, target).map(drop).map_err(failed),
    }
}

/// Whether a text matches a pattern; `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
