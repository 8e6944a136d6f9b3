//! The checks of `gpool doctor` beside jobs: notifications and the systemd unit.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use gpool_cli::render::words::count;
use gpool_client::Client;
use gpool_wire::{Notification, Status};

use super::{Probe, less, ok};
use crate::systemd::{Daemon, ServiceScope};
use crate::verbs::version::VERSION;

/// Most addresses in one line.
const NAMED_MAX: usize = 3;

/// Waiting notifications and failing addresses; `None` if none was ever sent.
pub(super) fn notifications(client: &Client, status: &Status) -> Option<Probe> {
    let counts = status.notifications;
    if counts.waiting + counts.taken + counts.given_up + counts.dropped == 0 {
        return None;
    }
    let what = "notifications";
    let all = client.notifications().ok()?.items;
    let failing = failing(&all);
    let said = |parts: &[(u64, &str)]| {
        let parts = parts.iter().filter(|(n, _)| *n > 0);
        parts.map(|(n, word)| format!("{n} {word}")).collect::<Vec<_>>().join(", ")
    };
    let text = said(&[
        (counts.waiting, "waiting"),
        (counts.taken, "taken"),
        (counts.given_up, "given up"),
        (counts.dropped, "dropped"),
    ]);
    if failing.is_empty() && counts.given_up + counts.dropped == 0 {
        return Some(ok(what, text));
    }
    let named: Vec<String> = failing
        .iter()
        .take(NAMED_MAX)
        .map(|(to, (n, why))| format!("{to}: {}, {why}", count(*n, "message")))
        .collect();
    let named = if named.is_empty() { String::new() } else { format!("; {}", named.join("; ")) };
    Some(less(what, format!("{text}{named}; gpool notify shows more")))
}

/// The failing addresses, each with the number of waiting notifications and the last error.
fn failing(all: &[Notification]) -> BTreeMap<&str, (u64, &str)> {
    let mut failing: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
    for message in all {
        if let Some(why) = &message.why {
            let (n, last) = failing.entry(&message.to).or_insert((0, why));
            (*n, *last) = (*n + 1, why);
        }
    }
    failing
}

/// Checks whether a unit exists, whether systemd starts it at boot, and whether it starts this
/// program. If a server answers, only a unit of its user counts.
pub(super) fn service(server_user: Option<&str>, me: &str) -> Option<Probe> {
    let what = "service";
    let scopes = match server_user {
        Some("root") => vec![ServiceScope::System],
        Some(user) if user == me => vec![ServiceScope::User],
        Some(_) => return None,
        None => vec![ServiceScope::System, ServiceScope::User],
    };
    let found =
        scopes.into_iter().find_map(|scope| Some((scope, scope.present_path(Daemon::Server)?)));
    let Some((scope, path)) = found else {
        let runs = Path::new("/run/systemd/system").exists();
        return runs.then(|| less(what, "none; gpool up --systemd installs one"));
    };
    let shown = path.display();
    let unit = std::fs::read_to_string(&path).unwrap_or_default();
    let Some(program) = program_of(&unit) else {
        return Some(less(what, format!("{shown} does not start gpool")));
    };
    let mut faults = Vec::new();
    match version_of(&program) {
        Some(version) if version == VERSION => {}
        Some(version) => faults.push(format!("starts {program} {version}, and this is {VERSION}")),
        None => faults.push(format!("starts {program}, which does not run")),
    }
    match (unit_state(scope, "is-enabled"), unit_state(scope, "is-active")) {
        (None, _) | (_, None) => faults.push("systemd does not answer here".to_owned()),
        (Some(enabled), Some(active)) => {
            let wrong = [(enabled, "enabled"), (active, "active")];
            let wrong = wrong.into_iter().filter(|(is, wanted)| is != wanted);
            faults.extend(wrong.map(|(is, wanted)| format!("is {is}, not {wanted}")));
        }
    }
    Some(match faults.is_empty() {
        true => ok(what, format!("{shown} is enabled and runs {VERSION}")),
        false => less(what, format!("{shown} {}; gpool up --systemd --force", faults.join(", "))),
    })
}

/// The program that a unit starts.
pub fn program_of(unit: &str) -> Option<String> {
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart="))?;
    let program = match line.strip_prefix('"') {
        Some(rest) => rest.split('"').next()?,
        None => line.split_whitespace().next()?,
    };
    Some(program.to_owned())
}

fn version_of(program: &str) -> Option<String> {
    let ran = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&ran.stdout);
    said.trim().strip_prefix("gpool ").map(str::to_owned)
}

/// The one-word answer of systemctl about the unit; `None` if systemd does not run.
fn unit_state(scope: ServiceScope, question: &str) -> Option<String> {
    let (program, before) = scope.systemctl().split_first()?;
    let mut command = Command::new(program);
    let ran =
        command.args(before).args([question, Daemon::Server.unit_name()]).stdin(Stdio::null());
    let ran = ran.stderr(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&ran.stdout);
    said.lines().next().map(|line| line.trim().to_owned()).filter(|word| !word.is_empty())
}
