//! Colors, which only repeat the meaning of a word.

use std::borrow::Cow;

use gpool_model::device::DeviceState;
use gpool_model::job::JobState;

/// The style of a text if colors are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    #[default]
    Plain,
    Head,
    Good,
    Warn,
    Bad,
    /// Unimportant.
    Dim,
}

impl Style {
    #[must_use]
    pub fn paint(self, text: &str, colors: bool) -> Cow<'_, str> {
        let code = match self {
            Self::Plain => return Cow::Borrowed(text),
            _ if !colors => return Cow::Borrowed(text),
            Self::Head => "1",
            Self::Good => "32",
            Self::Warn => "33",
            Self::Bad => "31",
            Self::Dim => "2",
        };
        Cow::Owned(format!("\u{1b}[{code}m{text}\u{1b}[0m"))
    }

    /// The style of a job's state.
    #[must_use]
    pub fn of_job(state: JobState) -> Self {
        match state {
            JobState::Running | JobState::Starting | JobState::Succeeded => Self::Good,
            JobState::Held | JobState::Paused | JobState::Stopping => Self::Warn,
            JobState::Failed | JobState::TimedOut | JobState::Lost => Self::Bad,
            JobState::Cancelled => Self::Dim,
            JobState::Waiting | JobState::Pending => Self::Plain,
        }
    }

    /// The style of a device's state.
    #[must_use]
    pub fn of_device(state: DeviceState) -> Self {
        match state {
            DeviceState::Busy => Self::Good,
            DeviceState::HeldIdle
            | DeviceState::Unmanaged
            | DeviceState::NotAllowed
            | DeviceState::Drained => Self::Warn,
            DeviceState::Unhealthy | DeviceState::Lost | DeviceState::Unknown => Self::Bad,
            DeviceState::Free | DeviceState::Divided => Self::Plain,
        }
    }
}
