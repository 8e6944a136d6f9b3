//! The figures of a queue simulation over sizes, time and users, for plots. Each figure has an
//! object for each policy, with columns of equal length. Times are in seconds, from the first
//! submission.

pub mod fairness;
mod owners;
mod runs;
mod waits;
pub mod window;

use gpool_trace::Layout;
use gpool_trace::queue::Outcome;
use serde_json::{Value, json};

use owners::Owners;
use window::Window;

/// The figures of all policies; `None` if no job ran.
#[must_use]
pub fn of(played: &[(String, Outcome)], cluster: &Layout) -> Option<Value> {
    let (_, first) = played.first()?;
    let window = Window::of(played)?;
    let owners = Owners::of(first);
    Some(json!({
        "waits": waits::distribution(played),
        "sizes": waits::by_size(played),
        "times": waits::over_time(played, window),
        "fairness": fairness::over_time(played, window),
        "owners": owners.totals(played),
        "gpus": owners.over_time(played, window),
        "runs": runs::of(played, &owners, window, cluster),
    }))
}

/// The begins and the ends of intervals as columns.
fn columns(parts: &[(f64, f64)]) -> (Vec<f64>, Vec<f64>) {
    parts.iter().copied().unzip()
}
