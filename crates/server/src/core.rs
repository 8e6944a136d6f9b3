//! The thread that owns the state machine: it takes inputs, steps, and carries out the effects. It
//! alone reads the clock. If a commit fails, the core loads the durable state again and asks the
//! agents for their inventories, so no report is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, PoisonError, mpsc};
use std::time::{Duration, Instant};

use gpool_control::Control;
use gpool_model::agent::Order;
use gpool_model::{
    Alert, Caller, Command, Effect, Event, Incarnation, NodeName, Policy, Project, Refusal, Reply,
    RequestId, Term,
};
use gpool_store::{CommitError, Committer, Loaded};
use gpool_world::World;
use tokio::sync::oneshot;

use crate::alert::{dump, make_plans_wrong, warn_of};
use crate::answers::Answers;
use crate::clock::now;
use crate::encoder::Encoder;
use crate::fault::{StoreWatch, refusal_of};
use crate::handle::Shared;
use crate::input::CoreMessage;
use crate::room;
use crate::still::Stills;
use crate::view::{Ask, LookAfter, Reasons, View, query_of};
use gpool_journal::case::Case;
use gpool_journal::inspect::world_of;
use gpool_post::Post;

/// Sends an order to the agent of a node.
pub type SendOrder = Box<dyn Fn(&NodeName, Option<Incarnation>, Order) + Send>;

/// The receiver of the answer to a request.
type Answer = oneshot::Sender<Result<Reply, Refusal>>;

/// A request that is not answered yet.
struct Asking {
    reply: Answer,
    /// What looks at the state right after the request.
    look: Option<LookAfter>,
    /// The request, if it is tried once more after a failed commit.
    again: Option<Box<(Caller, Command)>>,
}

/// The state machine and everything that it needs to act.
pub struct Core {
    control: Control,
    shared: Arc<Shared>,
    committer: Committer,
    encoder: Encoder,
    send_order: Option<SendOrder>,
    post: Post,
    /// Where the answer to each request goes.
    replies: BTreeMap<RequestId, Asking>,
    /// Requests to end something, tried once more after a failed commit.
    again: Vec<(Caller, Command, Answer)>,
    last_request: RequestId,
    answers: Answers,
    stills: Stills,
    /// Until then nothing is tried, after a commit failed.
    paused: Option<(Instant, CommitError)>,
    /// The error of the last commit; `None` after a success.
    store_fault: Option<CommitError>,
    /// The reason why the store takes no ordinary changes.
    low: Option<CommitError>,
    /// The value that the state machine has; `None` after a failed commit.
    is_low_told: Option<bool>,
    /// When the store was last asked to complete its reserve.
    filled: Instant,
    watch: StoreWatch,
    n_alerts: u64,
    /// The newest term that the store has seen.
    fence: Term,
}

impl Core {
    /// More inputs than this are not taken into one step, so that the first is not kept waiting.
    const BATCH_MAX: usize = 1024;
    /// Job numbers that may have been given out between a backup and the loss of its original.
    const SKIPPED_AFTER_RESTORE: u64 = 1_000_000;
    /// After a failed commit, how long until the next is tried.
    const PAUSE: Duration = Duration::from_secs(1);
    /// How often an idle core looks at the clock: timers are in wall time, which may jump.
    const IDLE: Duration = Duration::from_secs(30);

    /// Takes over the loaded state, under a new term.
    ///
    /// # Errors
    /// If the records can't be read or do not fit together.
    pub fn new(
        shared: Arc<Shared>,
        committer: Committer,
        post: Post,
        loaded: &Loaded,
        policy: Policy,
    ) -> anyhow::Result<Self> {
        let (presence, room) = (shared.storage.presence.clone(), shared.storage.room.clone());
        let mut control = match loaded.records.is_empty() {
            true => Control::create(policy),
            false => Control::new(world_of(loaded).map_err(anyhow::Error::msg)?),
        };
        make_plans_wrong(&mut control);
        let lives = Arc::clone(&shared.insight.lives);
        lives.reset(control.world());
        let encoder = Encoder::spawn(committer.submitter(), shared.inputs.clone(), lives)?;
        Ok(Self {
            control,
            shared,
            committer,
            encoder,
            send_order: None,
            post,
            replies: BTreeMap::new(),
            again: Vec::new(),
            last_request: RequestId(0),
            answers: Answers::default(),
            stills: Stills::default(),
            paused: None,
            store_fault: None,
            low: None,
            is_low_told: Some(false),
            filled: Instant::now(),
            watch: StoreWatch::new(presence, room),
            n_alerts: 0,
            fence: loaded.fence,
        })
    }

