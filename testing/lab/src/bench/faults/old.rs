//! Opens a state folder of an earlier version. The caller names it; the repository has some.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use gpool_cli::failure::Result;

use super::rig::{Rig, Stop, shell};
use super::{Options, Outcome};
use crate::bench::failed;
use crate::bench::figure::Figure;

/// Opens a copy of it, and runs a job there.
pub fn measure(options: &Options, stop: &Stop) -> Result<Outcome> {
    let Some(kept) = &options.kept else {
        return Ok(Outcome::skipped("no old state folder is given (--kept)"));
    };
    let mut rig = Rig::new("sim:2xH100-80G", stop)?;
    take(kept, &rig.path("kept"))?;
    let holds_store = |path: &PathBuf| path.join("store.db").exists();
    let folder = [rig.path("kept"), rig.path("kept/state")].into_iter().find(holds_store);
    let folder = folder.ok_or_else(|| failed(format!("{} has no store", kept.display())))?;
    std::fs::rename(&folder, rig.state()).map_err(|error| failed(format!("no state: {error}")))?;
    let began = Instant::now();
    rig.start()?;
    let opened = began.elapsed().as_secs_f64();
    let id = rig.submit(&shell("exit 3"))?;
    let n_wrong = u32::from(rig.ended(&id)?.run.exit_code != Some(3));
    let is_sound = rig.gpool(&["verify", &rig.state().display().to_string()]).is_ok();
    rig.end()?;
    let figures = vec![
        Figure::new("upgrade_s", "until a server answers", opened, "s").below(2.0),
        Figure::new("upgrade_wrong", "jobs that failed", f64::from(n_wrong), "jobs").exactly(0.0),
        Figure::new("upgrade_damage", "damage found by verify", f64::from(!is_sound), "")
            .exactly(0.0),
    ];
    Ok(Outcome::Done { did: format!("opened a copy of {}", kept.display()), figures })
}

/// Copies a folder, or unpacks an archive of one.
fn take(kept: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir(to).map_err(|error| failed(format!("no folder: {error}")))?;
    let mut command = match kept.is_dir() {
        true => Command::new("cp"),
        false => Command::new("tar"),
    };
    match kept.is_dir() {
        true => command.arg("-a").arg(kept.join(".")).arg(to),
        false => command.args(["--extract", "--file"]).arg(kept).arg("--directory").arg(to),
    };
    let done = command.stdin(Stdio::null()).output();
    match done {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(failed(format!("can't use {}", kept.display()))
            .why(String::from_utf8_lossy(&done.stderr).into_owned())),
        Err(error) => Err(failed(format!("can't use {}: {error}", kept.display()))),
    }
}
