//! Schemas of enumerations that the model defines, and of IDs.

use gpool_model::job::JobState;
use gpool_model::policy::DeviceStrategy;
use utoipa::openapi::schema::Type;
use utoipa::openapi::{Array, Object, ObjectBuilder};

use crate::device_words::{DEVICE_STATES, device_state_word};

fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).build()
}

/// Returns the schema of an ID of a job or array element.
#[must_use]
pub fn job_id() -> Object {
    let id = ObjectBuilder::new().schema_type(Type::String);
    id.pattern(Some("^[0-9]{1,19}([._][0-9]{1,9})?$")).examples(["1", "7.3"]).build()
}

/// Returns the schema of a list of job IDs.
#[must_use]
pub fn job_ids() -> Array {
    Array::new(job_id())
}

/// Returns the schema of job states.
#[must_use]
pub fn job_state() -> Object {
    words(JobState::ALL.map(JobState::as_str))
}

/// Returns the schema of device states.
#[must_use]
pub fn device_state() -> Object {
    words(DEVICE_STATES.map(device_state_word))
}

/// Returns the schema of device strategies.
#[must_use]
pub fn device_strategy() -> Object {
    words(DeviceStrategy::ALL.map(|(word, _)| word))
}
