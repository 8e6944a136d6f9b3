//! The removal of nodes that have left the cluster.

use std::collections::BTreeSet;

use gpool_model::node::ImagePulls;
use gpool_model::{Caller, JobId, NodeName, Refusal, Reply, ReservationName};
use gpool_sched::Workspace;
use gpool_world::JobRow;

use crate::control::Control;
use crate::control::claims::is_claim;
use crate::control::gang::has_ended;
use crate::control::nodes::admin;

impl Control {
    /// Removes a node. With `is_off`, the jobs on it end first, but only if that makes the node
    /// empty: a job that still has to end on other nodes keeps this one.
    pub(crate) fn remove_node(
        &mut self,
        caller: &Caller,
        name: &NodeName,
        is_off: bool,
    ) -> Result<Reply, Refusal> {
        admin(caller, || format!("remove {name}"))?;
        let row = self.world.node(name);
        let row = row.ok_or_else(|| Refusal::NoSuchNode { name: name.clone() })?;
        if row.node.is_reachable() {
            return Err(Refusal::NodeAnswers { name: name.clone() });
        }
        let reservations = self.world.reservations().values().filter(|it| it.what.touches(name));
        let reservations: Vec<ReservationName> = reservations.map(|it| it.name.clone()).collect();
        let here: BTreeSet<JobId> = row.here.iter().map(|task| task.job).collect();
        let (ending, staying): (Vec<JobId>, Vec<JobId>) = here
            .into_iter()
            .partition(|job| is_off && self.world.job(*job).is_some_and(|row| ends(row, name)));
        if !staying.is_empty() || !reservations.is_empty() {
            let name = name.clone();
            return Err(Refusal::NodeInUse { name, jobs: staying, reservations });
        }
        self.end_lost(name, &ending);
        if !self.world.remove_node(name) {
            // The simulation never gets here: each of these jobs has left the node.
            debug_assert!(false, "{name} is still in use");
            let here = self.world.node(name).into_iter().flat_map(|row| &row.here);
            let jobs = here.map(|task| task.job).collect();
            return Err(Refusal::NodeInUse { name: name.clone(), jobs, reservations });
        }
        self.pulls_ended(name, &ImagePulls::default());
        // It refers to nodes by their rows.
        self.workspace = Workspace::default();
        self.sessions.forget(name);
        self.publish_membership(name);
        Ok(Reply::Done)
    }
}

/// Whether a job leaves its nodes once its tasks on one of them have ended.
fn ends(row: &JobRow, name: &NodeName) -> bool {
    let allocations = row.job.phase.allocations();
    is_claim(allocations)
        || allocations.iter().all(|it| it.node == *name || has_ended(&row.job, it.task))
}
