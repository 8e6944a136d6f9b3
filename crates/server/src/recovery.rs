//! The account of the last start: how the server before ended, and the state of the jobs that it
//! had started. It compares the loaded state with the agents' inventories. Kept in memory; it
//! changes nothing.

pub mod account;

use std::collections::BTreeSet;
use std::path::Path;

use gpool_model::event::Journaled;
use gpool_model::job::{EndCause, JobState};
use gpool_model::{Event, JobId, NodeName, Outcome, Phase, Refusal, Seq, Timestamp};
use gpool_store::Reader;
use gpool_wire::cause::{cause_word, cause_words};
use gpool_wire::{Became, Before, RecoveredJob, Recovery, Time};
use gpool_world::World;

use crate::handle::CoreHandle;
use crate::recovery::account::RecoveryAccount;
use crate::view::View;
use gpool_journal::codec::journaled;

/// What there was before this server did anything.
#[derive(Debug, Default)]
pub struct PriorState {
    last_entry: Option<LastEntry>,
    /// Jobs that had left the queue, and their owners.
    held: Vec<(JobId, Owner)>,
    n_waiting: u64,
    /// The boot ID in the last report of each node, if there was one.
    boot_ids: Vec<(NodeName, String)>,
    /// Whether the store came from a backup.
    pub is_restored: bool,
}

#[derive(Debug)]
struct LastEntry {
    at: Timestamp,
    is_stopping: bool,
}

#[derive(Debug, Clone)]
struct Owner {
    uid: u32,
    user: String,
}

impl PriorState {
    /// Looks at a state as it was loaded.
    pub fn of(world: &World, state_dir: &Path) -> Self {
        let owner = |uid, user: &str| Owner { uid, user: user.to_owned() };
        let held = world
            .holding()
            .map(|row| (row.job.id, owner(row.spec.owner.uid, &row.spec.owner.user)));
        let held: Vec<_> = held.collect();
        let n_waiting = world.n_by_state().iter().filter(|(state, _)| **state <= JobState::Pending);
        Self {
            last_entry: last_entry(state_dir, world.cluster().last_seq),
            n_waiting: n_waiting.map(|(_, n)| n).sum(),
            held,
            boot_ids: world
                .nodes_by_name()
                .map(|(_, row)| (row.node.name.clone(), row.node.settled_boot_id.clone()))
                .filter(|(_, boot_id)| !boot_id.is_empty())
                .collect(),
            is_restored: false,
        }
    }

    fn before(&self, was_rebooted: bool) -> Before {
        match &self.last_entry {
            None => Before::Nothing,
            Some(_) if self.is_restored => Before::Restored,
            Some(LastEntry { is_stopping: true, .. }) => Before::Stopped,
            Some(_) if was_rebooted => Before::MachineDown,
            Some(_) => Before::Killed,
        }
    }

    /// The account before the agents have reported: of the jobs that had left the queue, those that
    /// run by the files of their agents.
    pub fn early(&self, handle: &CoreHandle, running: &BTreeSet<JobId>) -> RecoveryAccount {
        let running = |(id, owner): &(JobId, Owner)| {
            let job = RecoveredJob {
                id: id.to_string(),
                user: owner.user.clone(),
                became: Became::WentOn,
                state: JobState::Running,
                exit_code: None,
                cause: None,
                cause_text: None,
            };
            running.contains(id).then_some((job, owner.uid))
        };
        let (jobs, uids) = self.held.iter().filter_map(running).unzip();
        let recovery = Recovery {
            started_at: Time(handle.info().started_at),
            before: self.before(false),
            last_seen_at: self.last_entry.as_ref().map(|entry| Time(entry.at)),
            rebooted_at: None,
            jobs,
            n_waiting: self.n_waiting,
            n_skipped_jobs: 0,
            unexpected: Vec::new(),
        };
        RecoveryAccount::new(recovery, uids)
    }

