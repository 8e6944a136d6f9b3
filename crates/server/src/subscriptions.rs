//! Looks for news of projects and users that were subscribed to.

use std::time::{Duration, Instant};

use gpool_control::controller::BudgetController;
use gpool_model::Refusal;
use jiff::tz::TimeZone;
use tokio::time::MissedTickBehavior;

use crate::clock::now;
use crate::handle::CoreHandle;
use crate::{controllers, digest};

/// Pause between two looks: the history has one more minute then.
const PAUSE: Duration = Duration::from_secs(60);

/// Looks every minute, until the server stops.
pub async fn keep(handle: CoreHandle) {
    let mut timer = tokio::time::interval(PAUSE);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        timer.tick().await;
        if look(&handle).await == Err(Refusal::ShuttingDown) {
            return;
        }
    }
}

/// Compares costs with budgets, and sends the digests that are due. A failure is logged.
///
/// # Errors
/// The server is stopping.
pub async fn look(handle: &CoreHandle) -> Result<(), Refusal> {
    let compared = compare_budgets(handle).await;
    log("can't compare costs with budgets", compared)?;
    let reported = digest::report(handle, now(), &TimeZone::system()).await;
    log("can't make digests", reported)
}

/// Compares the cost of this month with the budgets.
///
/// # Errors
/// The history can't be read, or the server is stopping.
pub async fn compare_budgets(handle: &CoreHandle) -> Result<(), Refusal> {
    controllers::round(handle, &mut BudgetController, Instant::now()).await
}

fn log(what: &str, result: Result<(), Refusal>) -> Result<(), Refusal> {
    match result {
        Err(Refusal::ShuttingDown) => Err(Refusal::ShuttingDown),
        Err(refusal) => {
            tracing::warn!(?refusal, "{what}");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}
