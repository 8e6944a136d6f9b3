//! Leases of agents: a node gets new jobs only while its agent is heard.

use std::time::Duration;

use gpool_model::Millis;
use tokio::time::MissedTickBehavior;

use crate::clock::now;
use crate::handle::CoreHandle;

/// How long an agent may send nothing until its node gets no new jobs.
pub const NODE_LEASE_USUALLY: Millis = Millis::from_secs(15);
/// How often the server looks for silent agents.
const LOOK: Duration = Duration::from_secs(1);

/// Looks for silent agents, for as long as the server runs.
pub async fn watch(handle: CoreHandle, silent_after: Millis) {
    let mut timer = tokio::time::interval(LOOK);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        timer.tick().await;
        handle.agents().iter().for_each(|agent| agent.look(silent_after, now()));
    }
}
