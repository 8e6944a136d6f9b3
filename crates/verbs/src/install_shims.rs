//! `gpool install-shims`: makes links with the names of other schedulers' commands, so that scripts
//! that call these reach gpool.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use clap::Args;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::json;
use gpool_cli::session::Session;
use gpool_compat::SHIMS;
use gpool_compat::shim::Family;
use serde_json::json;

#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Put FOLDER into PATH, before the Slurm, gflow or Valohai client to replace. \
    If the folder has another file with one of these names, the command changes nothing. gpool \
    help slurm, gpool help gflow and gpool help valohai describe the commands."
)]
pub struct InstallShimsArgs {
    /// Create sbatch srun salloc squeue scancel scontrol sinfo sacct sacctmgr sstat seff sreport
    /// sshare sprio
    #[arg(long, required_unless_present_any = ["gflow", "valohai"])]
    slurm: bool,
    /// Create gflowd gbatch grun gqueue ginfo gjob gcancel gctl gstats
    #[arg(long)]
    gflow: bool,
    /// Create vh
    #[arg(long)]
    valohai: bool,
    /// Folder for the links
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Remove the links to gpool instead
    #[arg(long)]
    remove: bool,
    /// Replace links to another gpool
    #[arg(long)]
    force: bool,
}

/// The file that already has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum There {
    Nothing,
    /// A link to this program.
    Ours,
    /// A link to another file called gpool.
    OtherGpool,
    Foreign,
}

/// Runs the verb.
///
/// # Errors
/// The folder can't be written, or another file has one of the names; then nothing is changed.
pub fn run(args: &InstallShimsArgs, session: &Session) -> Result {
    let program = std::env::current_exe().map_err(|e| {
        Failure::new(errors::INTERNAL, format!("can't find the program gpool: {e}"))
    })?;
    let is_meant = |family| match family {
        Family::Slurm => args.slurm,
        Family::Gflow => args.gflow,
        Family::Valohai => args.valohai,
    };
    let names = SHIMS.iter().filter(|shim| is_meant(shim.family)).map(|shim| shim.name);
    let links: Vec<(PathBuf, There)> = names
        .map(|name| args.folder.join(name))
        .map(|path| {
            let there = there(&path, &program);
            (path, there)
        })
        .collect();
    if !args.remove {
        refuse_foreign(&links, args.force)?;
        std::fs::create_dir_all(&args.folder).map_err(|error| not_made(&args.folder, &error))?;
    }
    let mut changed = Vec::new();
    for (path, there) in &links {
        let is_ours = matches!(there, There::Ours | There::OtherGpool);
        if args.remove && is_ours || *there == There::OtherGpool {
            std::fs::remove_file(path).map_err(|error| not_made(path, &error))?;
        }
        if !args.remove && *there != There::Ours {
            symlink(&program, path).map_err(|error| not_made(path, &error))?;
        }
        if args.remove && is_ours || !args.remove && *there != There::Ours {
            changed.push(path.display().to_string());
        }
    }
    if session.global.json {
        let items: Vec<_> = changed.iter().map(|path| json!({ "path": path })).collect();
        session.screen.data(&json::list(&items))?;
        return Ok(Exit::OK);
    }
    session.screen.data(&changed.iter().map(|path| format!("{path}\n")).collect::<String>())?;
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folder = std::path::absolute(&args.folder).unwrap_or_else(|_| args.folder.clone());
    if !args.remove && !std::env::split_paths(&folders).any(|other| other == folder) {
        let text = format!("note: put it into PATH: export PATH={}:$PATH", folder.display());
        session.screen.note(&text);
    }
    Ok(Exit::OK)
}

fn there(path: &Path, program: &Path) -> There {
    match std::fs::read_link(path) {
        Ok(target) if target == program => There::Ours,
        Ok(target) if target.file_name().is_some_and(|name| name == "gpool") => There::OtherGpool,
        Ok(_) => There::Foreign,
        Err(_) if path.symlink_metadata().is_ok() => There::Foreign,
        Err(_) => There::Nothing,
    }
}

fn refuse_foreign(links: &[(PathBuf, There)], force: bool) -> Result<()> {
    let of = |wanted: There| links.iter().filter(move |(_, there)| *there == wanted);
    if let Some((path, _)) = of(There::Foreign).next() {
        let what = format!("{} already exists, and gpool did not create it", path.display());
        return Err(Failure::new(errors::USAGE, what)
            .why("gpool does not replace it; nothing was changed")
            .tip("choose an empty folder, and put it first in PATH"));
    }
    match of(There::OtherGpool).next() {
        Some((path, _)) if !force => {
            let what = format!("{} is a link to another gpool", path.display());
            Err(Failure::new(errors::USAGE, what).tip("--force   (replaces such links)"))
        }
        _ => Ok(()),
    }
}

fn not_made(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(errors::NOT_WRITTEN, format!("{}: {error}", path.display()))
}
