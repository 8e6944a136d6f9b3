//! The folder of an execution: `repository`, `inputs`, `outputs` and `config`, which the step sees
//! in `/valohai`, and the plan.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use gpool_cli::failure::Result;

use crate::failure::invalid;
use crate::plan::{FILE, Plan};

/// The folder of all executions of the user.
const EXECUTIONS: &str = "executions";

/// The user's folder for files of a kind: `$XDG_…_HOME/gpool/valohai`.
fn own(variable: &str, usual: &str) -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let base = set(variable).filter(|path| path.is_absolute());
    let base = base.or_else(|| Some(set("HOME")?.join(usual)));
    base.map(|base| base.join("gpool/valohai"))
        .ok_or_else(|| invalid(format!("there is no folder for executions: set {variable}")))
}

/// The cached virtual environment of a project.
///
/// # Errors
/// There is no home.
pub fn venv(project: &Path) -> Result<PathBuf> {
    let hash = blake3::hash(project.as_os_str().as_bytes()).to_hex();
    Ok(own("XDG_CACHE_HOME", ".cache")?.join(format!("venv-{}", &hash[..16])))
}

/// Makes a new folder.
///
/// # Errors
/// It can't be made.
pub fn create() -> Result<PathBuf> {
    let all = own("XDG_DATA_HOME", ".local/share")?.join(EXECUTIONS);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let folder = all.join(format!("{:x}-{:x}", now.as_nanos(), std::process::id()));
    let mut builder = fs::DirBuilder::new();
    // Inputs and outputs are the user's alone.
    builder.recursive(true).mode(0o700);
    for name in ["repository", "inputs", "outputs", "config"] {
        let path = folder.join(name);
        builder.create(&path).map_err(|error| not_written(&path, &error))?;
    }
    Ok(folder)
}

/// The folder of an execution by the working folder of its job.
#[must_use]
pub fn of(directory: Option<&str>) -> Option<PathBuf> {
    let folder = Path::new(directory?).parent()?;
    let is_ours = folder.parent()?.file_name() == Some(OsStr::new(EXECUTIONS));
    is_ours.then(|| folder.to_path_buf())
}

/// Writes the plan and the script.
///
/// # Errors
/// They can't be written.
pub fn write(folder: &Path, plan: &Plan) -> Result<()> {
    let text = serde_json::to_vec_pretty(plan).unwrap_or_default();
    let path = folder.join(FILE);
    fs::write(&path, text).map_err(|error| not_written(&path, &error))?;
    write_script(folder, plan)
}

/// Writes the script.
///
/// # Errors
/// It can't be written.
pub fn write_script(folder: &Path, plan: &Plan) -> Result<()> {
    let script = folder.join("run.sh");
    fs::write(&script, &plan.script).map_err(|error| not_written(&script, &error))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))
        .map_err(|error| not_written(&script, &error))
}

pub fn not_written(path: &Path, error: &std::io::Error) -> gpool_cli::failure::Failure {
    invalid(format!("can't write {}: {error}", path.display()))
}

/// Copies the working tree: in a Git repository without ignored files, else all of it.
///
/// # Errors
/// A file can't be copied.
pub fn copy_tree(project: &Path, target: &Path) -> Result<()> {
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed =
        Command::new("git").arg("-C").arg(project).args(list).stderr(Stdio::null()).output();
    let paths: Vec<PathBuf> = match listed {
        Ok(output) if output.status.success() => {
            let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
            names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect()
        }
        _ => return copy_files(project, target),
    };
    copy_paths(project, target, &paths)
}

/// Copies all files of a folder.
///
/// # Errors
/// A file can't be copied.
pub fn copy_files(source: &Path, target: &Path) -> Result<()> {
    let mut paths = Vec::new();
    walk(source, Path::new(""), &mut paths)
        .map_err(|error| invalid(format!("can't read {}: {error}", source.display())))?;
    copy_paths(source, target, &paths)
}

fn copy_paths(source: &Path, target: &Path, paths: &[PathBuf]) -> Result<()> {
    for path in paths {
        copy(&source.join(path), &target.join(path))
            .map_err(|error| invalid(format!("can't copy {}: {error}", path.display())))?;
    }
    Ok(())
}

/// The files below a folder, as paths relative to the root.
pub fn walk(root: &Path, below: &Path, paths: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            walk(root, &path, paths)?;
        } else {
            paths.push(path);
        }
    }
    Ok(())
}

/// Copies a file or a link. A file that is gone, or is no regular file, is left out.
fn copy(source: &Path, target: &Path) -> std::io::Result<()> {
    let Ok(kind) = source.symlink_metadata().map(|it| it.file_type()) else { return Ok(()) };
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    if kind.is_symlink() {
        // A requeued job copies again.
        drop(fs::remove_file(target));
        symlink(fs::read_link(source)?, target)?;
    } else if kind.is_file() {
        fs::copy(source, target)?;
    }
    Ok(())
}

/// Unpacks the files of a commit, and returns its hash.
///
/// # Errors
/// The project is no Git repository, or there is no such commit.
pub fn check_out(project: &Path, commit: &str, target: &Path) -> Result<String> {
    let hash = git(project, &["rev-parse", "--verify", "--quiet", &format!("{commit}^{{commit}}")]);
    let Some(hash) = hash.map(|text| text.trim().to_owned()).filter(|hash| !hash.is_empty()) else {
        return Err(invalid(format!("{} has no commit {commit:?}", project.display()))
            .why("without --adhoc, an execution runs the files of a commit")
            .tip("gpool vh exec run STEP --adhoc   (for the files of the working tree)"));
    };
    let failed = |why: &str| invalid(format!("can't read the files of commit {hash}: {why}"));
    let mut archive = Command::new("git");
    archive.arg("-C").arg(project).args(["archive", "--format=tar", &hash]);
    let mut archive =
        archive.stdout(Stdio::piped()).spawn().map_err(|error| failed(&error.to_string()))?;
    let stream = archive.stdout.take().map_or_else(Stdio::null, Stdio::from);
    let unpacked = Command::new("tar").arg("-x").arg("-C").arg(target).stdin(stream).status();
    let is_read = archive.wait().is_ok_and(|status| status.success());
    match unpacked {
        Ok(status) if status.success() && is_read => Ok(hash),
        Ok(_) => Err(failed("git archive or tar failed")),
        Err(error) => Err(failed(&error.to_string())),
    }
}

/// The output of a Git command, if it succeeds.
pub fn git(project: &Path, words: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    let output = command.arg("-C").arg(project).args(words).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A name with the characters that names of groups can have.
#[must_use]
pub fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    let plain = plain.trim_start_matches(['-', '.', '_']).chars().take(60).collect::<String>();
    if plain.is_empty() { "group".to_owned() } else { plain }
}
