//! Containers that stayed behind because their engine's daemon was away when their tasks ended.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use gpool_shepherd::container::{TaskEngine, name, name_prefix};
use gpool_shepherd::layout::{Layout, claimed_task};

/// Removes the containers of this agent without a claim. A task that has not ended has one: its
/// claim is older than its container.
pub(crate) fn remove(engine: &TaskEngine, layout: &Layout) {
    let prefix = name_prefix(layout.state());
    let Some(words) = engine.list(&prefix) else { return };
    let Some(listed) = output(&words) else { return };
    let Ok(claims) = std::fs::read_dir(layout.tasks()) else { return };
    let tasks = claims.flatten().filter_map(|it| claimed_task(it.file_name().to_str()?));
    let claimed: BTreeSet<String> = tasks.map(|task| name(layout.state(), task)).collect();
    let is_orphan = |name: &&str| name.starts_with(&prefix) && !claimed.contains(*name);
    for orphan in listed.lines().map(str::trim).filter(is_orphan) {
        tracing::warn!(container = orphan, "removing a container of an earlier task");
        let _ = engine.remove(orphan).and_then(|words| output(&words));
    }
}

/// What a command of the engine prints, if it succeeds.
fn output(words: &[String]) -> Option<String> {
    let mut command = Command::new(words.first()?);
    command.args(&words[1..]).stdin(Stdio::null()).stderr(Stdio::null()).current_dir("/");
    let output = command.output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}
