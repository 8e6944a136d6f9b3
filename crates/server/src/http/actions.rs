//! What is done to jobs that exist: for one by its path, for many by a list, all or none.

use axum::Json;
use axum::extract::State;
use gpool_model::{Caller, Command, JobId, Refusal, Reply};
use gpool_wire::{JobChanged, List, Problem, Selection, SignalJobs, signal as signals};

use super::Api;
use super::asker::Asks;
use super::extract::{ApiError, JsonBody, Segment, job_id};
use super::submit::unexpected;

pub(crate) type Changed = Result<Json<List<JobChanged>>, ApiError>;

pub(crate) async fn carry_out(api: &Api, caller: Caller, command: Command) -> Changed {
    match api.handle.command(caller, command).await? {
        Reply::Jobs(jobs) => {
            let changed = jobs.into_iter();
            let changed = changed.map(|(id, state)| JobChanged { id: id.to_string(), state });
            Ok(Json(List::new(changed.collect())))
        }
        other => Err(unexpected(&other)),
    }
}

pub(crate) fn selected(ids: &[String]) -> Result<Vec<JobId>, ApiError> {
    if ids.is_empty() {
        let why = "it names no job; write {\"jobs\": [\"17\"]}".to_owned();
        return Err(Refusal::Invalid { field: "jobs".to_owned(), why }.into());
    }
    ids.iter().map(|id| job_id(id)).collect()
}

macro_rules! action {
    (
        $(#[$doc:meta])*
        $command:ident,
        $one:ident $path:literal $id:literal,
        $many:ident $path_many:literal $id_many:literal
    ) => {
        $(#[$doc])*
        #[utoipa::path(
            post, path = $path, operation_id = $id,
            params(("id" = String, Path, description = "The job")),
            responses(
                (status = 200, description = "The state it is in now", body = List<JobChanged>),
                (status = 403, description = "It is another user's", body = Problem,
                 content_type = "application/problem+json"),
                (status = 404, description = "There is no such job", body = Problem,
                 content_type = "application/problem+json"),
                (status = 409, description = "Its state does not allow that", body = Problem,
                 content_type = "application/problem+json"),
            )
        )]
        pub(crate) async fn $one(
            State(api): State<Api>,
            Asks(asker): Asks,
            Segment(id): Segment,
        ) -> Changed {
            let jobs = vec![job_id(&id)?];
            carry_out(&api, asker.caller.clone(), Command::$command { jobs }).await
        }

        $(#[$doc])*
        ///
        /// Many at once, all or none.
        #[utoipa::path(
            post, path = $path_many, operation_id = $id_many, request_body = Selection,
            responses(
                (status = 200, description = "The states they are in now", body = List<JobChanged>),
                (status = 403, description = "One is another user's", body = Problem,
                 content_type = "application/problem+json"),
                (status = 404, description = "There is no such job", body = Problem,
                 content_type = "application/problem+json"),
                (status = 409, description = "A state does not allow that", body = Problem,
                 content_type = "application/problem+json"),
            )
        )]
        pub(crate) async fn $many(
            State(api): State<Api>,
            Asks(asker): Asks,
            JsonBody(selection): JsonBody<Selection>,
        ) -> Changed {
            let jobs = selected(&selection.jobs)?;
            carry_out(&api, asker.caller.clone(), Command::$command { jobs }).await
        }
    };
}

action!(
    /// Ends a job: one that waits leaves the queue, one that runs is told to end.
    Cancel,
    cancel "/jobs/{id}/cancel" "jobs_cancel",
    cancel_many "/jobs/cancel" "jobs_cancel_many"
);
action!(
    /// Keeps a job that waits from being considered.
    Hold,
    hold "/jobs/{id}/hold" "jobs_hold",
    hold_many "/jobs/hold" "jobs_hold_many"
);
action!(
    /// Stops the processes of a running job where they are, until it is resumed.
    Pause,
    pause "/jobs/{id}/pause" "jobs_pause",
    pause_many "/jobs/pause" "jobs_pause_many"
);
action!(
    /// Lets a paused job go on when there is room.
    Resume,
    resume "/jobs/{id}/resume" "jobs_resume",
    resume_many "/jobs/resume" "jobs_resume_many"
);
/// Sends a signal to the processes of a running job.
#[utoipa::path(
    post, path = "/jobs/{id}/signal", operation_id = "jobs_signal", request_body = SignalJobs,
    params(("id" = String, Path, description = "The job")),
    responses(
        (status = 200, description = "The state it is in", body = List<JobChanged>),
        (status = 403, description = "It is another user's", body = Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "It does not run", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn signal(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
    JsonBody(body): JsonBody<SignalJobs>,
) -> Changed {
    if !body.jobs.is_empty() {
        let why = "the path names the job already; leave the list out".to_owned();
        return Err(Refusal::Invalid { field: "jobs".to_owned(), why }.into());
    }
    let signal = signals::number(&body.signal)?;
    let command = Command::Signal { jobs: vec![job_id(&id)?], signal };
    carry_out(&api, asker.caller.clone(), command).await
}

/// Sends a signal to the processes of running jobs, all or none.
#[utoipa::path(
    post, path = "/jobs/signal", operation_id = "jobs_signal_many", request_body = SignalJobs,
    responses(
        (status = 200, description = "The states they are in", body = List<JobChanged>),
        (status = 403, description = "One is another user's", body = Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "One does not run", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn signal_many(
    State(api): State<Api>,
    Asks(asker): Asks,
    JsonBody(body): JsonBody<SignalJobs>,
) -> Changed {
    let signal = signals::number(&body.signal)?;
    let command = Command::Signal { jobs: selected(&body.jobs)?, signal };
    carry_out(&api, asker.caller.clone(), command).await
}
