//! Events as lines: `gpool events`.

use gpool_wire::{Event, EventKind};

use super::safe::safe;
use super::view::View;
use super::words::state;

/// One event as a line; nothing for one of a kind that this version does not know.
#[must_use]
pub fn line(event: &Event, view: &View<'_>) -> Option<String> {
    let what = match &event.kind {
        EventKind::JobState { job, state: now, exit_code } => {
            let exit = exit_code.map(|code| format!(" (exit {code})")).unwrap_or_default();
            format!("job {job} {}{exit}", state(now.as_str()))
        }
        EventKind::NodeChanged { node } => format!("node {node} changed"),
        EventKind::Resync => "some events were missed".to_owned(),
        EventKind::Other => return None,
    };
    let time = view.clock.second(event.time, view.now);
    Some(format!("{time}  {}", safe(&what)))
}
