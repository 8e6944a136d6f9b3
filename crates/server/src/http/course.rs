//! What is done to jobs that says when they start, how long they may go on, or that they are run
//! again: for one by its path, for many by a list, all or none.

use axum::extract::State;
use gpool_model::{Command, Refusal, Timestamp};
use gpool_wire::{ExtendJobs, JobChanged, List, Problem, ReleaseJobs, RequeueJobs, Time};
use serde::Deserialize;
use utoipa::IntoParams;

use super::Api;
use super::actions::{Changed, carry_out, selected};
use super::asker::Asks;
use super::extract::{ApiError, JsonBody, Params, Segment, job_id};

/// When.
#[derive(Debug, Clone, Copy, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct At {
    /// When; absent: now.
    #[serde(default)]
    #[param(value_type = Option<String>, format = DateTime)]
    at: Option<Time>,
}

/// Whether to hold.
#[derive(Debug, Clone, Copy, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Hold {
    /// Keep it held then.
    #[serde(default)]
    hold: bool,
}

fn to_come(at: Option<Time>) -> Option<Timestamp> {
    at.map(|at| at.0)
}

fn named_twice() -> ApiError {
    let why = "the path names the job already; leave the list out".to_owned();
    Refusal::Invalid { field: "jobs".to_owned(), why }.into()
}

/// Lets a held job be considered again, now or at a moment.
#[utoipa::path(
    post, path = "/jobs/{id}/release", operation_id = "jobs_release",
    params(("id" = String, Path, description = "The job"), At),
    responses(
        (status = 200, description = "The state it is in now", body = List<JobChanged>),
        (status = 403, description = "It is another user's", body = Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such job", body = Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "It is not held", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn release(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
    Params(At { at }): Params<At>,
) -> Changed {
    let command = Command::Release { jobs: vec![job_id(&id)?], at: to_come(at) };
    carry_out(&api, asker.caller.clone(), command).await
}

/// Lets held jobs be considered again, now or at a moment, all or none.
#[utoipa::path(
    post, path = "/jobs/release", operation_id = "jobs_release_many", request_body = ReleaseJobs,
    responses(
        (status = 200, description = "The states they are in now", body = List<JobChanged>),
        (status = 403, description = "One is another user's", body = Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such job", body = Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "One is not held", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn release_many(
    State(api): State<Api>,
    Asks(asker): Asks,
    JsonBody(body): JsonBody<ReleaseJobs>,
) -> Changed {
    let command = Command::Release { jobs: selected(&body.jobs)?, at: to_come(body.at) };
    carry_out(&api, asker.caller.clone(), command).await
}

/// Stops a job that runs, and puts it back to be run again as its next attempt.
#[utoipa::path(
    post, path = "/jobs/{id}/requeue", operation_id = "jobs_requeue",
    params(("id" = String, Path, description = "The job"), Hold),
    responses(
        (status = 200, description = "The state it is in now", body = List<JobChanged>),
        (status = 403, description = "It is another user's", body = Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such job", body = Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "It does not run, or is not to be run again", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn requeue(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
    Params(Hold { hold }): Params<Hold>,
) -> Changed {
    let command = Command::Requeue { jobs: vec![job_id(&id)?], hold };
    carry_out(&api, asker.caller.clone(), command).await
}

/// Stops jobs that run, and puts them back to be run again, all or none.
#[utoipa::path(
    post, path = "/jobs/requeue", operation_id = "jobs_requeue_many", request_body = RequeueJobs,
    responses(
        (status = 200, description = "The states they are in now", body = List<JobChanged>),
        (status = 403, description = "One is another user's", body = Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such job", body = Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "One does not run, or is not to be run again", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn requeue_many(
    State(api): State<Api>,
    Asks(asker): Asks,
    JsonBody(body): JsonBody<RequeueJobs>,
) -> Changed {
    let command = Command::Requeue { jobs: selected(&body.jobs)?, hold: body.hold };
    carry_out(&api, asker.caller.clone(), command).await
}

/// Changes the time limit of a job, running or not. While it runs, its owner may make it longer by
/// what the policy says (`user_extend_max`), and shorter.
#[utoipa::path(
    post, path = "/jobs/{id}/extend", operation_id = "jobs_extend", request_body = ExtendJobs,
    params(("id" = String, Path, description = "The job")),
    responses(
        (status = 200, description = "The state it is in", body = List<JobChanged>),
        (status = 400, description = "It is no limit that it can have", body = Problem,
         content_type = "application/problem+json"),
        (status = 403, description = "It is another user's, or more than users may add",
         body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It ends already", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn extend(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
    JsonBody(body): JsonBody<ExtendJobs>,
) -> Changed {
    if !body.jobs.is_empty() {
        return Err(named_twice());
    }
    let command = Command::Extend { jobs: vec![job_id(&id)?], change: body.check()? };
    carry_out(&api, asker.caller.clone(), command).await
}

/// Changes the time limits of jobs, running or not, all or none.
#[utoipa::path(
    post, path = "/jobs/extend", operation_id = "jobs_extend_many", request_body = ExtendJobs,
    responses(
        (status = 200, description = "The states they are in", body = List<JobChanged>),
        (status = 400, description = "It is no limit that one of them can have", body = Problem,
         content_type = "application/problem+json"),
        (status = 403, description = "One is another user's, or more than users may add",
         body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "One ends already", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn extend_many(
    State(api): State<Api>,
    Asks(asker): Asks,
    JsonBody(body): JsonBody<ExtendJobs>,
) -> Changed {
    let command = Command::Extend { jobs: selected(&body.jobs)?, change: body.check()? };
    carry_out(&api, asker.caller.clone(), command).await
}
