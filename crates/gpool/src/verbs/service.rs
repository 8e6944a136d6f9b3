//! `gpool up --systemd`, `gpool agent --systemd` and `gpool down --systemd`: systemd services.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;

use super::init::write_new;
use crate::systemd::{Daemon, ServiceScope, unit};

/// The flags that choose a service.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Service")]
pub struct ServiceFlags {
    /// Install (or remove) a systemd unit instead of starting (or stopping) it
    #[arg(long)]
    pub systemd: bool,
    /// With --systemd: this user's service
    #[arg(long, requires = "systemd", conflicts_with = "system")]
    user: bool,
    /// With --systemd: the machine's service
    #[arg(long, requires = "systemd")]
    system: bool,
}

impl ServiceFlags {
    fn scope(self) -> ServiceScope {
        match (self.user, self.system) {
            (true, _) => ServiceScope::User,
            (_, true) => ServiceScope::System,
            _ => ServiceScope::usual(),
        }
    }

    fn path(self, daemon: Daemon<'_>) -> Result<PathBuf> {
        self.scope().path(daemon).ok_or_else(|| {
            Failure::new(errors::BAD_DIRECTORY, "there is no home folder for the unit").tip(
                format!(
                    "gpool {} --systemd --user --print > {}",
                    daemon.verb(),
                    daemon.unit_name()
                ),
            )
        })
    }
}

#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Service")]
pub struct InstallFlags {
    /// With --systemd: enable and start the service at once
    #[arg(long, requires = "systemd")]
    now: bool,
    /// With --systemd: print the unit without writing it
    #[arg(long, requires = "systemd")]
    pub print: bool,
    /// With --systemd: replace an existing unit and rename it to .old
    #[arg(long, requires = "systemd")]
    force: bool,
}

/// Writes the unit unless it is there already, and starts the service with `--now`.
///
/// # Errors
/// A unit exists, it can't be written, or systemd refuses.
pub fn install(
    daemon: Daemon<'_>,
    flags: ServiceFlags,
    what: InstallFlags,
    session: &Session,
) -> Result {
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(errors::INTERNAL, format!("can't find this program: {error}"))
    })?;
    let text = unit(daemon, flags.scope(), &program);
    if what.print {
        session.screen.data(&text)?;
        return Ok(Exit::OK);
    }
    if what.now {
        // Nothing is written where no systemd runs.
        systemctl(daemon, flags, &["daemon-reload"])?;
    }
    let present = flags.scope().present_path(daemon);
    let is_same = |path: &PathBuf| std::fs::read_to_string(path).is_ok_and(|it| it == text);
    let path = match present.filter(is_same) {
        Some(path) => path,
        None => {
            let path = flags.path(daemon)?;
            write_new(&path, &text, what.force)?;
            path
        }
    };
    session.screen.data(&format!("{}\n", path.display()))?;
    let steps: [&[&str]; 2] = [&["daemon-reload"], &["enable", "--now", daemon.unit_name()]];
    if what.now {
        return steps.iter().try_for_each(|step| systemctl(daemon, flags, step)).map(|()| Exit::OK);
    }
    session.screen.note("start it, now and at each boot:");
    for step in steps {
        session.screen.note(&format!("  {}", line(flags, step)));
    }
    if flags.scope() == ServiceScope::User {
        session.screen.note("to run it while you are logged out: loginctl enable-linger");
    }
    Ok(Exit::OK)
}

/// Stops the service and removes the unit, except that of a package. Jobs go on.
///
/// # Errors
/// There is no unit, or it can't be removed.
pub fn uninstall(flags: ServiceFlags, session: &Session) -> Result {
    let daemon = Daemon::Server;
    let path = flags.path(daemon)?;
    let present = flags.scope().present_path(daemon);
    if let Some(packaged) = present.as_ref().filter(|present| **present != path) {
        systemctl(daemon, flags, &["disable", "--now", daemon.unit_name()])?;
        session.screen.note("stopped and disabled; running jobs continue");
        session.screen.data(&format!("{}\n", packaged.display()))?;
        return Ok(Exit::OK);
    }
    if present.is_none() {
        let what = format!("there is no unit {}", path.display());
        return Err(Failure::new(errors::NO_UNIT, what)
            .tip("gpool down --systemd --system")
            .tip("gpool down   (stops a server that was started without systemd)"));
    }
    // Without a running systemd there is nothing to stop.
    let stopped = systemctl(daemon, flags, &["disable", "--now", daemon.unit_name()]);
    std::fs::remove_file(&path).map_err(|error| {
        let what = format!("can't remove {}: {error}", path.display());
        Failure::new(errors::NOT_WRITTEN, what).tip("sudo gpool down --systemd --system")
    })?;
    match stopped.and_then(|()| systemctl(daemon, flags, &["daemon-reload"])) {
        Ok(()) => session.screen.note("stopped and removed; running jobs continue"),
        Err(failure) => session.screen.warn(failure.what()),
    }
    session.screen.data(&format!("{}\n", path.display()))?;
    Ok(Exit::OK)
}

fn line(flags: ServiceFlags, step: &[&str]) -> String {
    let words = flags.scope().systemctl().iter().chain(step).copied();
    words.collect::<Vec<_>>().join(" ")
}

fn systemctl(daemon: Daemon<'_>, flags: ServiceFlags, step: &[&str]) -> Result<()> {
    let (program, before) = flags.scope().systemctl().split_first().expect("it names a program");
    let mut command = Command::new(program);
    let ran = command.args(before).args(step).stdin(Stdio::null()).output();
    let failed = |why: String| {
        let what = format!("{} did not work", line(flags, step));
        Failure::new(errors::SYSTEMD, what)
            .why(why)
            .tip(format!("gpool {}   (without systemd)", daemon.verb()))
    };
    match ran {
        Ok(ran) if ran.status.success() => Ok(()),
        Ok(ran) => {
            let text = String::from_utf8_lossy(&ran.stderr);
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            Err(failed(lines.collect::<Vec<_>>().join(" ")))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(failed("there is no systemctl on this machine".to_owned()))
        }
        Err(error) => Err(failed(error.to_string())),
    }
}
