//! The words for states and strategies are those that serde writes.

use gpool_model::job::JobState;
use gpool_model::policy::DeviceStrategy;
use gpool_wire::device_words::{DEVICE_STATES, device_state_word};

#[test]
fn words_are_those_of_json() {
    for state in DEVICE_STATES {
        assert_eq!(serde_json::to_value(state).expect("plain"), device_state_word(state));
    }
    for state in JobState::ALL {
        assert_eq!(serde_json::to_value(state).expect("plain"), state.as_str());
    }
    for (word, strategy) in DeviceStrategy::ALL {
        assert_eq!(serde_json::to_value(strategy).expect("plain"), word);
    }
}
