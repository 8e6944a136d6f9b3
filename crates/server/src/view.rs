//! The state as queries see it, and how they are answered.

use std::sync::OnceLock;

use gpool_model::{JobId, PlannedStart, Refusal, Reply, Timestamp};
use gpool_sched::{Explainer, ReasonsByShape};
use gpool_store::CommitError;
use gpool_world::{Snapshot, World};

/// Why jobs wait, by shape: computed when the first job needs it.
pub type Reasons = OnceLock<ReasonsByShape>;

/// The state at one moment, as queries see it.
pub struct View<'a> {
    pub world: &'a World,
    pub now: Timestamp,
    /// The planned starts of the last cycle.
    pub planned: &'a [PlannedStart],
    /// Plans that broke an invariant since the server started.
    pub n_alerts: u64,
    /// Why no change is accepted just now, except one that ends something.
    pub store_fault: Option<&'a CommitError>,
    /// Whether nothing at all can be stored; it is tried again every second.
    pub is_stuck: bool,
    /// Why jobs wait, computed once for all that look at the same state.
    pub reasons: &'a Reasons,
    /// Whether it is on the core's own thread, where no explanation may take long.
    pub is_of_core: bool,
}

impl<'a> View<'a> {
    /// The planned start of a job, if it has one.
    #[must_use]
    pub fn planned_at(&self, job: JobId) -> Option<Timestamp> {
        self.planned.iter().find(|planned| planned.job == job).map(|planned| planned.at)
    }

    #[must_use]
    pub fn explainer(&self) -> Explainer<'a> {
        let snapshot = Snapshot { world: self.world, now: self.now };
        let explainer = Explainer::new(snapshot, self.world.policy()).sharing(self.reasons);
        if self.is_of_core { explainer.in_brief() } else { explainer }
    }
}

/// Answers a query later: when its state is durable, or with the reason why it is not.
pub type Deliver = Box<dyn FnOnce(Result<(), Refusal>) + Send>;

/// Looks at the state and prepares an answer.
pub type Ask = Box<dyn FnOnce(&View<'_>) -> Deliver + Send>;

/// Looks at the state right after a request, with its reply, and prepares an answer.
pub type LookAfter = Box<dyn FnOnce(&View<'_>, &Reply) -> Deliver + Send>;

/// A look after a request as a query, where the request changed nothing.
pub fn query_of(look: LookAfter, reply: Reply) -> Ask {
    Box::new(move |view| look(view, &reply))
}
