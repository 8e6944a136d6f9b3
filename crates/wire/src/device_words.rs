//! The words for states of devices and for strategies, as in JSON.

use gpool_model::device::DeviceState;
use gpool_model::policy::DeviceStrategy;

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
