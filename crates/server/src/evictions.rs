//! Evictions, counted for the owner of the beneficiary: each victim runs again later, and stores
//! the files of one more run.

use std::collections::BTreeMap;

use gpool_model::event::Journaled;
use gpool_model::{Commit, Decision, Exit};
use gpool_world::World;
use tokio::sync::broadcast;

/// The most charges that wait. A commit has one for each owner.
const WAITING_MAX: usize = 1024;

/// The runs of a user's victims, in one commit.
#[derive(Debug, Clone, Copy)]
pub struct Charge {
    pub uid: u32,
    pub n_runs: u64,
}

pub struct Evictions(broadcast::Sender<Charge>);

impl Default for Evictions {
    fn default() -> Self {
        Self(broadcast::Sender::new(WAITING_MAX))
    }
}

impl Evictions {
    /// Notes the evictions of a commit. `world` has its changes.
    pub fn note(&self, commit: &Commit, world: &World) {
        let decisions = commit.journal.iter().flat_map(|entry| match &entry.entry {
            Journaled::Planned { decisions, .. } => &decisions[..],
            _ => &[],
        });
        let mut n_runs_by_uid = BTreeMap::<u32, u64>::new();
        for decision in decisions {
            if let Decision::Evict { job, beneficiary, exit, .. } = decision
                && matches!(exit, Exit::Checkpoint | Exit::Requeue)
                && let Some(beneficiary) = world.row_for(*beneficiary)
            {
                let n_tasks = world.row_for(*job).map_or(1, |row| row.spec.n_tasks());
                *n_runs_by_uid.entry(beneficiary.spec.owner.uid).or_default() += u64::from(n_tasks);
            }
        }
        for (uid, n_runs) in n_runs_by_uid {
            // Without a listener there are no requests to charge.
            drop(self.0.send(Charge { uid, n_runs }));
        }
    }

    /// Returns a receiver of all future charges.
    pub fn charges(&self) -> broadcast::Receiver<Charge> {
        self.0.subscribe()
    }
}