    /// Returns the account, once the agents have reported their inventories.
    pub async fn account(self, handle: &CoreHandle) -> Result<RecoveryAccount, Refusal> {
        // The facts about nodes that are gone stay as they were.
        let nodes = handle.info().nodes.clone();
        let asked: Vec<JobId> = self.held.iter().map(|(id, _)| *id).collect();
        let look = move |view: &View<'_>| {
            let phase = |id: &JobId| view.world.job(*id).map(|row| row.job.phase.clone());
            let boot_id = |name: &NodeName| Some(view.world.node(name)?.node.boot_id.clone());
            let boot_ids: Vec<_> = nodes.iter().map(boot_id).collect();
            let n_skipped = view.world.cluster().n_skipped_jobs;
            (asked.iter().map(phase).collect::<Vec<_>>(), boot_ids, n_skipped)
        };
        let (phases, boot_ids, n_skipped_jobs) = handle.query(look).await?;
        let was_rebooted = handle.info().nodes.iter().zip(boot_ids).any(|(name, boot_id)| {
            let before = self.boot_ids.iter().find(|(known, _)| known == name);
            before.is_some_and(|(_, before)| Some(before) != boot_id.as_ref())
        });
        let before = self.before(was_rebooted);
        let (mut jobs, mut uids) = (Vec::new(), Vec::new());
        for ((id, owner), phase) in self.held.iter().zip(phases) {
            let phase = match phase {
                Some(phase) => phase,
                None => match handle.archived(*id).await? {
                    Some(ended) => ended.job.phase,
                    None => continue,
                },
            };
            jobs.push(recovered(*id, owner, &phase));
            uids.push(owner.uid);
        }
        let recovery = Recovery {
            started_at: Time(handle.info().started_at),
            before,
            last_seen_at: self.last_entry.as_ref().map(|entry| Time(entry.at)),
            rebooted_at: was_rebooted.then(booted_at).flatten().map(Time),
            jobs,
            n_waiting: self.n_waiting,
            n_skipped_jobs,
            unexpected: Vec::new(),
        };
        Ok(RecoveryAccount::new(recovery, uids))
    }
}

fn recovered(id: JobId, owner: &Owner, phase: &Phase) -> RecoveredJob {
    let end = match phase {
        Phase::Ended(end) => Some(&**end),
        _ => None,
    };
    let cause = end.and_then(|end| end.cause.as_ref());
    RecoveredJob {
        id: id.to_string(),
        user: owner.user.clone(),
        became: became(phase),
        state: phase.state(),
        exit_code: end.and_then(|end| end.exit).map(gpool_model::job::ExitStatus::shell_code),
        cause: cause.map(|cause| cause_word(cause).to_owned()),
        cause_text: cause.map(|cause: &EndCause| cause_words(cause)),
    }
}

fn became(phase: &Phase) -> Became {
    match phase {
        Phase::Running { .. } | Phase::Paused { .. } | Phase::Stopping { .. } => Became::WentOn,
        Phase::Held { .. }
        | Phase::Waiting { .. }
        | Phase::Pending { .. }
        | Phase::Underway { .. }
        | Phase::Starting { .. } => Became::Again,
        Phase::Ended(end) if end.outcome == Outcome::Lost => Became::Lost,
        Phase::Ended(_) => Became::Ended,
    }
}

/// When the server before last wrote something down, and whether that was that it stops. An entry
/// that can't be read says nothing; the store has been checked by then.
fn last_entry(state_dir: &Path, last: Seq) -> Option<LastEntry> {
    if last == Seq(0) {
        return None;
    }
    // Longer ones are not read: one that took 100,000 jobs would take half a second.
    const STOPPING_MAX: usize = 1024;
    let entry = Reader::open(state_dir).ok()?.journal(last, 1).ok()?.pop()?;
    let is_stopping = entry.body.len() <= STOPPING_MAX && {
        matches!(journaled(&entry.body), Ok(Journaled::Event(Event::ServerStopping)))
    };
    Some(LastEntry { at: entry.time, is_stopping })
}

/// When this machine was started, as the kernel says.
fn booted_at() -> Option<Timestamp> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(Timestamp::new(seconds.trim().parse::<u64>().ok()?.saturating_mul(1000)))
}
