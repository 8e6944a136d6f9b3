//! Schemas of enumerations that the model defines, generated from the model so that the API
//! document always matches the code.

use gpool_model::device::DeviceState;
use gpool_model::job::JobState;
use gpool_model::policy::DeviceStrategy;
use utoipa::PartialSchema;
use utoipa::openapi::schema::Type;
use utoipa::openapi::{Array, Object, ObjectBuilder, RefOr, Schema};

/// Returns the fields of a type's JSON in alphabetical order.
#[must_use]
pub fn fields<T: PartialSchema>() -> Vec<String> {
    let RefOr::T(Schema::Object(object)) = T::schema() else { return Vec::new() };
    let mut names: Vec<String> = object.properties.into_keys().collect();
    names.sort();
    names
}

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

/// Every state of a device, in the order of the API's counts.
pub const DEVICE_STATES: [DeviceState; 10] = [
    DeviceState::Free,
    DeviceState::Busy,
    DeviceState::HeldIdle,
    DeviceState::Unmanaged,
    DeviceState::NotAllowed,
    DeviceState::Drained,
    DeviceState::Divided,
    DeviceState::Unhealthy,
    DeviceState::Lost,
    DeviceState::Unknown,
];

/// Returns the word for a device state, as in JSON.
#[must_use]
pub fn device_state_word(state: DeviceState) -> &'static str {
    match state {
        DeviceState::Free => "free",
        DeviceState::Busy => "busy",
        DeviceState::HeldIdle => "held_idle",
        DeviceState::Unmanaged => "unmanaged",
        DeviceState::NotAllowed => "not_allowed",
        DeviceState::Drained => "drained",
        DeviceState::Divided => "divided",
        DeviceState::Unhealthy => "unhealthy",
        DeviceState::Lost => "lost",
        DeviceState::Unknown => "unknown",
    }
}

/// Returns the word for a device strategy, as in JSON.
#[must_use]
pub fn device_strategy_word(strategy: DeviceStrategy) -> &'static str {
    DeviceStrategy::ALL
        .into_iter()
        .find(|(_, other)| *other == strategy)
        .map(|(word, _)| word)
        .expect("every strategy is in the table of all")
}