    /// Names the agents of this process.
    pub fn set_agents(&mut self, send_order: SendOrder) {
        self.send_order = Some(send_order);
    }

    /// The state as it was loaded, or has become.
    pub fn world(&self) -> &World {
        self.control.world()
    }

    /// Whether the store came from a backup: restoring raises the newest term that it has seen
    /// beyond the last term of the records.
    pub fn is_restored(&self) -> bool {
        self.fence > self.control.world().cluster().term
    }

    /// Begins the term after the last one.
    pub fn begin(&mut self) -> Term {
        let last = self.control.world().cluster().term;
        let term = last.max(self.fence).next();
        let n_skipped_jobs = if self.is_restored() { Self::SKIPPED_AFTER_RESTORE } else { 0 };
        self.step(vec![Event::ServerStarted { term, n_skipped_jobs }]);
        term
    }

    /// Works until told to stop. Everything that was answered is durable when it returns.
    pub fn run(mut self, inbox: &mpsc::Receiver<CoreMessage>) {
        let mut stopping = false;
        while !(stopping && self.is_settled()) {
            let mut batch = Vec::new();
            match inbox.recv_timeout(self.patience()) {
                Ok(input) => batch.push(input),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            while batch.len() < Self::BATCH_MAX
                && let Ok(input) = inbox.try_recv()
            {
                batch.push(input);
            }
            let pulse = Arc::clone(&self.shared.pulse);
            let began = Instant::now();
            stopping |= pulse.step(|| self.take(batch));
            self.shared.insight.lives.tally.stepped(began.elapsed());
            pulse.commits(self.control.revision(), self.control.durable());
        }
        self.encoder.close();
        self.committer.close();
    }

    fn is_settled(&self) -> bool {
        self.paused.is_some() || self.control.durable() == self.control.revision()
    }

    /// Whether queries wait for a commit: after a failure the next one is a trial, and likely to
    /// fail too.
    fn awaits_trial(&self) -> bool {
        self.store_fault.is_some() && self.control.revision() > self.control.durable()
    }

    fn patience(&self) -> Duration {
        let until_timer = self.control.next_timer().map(|at| at.since(now()).get());
        let until_timer = until_timer.map_or(Self::IDLE, Duration::from_millis).min(Self::IDLE);
        let due = self.stills.next_wakeup().filter(|_| !self.awaits_trial());
        let until_still = due.map(|at| at.saturating_duration_since(Instant::now()));
        let until_timer = until_timer.min(until_still.unwrap_or(Self::IDLE));
        // Nothing else tells that there is room again.
        let until_timer =
            if self.low.is_some() { until_timer.min(Self::PAUSE) } else { until_timer };
        match &self.paused {
            None => until_timer,
            Some((until, _)) => until.saturating_duration_since(Instant::now()),
        }
    }

    /// Forgets groups of a caller that no project names: they decide nothing, and need no place in
    /// the journal.
    fn keep_named_groups(&self, caller: &mut Caller) {
        if caller.groups.is_empty() {
            return;
        }
        let projects = self.control.world().projects().values();
        let named: BTreeSet<&Arc<str>> = projects.flat_map(Project::groups).collect();
        caller.groups.retain(|group| named.contains(group));
    }

    /// Steps once with everything of a batch; true if it asked to stop.
    fn take(&mut self, batch: Vec<CoreMessage>) -> bool {
        let mut events = Vec::new();
        if self.paused.as_ref().is_some_and(|(until, _)| Instant::now() >= *until) {
            events.extend(self.resume());
        }
        self.look_at_room(&mut events);
        let mut queries = Vec::new();
        let mut coming = BTreeMap::new();
        let mut stop = false;
        let last_request = self.last_request;
        for input in batch {
            match input {
                CoreMessage::Stop => stop = true,
                CoreMessage::Stopping => events.push(Event::ServerStopping),
                CoreMessage::Query(ask) => queries.push(ask),
                CoreMessage::Still(reply) => self.stills.ask(reply),
                CoreMessage::Committed(Ok(revision)) => {
                    self.store_fault = None;
                    events.push(Event::Committed { revision });
                }
                CoreMessage::Committed(Err(error)) => {
                    if self.paused.is_none() {
                        self.fail(&error);
                        events.clear();
                    }
                }
                CoreMessage::Delivered(id, sent) => events.push(Event::Delivered { id, sent }),
                CoreMessage::Report(node, report) => {
                    fail::fail_point!("server-report-heard");
                    warn_of(&report);
                    events.push(Event::Reported { node, report });
                }
                CoreMessage::Silence(node, silence) => {
                    events.push(Event::AgentSilence { node, silence });
                }
                CoreMessage::Command { caller, command, reply, look } => {
                    let asking = Asking { reply, look, again: None };
                    events.extend(self.requested(caller, command, asking, &mut coming));
                }
            }
        }
        if self.paused.is_none() {
            if self.control.next_timer().is_some_and(|at| at <= now()) {
                events.push(Event::TimerFired);
            }
            self.step(events);
        }
        let reasons = Reasons::new();
        self.look_after(last_request, &reasons);
        self.answer(queries, &reasons);
        stop
    }

    /// Returns the event of a request, unless it is refused here or has to wait.
    fn requested(
        &mut self,
        mut caller: Caller,
        command: Command,
        mut asking: Asking,
        coming: &mut BTreeMap<u32, room::Coming>,
    ) -> Option<Event> {
        let is_an_end = command.is_an_end();
        if let Some((_, error)) = &self.paused {
            match is_an_end {
                true => self.again.push((caller, command, asking.reply)),
                // The caller may be gone.
                false => drop(asking.reply.send(Err(refusal_of(error)))),
            }
            return None;
        }
        fail::fail_point!("server-command-heard");
        let (world, limits) = (self.control.world(), &self.shared.settings.limits);
        let low = self.low.as_ref().filter(|_| !is_an_end);
        let refused = low.map_or(Ok(()), |error| Err(refusal_of(error)));
        let refused = refused.and_then(|()| room::check(world, limits, &caller, &command, coming));
        if let Err(refusal) = refused {
            drop(asking.reply.send(Err(refusal)));
            return None;
        }
        self.keep_named_groups(&mut caller);
        asking.again = is_an_end.then(|| Box::new((caller.clone(), command.clone())));
        Some(self.event_of(caller, command, asking))
    }

    fn event_of(&mut self, caller: Caller, command: Command, asking: Asking) -> Event {
        let request = self.last_request.next();
        self.last_request = request;
        self.replies.insert(request, asking);
        Event::Requested { request, caller, command }
    }

    /// Looks whether ordinary changes have room, and has the state machine know it.
    fn look_at_room(&mut self, events: &mut Vec<Event>) {
        let was_low = self.low.is_some();
        self.low = self.watch.room().err();
        match &self.low {
            Some(error) if !was_low => tracing::error!(%error, "only changes that end something \
                                                                are accepted, and no job starts"),
            None if was_low => tracing::info!("all changes are accepted again"),
            _ => {}
        }
        if self.low.is_some() && self.filled.elapsed() >= Self::PAUSE {
            self.filled = Instant::now();
            self.committer.fill_reserve();
        }
        let is_full = self.low.is_some();
        if self.paused.is_none() && self.is_low_told != Some(is_full) {
            self.is_low_told = Some(is_full);
            events.push(Event::DiskFull { is_full });
        }
    }

    fn step(&mut self, events: Vec<Event>) {
        for effect in self.control.step(now(), events) {
            match effect {
                Effect::Commit(commit) => {
                    self.shared.evictions.note(&commit, self.control.world());
                    self.encoder.submit(commit);
                }
                Effect::Reply { request, reply } => {
                    if let Some(mut to) = self.replies.remove(&request) {
                        if let (Some(look), Ok(reply)) = (to.look.take(), &reply) {
                            let reply = reply.clone();
                            self.answers.ask([query_of(look, reply)]);
                        }
                        // The caller may be gone.
                        fail::fail_point!("server-reply-before");
                        drop(to.reply.send(reply));
                        fail::fail_point!("server-reply-after");
                    }
                }
                Effect::Order { node, to, order } => {
                    if let Some(send) = &self.send_order {
                        fail::fail_point!("server-order-before");
                        send(&node, to, order);
                        fail::fail_point!("server-order-after");
                    }
                }
                Effect::Deliver(delivery) => self.post.send(*delivery),
                Effect::Readmit(node) => {
                    let agent = self.shared.agents.get(&node);
                    agent.into_iter().for_each(|agent| agent.readmit());
                }
                // There may be no watcher.
                Effect::Publish(notice) => {
                    self.shared.feed.keep(notice.clone());
                    drop(self.shared.notices.send(notice));
                }
                Effect::Alert(alert) => self.alert(*alert),
            }
        }
        self.note_unexpected();
        self.answers.send_durable(self.control.durable());
    }

    /// Keeps which tasks were ended because they should not have been there; a state machine that
    /// is made anew after a failed commit forgets them.
    fn note_unexpected(&self) {
        if !self.control.strays().is_empty() {
            let unexpected = self.shared.recovery.unexpected.lock();
            let mut unexpected = unexpected.unwrap_or_else(PoisonError::into_inner);
            unexpected.extend(self.control.strays());
        }
    }

    /// Lets the requests after `last` look at the state that their change has made, so that they
    /// wait for no later commit.
    fn look_after(&mut self, last: RequestId, reasons: &Reasons) {
        let new = self.replies.range_mut((Bound::Excluded(last), Bound::Unbounded));
        let mut looks: BTreeMap<RequestId, LookAfter> =
            new.filter_map(|(request, it)| Some((*request, it.look.take()?))).collect();
        let (revision, durable) = (self.control.revision(), self.control.durable());
        for (request, reply) in self.control.waiting_replies() {
            if let (Some(look), Ok(reply)) = (looks.remove(&request), reply) {
                self.answers.send(look(&self.view(reasons), reply), revision, durable);
            }
            if looks.is_empty() {
                break;
            }
        }
    }

    fn view<'a>(&'a self, reasons: &'a Reasons) -> View<'a> {
        View {
            world: self.control.world(),
            now: now(),
            planned: self.control.planned(),
            n_alerts: self.n_alerts,
            store_fault: self.store_fault.as_ref().or(self.low.as_ref()),
            is_stuck: self.store_fault.is_some(),
            reasons,
            is_of_core: true,
        }
    }

    fn answer(&mut self, queries: Vec<Ask>, reasons: &Reasons) {
        self.watch.look(&mut self.store_fault);
        self.answers.ask(queries);
        if self.awaits_trial() {
            return;
        }
        let (mut answers, mut stills) =
            (std::mem::take(&mut self.answers), std::mem::take(&mut self.stills));
        let view = self.view(reasons);
        let (revision, durable) = (self.control.revision(), self.control.durable());
        answers.look(&view, revision, durable);
        let old = stills.outdated(&view);
        if let Some(still) = stills.take(&view) {
            answers.send(still, revision, durable);
        }
        (self.answers, self.stills) = (answers, stills);
        if let Some(old) = old {
            // To free it takes time as well.
            self.shared.reads.push(self.shared.info.uid, Box::new(move || drop(old)));
        }
    }

    /// Handles a failed commit: requests that depend on it get an error, and memory goes back to
    /// the durable state.
    fn fail(&mut self, error: &CommitError) {
        tracing::error!(%error, "commit failed; reloading the last durable state");
        for (_, Asking { reply, again, .. }) in std::mem::take(&mut self.replies) {
            match again {
                Some(again) => self.again.push((again.0, again.1, reply)),
                None => drop(reply.send(Err(refusal_of(error)))),
            }
        }
        self.answers.refuse(|| refusal_of(error));
        self.paused = Some((Instant::now() + Self::PAUSE, error.clone()));
        self.store_fault = Some(error.clone());
        self.is_low_told = None;
        self.reload();
    }

    fn reload(&mut self) {
        self.stills.forget_last();
        // Drain first: no commit from before the failure may arrive after the reload.
        self.encoder.drain();
        let reloaded = self.committer.reset().map_err(anyhow::Error::from);
        match reloaded.and_then(|loaded| world_of(&loaded).map_err(anyhow::Error::msg)) {
            Ok(world) => {
                self.shared.insight.lives.reset(&world);
                self.control = Control::new(world);
            }
            Err(error) => tracing::error!(%error, "can't load the store; trying again"),
        }
    }

    /// Tries again under a new term. Agents then refuse late orders of the old term, and they are
    /// asked for their inventories, because reports of the time between were not handled.
    /// Returns the requests that are tried once more.
    fn resume(&mut self) -> Vec<Event> {
        self.paused = None;
        self.shared.agents.all().iter().for_each(|agent| agent.tell_again());
        self.begin();
        let again = std::mem::take(&mut self.again).into_iter();
        let asking = |reply| Asking { reply, look: None, again: None };
        again
            .map(|(caller, command, reply)| self.event_of(caller, command, asking(reply)))
            .collect()
    }

    /// Keeps the case of a plan that was not applied, and says so.
    fn alert(&mut self, alert: Alert) {
        self.n_alerts += 1;
        let (violations, held) = (&alert.violations, alert.set_aside.map(|job| job.to_string()));
        tracing::error!(?violations, held, "plan violates an invariant and was not applied");
        let folder = self.shared.info.state_dir.join("alerts");
        if let Err(error) = dump(&folder, &Case::refused(alert)) {
            tracing::error!(%error, folder = %folder.display(), "can't write the dump of the \
                                                                 rejected plan");
        }
    }
}
