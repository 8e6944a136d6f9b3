//! Reasons of waiting jobs as sentences for one reader: `you` for the reader, and local times. The
//! server knows neither the reader's name for themselves nor the time zone.

use gpool_wire::{Reason, Time};

use super::view::View;

/// Phrases about a job's user, and the same to that user.
const TO_USER: &[(&str, &str)] = &[
    ("Its user holds", "You hold"),
    ("Its user runs", "You run"),
    ("Its user has", "You have"),
    ("its user releases", "you release"),
    ("their limit", "your limit"),
];

/// A reason of a job of `user`, without the final period:
/// `It needs 4 GPUs, and 2 are free`.
#[must_use]
pub fn sentence(reason: &Reason, user: &str, view: &View<'_>) -> String {
    let mut text = without_past(reason, view);
    if let "quota_user" | "quota_user_in_project" | "user_slots" | "held_by_user" = &*reason.code {
        text = match user == view.me {
            true => TO_USER.iter().fold(text, |text, (from, to)| text.replace(from, to)),
            false => text.replace("Its user", user),
        };
    }
    view.clock.localized(&view.addressed(&text), view.now)
}

/// A reason for a list of jobs, where the subject is clear: `needs 4 GPUs, and 2 are free`.
#[must_use]
pub fn brief(reason: &Reason, user: &str, view: &View<'_>) -> String {
    let text = sentence(reason, user, view);
    text.strip_prefix("It ").map(str::to_owned).unwrap_or(text)
}

/// Why a job waits, as a sentence that names the job: `job 4 waits. It needs 4 GPUs, …`,
/// `job 4 is held by admin root`.
#[must_use]
pub fn of_job(id: &str, reason: &Reason, user: &str, view: &View<'_>) -> String {
    let text = sentence(reason, user, view);
    let is_state = |rest: &&str| ["waits ", "is "].iter().any(|verb| rest.starts_with(verb));
    match text.strip_prefix("It ").filter(is_state) {
        Some(rest) => format!("job {id} {rest}"),
        None => format!("job {id} waits. {text}"),
    }
}

/// The text without the beginning of a period that has begun.
fn without_past(reason: &Reason, view: &View<'_>) -> String {
    let from = reason.facts.get("from").and_then(|from| from.as_str()?.parse::<Time>().ok());
    match from {
        Some(from) if from <= view.now => {
            reason.text.replace(&format!(" from {}", from.short()), "")
        }
        _ => reason.text.clone(),
    }
}
