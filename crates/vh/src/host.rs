//! `gpool vh-host`: runs a step on the host. The job of an execution is this program.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use gpool_cli::failure::Result;
use rustix::fs::{FlockOperation, flock};

use crate::failure::invalid;
use crate::members::{self, Group};
use crate::plan::{Members, Plan};
use crate::{config_files, folder, inputs, isolate, late};

/// The name of the verb.
pub const VERB: &str = "vh-host";

#[derive(Debug, Clone, Args)]
pub struct HostArgs {
    /// Folder of the execution
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Value of a parameter that a search has chosen
    #[arg(long, value_name = "NAME=VALUE")]
    value: Vec<String>,
}

/// The variables that name the folders of an execution.
#[must_use]
pub fn folders(at: &Path) -> [(&'static str, String); 4] {
    let path = |name: &str| at.join(name).display().to_string();
    [
        ("VH_CONFIG_DIR", path("config")),
        ("VH_INPUTS_DIR", path("inputs")),
        ("VH_OUTPUTS_DIR", path("outputs")),
        ("VH_REPOSITORY_DIR", path("repository")),
    ]
}

/// Prepares the execution and becomes its script.
///
/// # Errors
/// An input is missing, or the script can't be started.
pub fn run(args: &HostArgs) -> Result {
    let mut plan = Plan::read(&args.folder).map_err(invalid)?;
    let job = std::env::var("GPOOL_JOB_ID").ok();
    let mut group = None;
    let folder = match (plan.members, &job) {
        (Members::Tasks, _) => group.insert(Group::meet(&args.folder)?).folder.clone(),
        (Members::Jobs, Some(job)) => members::prepare(&args.folder, &members::of_job(job))?,
        (Members::One, _) | (Members::Jobs, None) => args.folder.clone(),
    };
    let folder = folder.as_path();
    // The plan keeps its marks: a requeued job asks again.
    let values = args.value.iter().filter_map(|text| text.split_once('='));
    let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
    late::fill(&mut plan, &values.collect::<Vec<_>>())?;
    folder::write_script(folder, &plan)?;
    let files = inputs::prepare(&plan, folder, inputs::Place::Host).map_err(invalid)?;
    config_files::write(&plan, &folder.join("config"), &files, job.as_deref(), group.as_ref())
        .map_err(invalid)?;
    let is_private = isolate::is_possible();
    let place = if is_private { Path::new("/valohai") } else { folder };
    let script = OsString::from(place.join("run.sh"));
    let mut command = match is_private {
        true => {
            let root = folder.join("root");
            fs::create_dir_all(&root)
                .map_err(|error| invalid(format!("can't make {}: {error}", root.display())))?;
            isolate::command(&plan, &root, folder, &[script])
        }
        false => {
            eprintln!(
                "gpool: this machine allows no user namespaces, so there is no /valohai; \
                 VH_INPUTS_DIR and similar variables name the folders"
            );
            if !plan.mounts.is_empty() {
                return Err(invalid("the step has mounts, which need user namespaces"));
            }
            Command::new(script)
        }
    };
    command.envs(group.iter().flat_map(Group::variables));
    command.envs(folders(place)).current_dir(folder.join("repository"));
    activate(&mut command, Path::new(&plan.venv));
    let error = command.exec();
    Err(invalid(format!("can't start the script of the step: {error}")))
}

/// Puts the virtual environment of the project first in `PATH`, and makes it if it is new.
fn activate(command: &mut Command, base: &Path) {
    let Some(venv) = venv(base) else {
        eprintln!("gpool: there is no virtual environment: python3 -m venv fails");
        return;
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let first = std::iter::once(venv.join("bin"));
    if let Ok(path) = std::env::join_paths(first.chain(std::env::split_paths(&path))) {
        command.env("PATH", path);
    }
    command.env("VIRTUAL_ENV", venv).env_remove("PYTHONHOME");
}

/// The virtual environment for the Python of this node. It sees the packages of the node.
fn venv(base: &Path) -> Option<PathBuf> {
    let version = "import sys; print('%d.%d' % sys.version_info[:2])";
    let version =
        Command::new("python3").args(["-c", version]).stderr(Stdio::null()).output().ok()?;
    let version = String::from_utf8(version.stdout).ok().filter(|_| version.status.success())?;
    let venv = PathBuf::from(format!("{}-{}", base.display(), version.trim()));
    fs::create_dir_all(venv.parent()?).ok()?;
    let lock = File::create(venv.with_extension("lock")).ok()?;
    // Two jobs of a project start at once.
    flock(&lock, FlockOperation::LockExclusive).ok()?;
    let is_made = venv.join("made");
    if is_made.exists() {
        return Some(venv);
    }
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--system-site-packages", "--clear"]).arg(&venv);
    let status = make.stdout(Stdio::null()).status().ok()?;
    // Written last, so that an interrupted installation is repeated.
    (status.success() && fs::write(is_made, "").is_ok()).then_some(venv)
}
