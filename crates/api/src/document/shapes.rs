//! Schemas that are no types of the API: several answers of one route, and words.

use gpool_wire::{BulkAnswer, Document, Forecast, List};
use utoipa::ToSchema;
use utoipa::openapi::schema::Type;
use utoipa::openapi::{Object, ObjectBuilder};

/// Returns the schema of the streams of a job's output.
pub(crate) fn stream_words() -> Object {
    let words = ["stdout", "stderr", "both"];
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).build()
}

/// The answer with status 200 to a submission.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it is a schema")]
pub(crate) enum ForecastOrJob {
    /// Answer to a dry run.
    Forecast(Box<Document<Forecast>>),
    /// Answer to a repeated request.
    Job(Box<Document<gpool_wire::Job>>),
}

/// The answer with status 200 to a bulk submission.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it is a schema")]
pub(crate) enum ForecastsOrBulkAnswer {
    /// With `dry_run`.
    Forecasts(List<Forecast>),
    /// For a repeated request.
    BulkAnswer(Document<BulkAnswer>),
}
