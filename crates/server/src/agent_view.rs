//! The agents of other machines as people see them: their clocks, their use of CPU and memory, and
//! why one is refused.

use gpool_model::{Bytes, Timestamp};
use gpool_protocol::{AgentProcess, Hello, VERSION};

/// The release of this server.
pub const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// An agent of another machine, as people see it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentView {
    /// The time of its last message to this server.
    pub last_message_at: Option<Timestamp>,
    /// How far the clock of its machine is ahead of the server's, in milliseconds; the time that
    /// the message took counts as delay of that clock.
    pub clock_offset_ms: Option<i64>,
    /// CPU time in percent of one core, between its last two beats.
    pub cpu_percent: Option<f64>,
    pub memory: Option<Bytes>,
    /// Why the server refuses it.
    pub refusal: Option<String>,
}

/// The last state of an agent's process, and the one before.
#[derive(Default)]
pub(crate) struct ProcessReadings {
    /// With the server's time of its arrival, in milliseconds since the boot.
    last: Option<(u64, AgentProcess)>,
    clock_offset_ms: Option<i64>,
    cpu_percent: Option<f64>,
}

impl ProcessReadings {
    /// Takes a state that arrived at this time since the boot, and at this time of the wall clock.
    pub fn add(&mut self, at: u64, now: Timestamp, agent: AgentProcess) {
        self.clock_offset_ms = agent.clock.get().checked_signed_diff(now.get());
        self.cpu_percent = self.last.and_then(|(before, last)| {
            // A new process begins at zero.
            let used = agent.cpu.get().checked_sub(last.cpu.get())?;
            percentage(used, at.checked_sub(before)?)
        });
        self.last = Some((at, agent));
    }

    /// The agent by these states.
    pub fn view(&self) -> AgentView {
        AgentView {
            clock_offset_ms: self.clock_offset_ms,
            cpu_percent: self.cpu_percent,
            memory: self.last.map(|(_, agent)| agent.memory),
            ..AgentView::default()
        }
    }
}

/// Why an agent of another version is refused, and the remedy.
pub fn refusal(hello: &Hello) -> String {
    let Hello { version, release, .. } = hello;
    let older = if *version < VERSION { "the agent" } else { "the server" };
    format!(
        "gpool {release} speaks version {version} of the protocol, and gpool {RELEASE} of the \
         server version {VERSION}; they may differ by one: upgrade {older}"
    )
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn percentage(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64 * 100.0)
}
