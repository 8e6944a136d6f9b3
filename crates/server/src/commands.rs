//! The HTTP side's handle of the core: commands, with what the core can't look up itself.

use std::collections::BTreeMap;

use gpool_control::Control;
use gpool_model::array::ArrayEnds;
use gpool_model::command::ArchivedDependency;
use gpool_model::job::DependencyKind;
use gpool_model::record::EndedJob;
use gpool_model::{Caller, Command, Dependency, JobId, Phase, Refusal, Reply};
use gpool_world::first_start;
use tokio::sync::oneshot;

use crate::handle::{Age, CoreHandle};
use crate::input::CoreMessage;
use crate::room;
use crate::view::{Deliver, LookAfter, View};

impl CoreHandle {
    /// Runs a command; returns when its result is durable.
    ///
    /// # Errors
    /// If the command was refused. Then nothing changed.
    pub async fn command(&self, caller: Caller, command: Command) -> Result<Reply, Refusal> {
        self.send(caller, command, None).await
    }

    /// Runs a command, and looks at the state right after it; returns when both are durable. A
    /// query after the command would also wait for a later commit. A dry run has no look: `None`.
    ///
    /// # Errors
    /// If the command was refused. Then nothing changed.
    pub async fn command_and_look<T: Send + 'static>(
        &self,
        caller: Caller,
        command: Command,
        look: impl FnOnce(&View<'_>, &Reply) -> T + Send + 'static,
    ) -> Result<(Reply, Option<T>), Refusal> {
        let (to, seen) = oneshot::channel();
        let look = move |view: &View<'_>, reply: &Reply| -> Deliver {
            let found = look(view, reply);
            // The caller may have disconnected.
            Box::new(move |stands| drop(to.send(stands.map(|()| found))))
        };
        let reply = self.send(caller, command, Some(Box::new(look))).await?;
        // Without a look its sender is gone.
        let seen = seen.await.ok().transpose()?;
        Ok((reply, seen))
    }

    async fn send(
        &self,
        caller: Caller,
        mut command: Command,
        look: Option<LookAfter>,
    ) -> Result<Reply, Refusal> {
        let uid = caller.owner.uid;
        if let Command::Submit { jobs, ends, array_ends, .. } = &mut command {
            self.check_can_run_as(&caller)?;
            room::check_dependencies(&self.shared.settings.limits, jobs)?;
            let after = jobs.iter().flat_map(|job| job.after.iter().chain(&job.life.after_one));
            (*ends, *array_ends) = self.ends_of(waited_for(after)).await?;
        }
        if let Command::Edit { patch, ends, .. } = &mut command {
            let after = patch.to.dependencies();
            *ends = self.ends_of(waited_for(after)).await?.0;
        }
        if let Command::Submit { dry_run: true, .. } = &command {
            // Each job is checked separately, independent of their number.
            let limits = self.shared.settings.limits;
            let would = move |view: &View<'_>| {
                room::check(view.world, &limits, &caller, &command, &mut BTreeMap::new())?;
                let Command::Submit { jobs, ends, array_ends, .. } = &command else {
                    return Ok(Reply::Done);
                };
                let (world, ends) = (view.world.still(), (&ends[..], &array_ends[..]));
                Control::would_submit_to(world, view.now, &caller, jobs, ends)
            };
            return self.look(uid, Age::New, would).await?;
        }
        let (reply, answer) = oneshot::channel();
        let input = CoreMessage::Command { caller, command, reply, look };
        self.shared.inputs.send(input).map_err(|_| Refusal::ShuttingDown)?;
        match answer.await {
            Ok(Err(Refusal::NoSuchJob { id })) => Err(self.absent(id).await?),
            Ok(reply) => {
                self.shared.insight.forecaster.commanded();
                reply
            }
            Err(_) => Err(Refusal::ShuttingDown),
        }
    }

    /// The agent of this process runs as the server's user. Without root it can't switch to another
    /// user, so another user's job could never start.
    fn check_can_run_as(&self, caller: &Caller) -> Result<(), Refusal> {
        let own = self.shared.info.uid;
        if own == 0 || caller.owner.uid == own {
            return Ok(());
        }
        let user = caller.owner.user.to_string();
        Err(Refusal::CannotRunAs { user, only: own })
    }

    /// Returns the ends of archived jobs that other jobs depend on, and of the elements of arrays
    /// that matching elements depend on.
    async fn ends_of(
        &self,
        needs: BTreeMap<JobId, Need>,
    ) -> Result<(Vec<ArchivedDependency>, Vec<(JobId, ArrayEnds)>), Refusal> {
        let (mut ends, mut array_ends) = (Vec::new(), Vec::new());
        if needs.is_empty() {
            return Ok((ends, array_ends));
        }
        let absent = move |view: &View<'_>| -> Vec<(JobId, Need)> {
            let has_end = |id: JobId| view.world.recent_end(id).is_some();
            let known =
                |(id, need): &(JobId, Need)| view.world.is_live(*id) || !need.start && has_end(*id);
            needs.into_iter().filter(|row| !known(row)).collect()
        };
        for (id, need) in self.query(absent).await? {
            let Some(EndedJob { spec, job }) = self.archived(id).await? else { continue };
            if let Phase::Ended(end) = &job.phase {
                let began_at = first_start(&job).unwrap_or(end.ended_at);
                ends.push(ArchivedDependency { job: id, outcome: end.outcome, began_at });
            }
            if let (true, Some(of), Some(array)) = (need.elements, &spec.array, job.array) {
                let indexes = of.indexes.clone();
                array_ends.push((id, ArrayEnds { indexes, ended: array.ended }));
            }
        }
        Ok((ends, array_ends))
    }

    /// Returns why a job is not among the live jobs.
    async fn absent(&self, id: JobId) -> Result<Refusal, Refusal> {
        Ok(match self.archived(id).await?.map(|ended| ended.job.phase) {
            Some(Phase::Ended(end)) => Refusal::AlreadyEnded { id, state: end.outcome.state() },
            _ => Refusal::NoSuchJob { id },
        })
    }
}

/// The information that dependencies on a job need, beside its outcome.
#[derive(Debug, Clone, Copy, Default)]
struct Need {
    /// The end of each element.
    elements: bool,
    start: bool,
}

/// Returns the jobs that others depend on.
fn waited_for<'a>(after: impl Iterator<Item = &'a Dependency>) -> BTreeMap<JobId, Need> {
    let mut jobs: BTreeMap<JobId, Need> = BTreeMap::new();
    for after in after {
        let need = jobs.entry(after.job).or_default();
        need.elements |= after.kind == DependencyKind::Each;
        need.start |= after.delay.is_some();
    }
    jobs
}
