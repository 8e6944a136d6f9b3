//! The lease of an agent on another machine than its server. It goes on in the shepherds of fenced
//! tasks, which end these when it is over, with or without an agent.

use gpool_model::TaskId;
use gpool_model::agent::Order;
use gpool_node::converge;
use gpool_protocol::{Telemetry, ToServer};
use gpool_sys::clock;

use crate::facts;
use crate::runner::Runner;
use gpool_shepherd::message::ToShepherd;

impl Runner {
    /// Sends telemetry, with a beat if one is due.
    pub(crate) fn push(&mut self, telemetry: Telemetry) {
        let now = clock::boot_ms();
        let is_due = self.lease.as_mut().is_some_and(|lease| lease.beats(now));
        let agent = is_due.then(facts::agent_process);
        let telemetry = Telemetry { beat: is_due.then_some(now), agent, ..telemetry };
        self.parts.server.send(&ToServer::Telemetry(telemetry));
    }

    /// Carries out an order that carries this beat.
    pub(crate) fn obey(&mut self, order: Order, beat: Option<u64>) {
        fail::fail_point!("agent-order-heard");
        self.parts.devices.note_order();
        if self.admits(&order, beat) {
            self.pending_inputs.push_back(converge::Input::Order(order));
        }
    }

    /// Whether the lease allows an order. The server repeats those that it needs.
    fn admits(&mut self, order: &Order, beat: Option<u64>) -> bool {
        let (Order::Run(run), Some(lease)) = (order, &mut self.lease) else { return true };
        let admits = lease.admits(run, beat, clock::boot_ms());
        if !admits {
            tracing::warn!(task = %run.task(), "dropped an order from before the lease was over");
        }
        admits
    }

    /// The server has answered a beat.
    pub(crate) fn renewed(&mut self, beat: u64) {
        let renewed = self.lease.as_mut().and_then(|lease| lease.renew(beat, clock::boot_ms()));
        if let Some(until) = renewed {
            self.shepherds.say_to_all(&ToShepherd::Lease { until });
        }
    }

    /// Until when a task may run that is being launched, if it is fenced.
    pub(crate) fn take_fence(&mut self, task: TaskId) -> Option<u64> {
        self.lease.as_mut()?.take_fence(task)
    }
}
