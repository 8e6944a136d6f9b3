//! The state folder and the folder of the socket. No other user may be able to replace their files.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_client::socket::stranger_on;
use gpool_wire::catalogue;

/// Makes the folders.
///
/// # Errors
/// They can't be made, or another user could replace their files.
pub fn make(state_dir: &Path, socket: &Path) -> Result<()> {
    make_state(state_dir)?;
    if let Some(folder) = socket.parent() {
        refuse_a_stranger(folder, "--socket")?;
        let is_for_all = rustix::process::geteuid().is_root();
        make_folder(folder, if is_for_all { 0o755 } else { 0o700 })?;
        // Checked again: another user may have made the folder in between.
        refuse_a_stranger(folder, "--socket")?;
    }
    Ok(())
}

/// Makes the state folder of a server or agent.
///
/// # Errors
/// It can't be made, or another user could replace its files.
pub fn make_state(state_dir: &Path) -> Result<()> {
    refuse_a_stranger(state_dir, "--state-dir")?;
    // Jobs of other users can open their own files in it but not list it.
    make_folder(state_dir, 0o711)?;
    refuse_an_open_folder(state_dir)
}

fn make_folder(path: &Path, mode: u32) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(mode).create(path);
    made.map_err(|error| {
        let what = format!("can't create the folder {}: {error}", path.display());
        Failure::new(errors::BAD_DIRECTORY, what)
            .exit_with(Exit::FAILED)
            .tip("choose another with --state-dir and --socket")
    })
}

/// Refuses a folder of another user: they could replace its files.
fn refuse_a_stranger(folder: &Path, flag: &str) -> Result<()> {
    let uid = rustix::process::geteuid().as_raw();
    let Some(stranger) = stranger_on(folder, uid) else { return Ok(()) };
    let what = format!("{} can't be used", folder.display());
    Err(Failure::new(catalogue::SOCKET_NOT_OURS, what)
        .why(format!("user {} made {}", stranger.uid, stranger.path.display()))
        .tip(format!("gpool up {flag} PATH   (in a folder of your own, such as your home)")))
}

/// Refuses a folder that other users may write to: they could replace the store.
fn refuse_an_open_folder(path: &Path) -> Result<()> {
    let refused = |what: &str| {
        Failure::new(errors::BAD_DIRECTORY, format!("the state folder {} {what}", path.display()))
            .exit_with(Exit::FAILED)
            .tip("choose your own with --state-dir; gpool up creates it")
    };
    let about = std::fs::metadata(path).map_err(|error| refused(&format!("is closed: {error}")))?;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if about.uid() != uid {
        return Err(refused(&format!("belongs to another user (uid {})", about.uid())));
    }
    // A user's own group has no other members.
    let is_open = about.mode() & 0o002 != 0 || (about.mode() & 0o020 != 0 && about.gid() != gid);
    if is_open { Err(refused("is writable for other users")) } else { Ok(()) }
}
