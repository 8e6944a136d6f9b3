//! Tells the state machine which pending jobs did not start by the p90 of their first forecast.
//! It decides whether their owners get a message, and remembers that they got it.

use std::sync::Arc;
use std::time::Duration;

use gpool_model::notify::{Late, LateJob};
use gpool_model::{Command, Reason, Refusal, Timestamp};
use gpool_world::JobRow;
use tokio::time::Instant as Moment;

use crate::handle::{CoreHandle, server_itself};
use crate::view::View;

/// Reports the jobs that missed their forecasts. Returns when the next job could miss its own.
///
/// # Errors
/// The server is stopping.
pub(super) async fn report(handle: &CoreHandle) -> Result<Option<Moment>, Refusal> {
    let forecaster = Arc::clone(&handle.shared.insight.forecaster);
    if forecaster.calibrator().first_forecasts.is_empty() {
        return Ok(None);
    }
    let look = move |view: &View<'_>| {
        let (learnt, last) = (forecaster.calibrator(), forecaster.last());
        let told = learnt.first_forecasts.iter().filter_map(|(id, told)| {
            let row = view.world.job(*id)?;
            (row.job.version == told.version && row.job.reports_late()).then_some((row, told))
        });
        let mut explainer = None;
        let (mut late, mut next) = (Vec::new(), None::<Timestamp>);
        for (row, told) in told {
            let at = told.is_missed_after();
            if at > view.now {
                next = Some(next.map_or(at, |next| next.min(at)));
                continue;
            }
            let explainer = explainer.get_or_insert_with(|| view.explainer());
            let (reasons, _) = explainer.decisive(row, Reason::LISTED_MAX);
            let eta = last.eta_of(row.job.id);
            late.push(LateJob {
                job: row.job.id,
                version: told.version,
                late: Late {
                    made_at: told.at,
                    p90: told.p90,
                    reason: reasons.first().map(|reason| text(row, reason)),
                    new_p50: eta.and_then(|eta| eta.p50),
                    new_p90: eta.and_then(|eta| eta.p90),
                },
            });
        }
        (late, next.map(|at| at.since(view.now)))
    };
    let (jobs, next) = handle.query(look).await?;
    if !jobs.is_empty() {
        handle.command(server_itself(handle), Command::ReportLate { jobs }).await?;
    }
    Ok(next.map(|wait| Moment::now() + Duration::from_millis(wait.get())))
}

fn text(row: &JobRow, reason: &Reason) -> Arc<str> {
    Arc::from(gpool_wire::Reason::of_job(&row.job, reason, true).text)
}
