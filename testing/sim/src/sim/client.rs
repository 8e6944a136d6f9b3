//! Users: their requests, the answers, and the promises in those answers.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::array::{ArrayEnds, ArraySpec};
use gpool_model::command::{ArchivedDependency, RequestKey};
use gpool_model::job::{BlobId, DependencyKind, JobState, Owner};
use gpool_model::kind::Habits;
use gpool_model::life::{Life, Retry, RetryOn};
use gpool_model::record::EndedJob;
use gpool_model::{
    Bytes, Caller, Command, Dependency, DeviceStrategy, Event, Exit, Gang, GpuAmount, GpuRequest,
    Indexes, JobId, JobNumber, JobPatch, JobRequest, JobVerb, MilliCpu, MilliGpu, Millis, NewJob,
    OnNodeLost, Phase, Refusal, Reply, RequestId, Share, Standing, Timestamp, Version,
};

use gpool_world::JobRow;

use crate::broken::Invariant;
use crate::bug::Bug;
use crate::happening::{Happening, Kind};
use crate::sim::{Sim, heads, picked, projects};
use crate::swarm::MODELS;

/// One thing that a user asked, once or again.
#[derive(Debug, Clone)]
pub(crate) struct Asking {
    caller: Caller,
    pub command: Command,
    /// When it was first asked, by the server's clock.
    at: Timestamp,
    is_answered: bool,
    /// Whether the answer does not reach the user.
    pub is_deaf: bool,
    /// Versions of the jobs that it changed, right after the change, with their requests.
    versions: Vec<(JobId, Version, GpuRequest)>,
}

impl Sim {
    pub(crate) fn wish(&mut self, what: &Happening) {
        if what.kind == Kind::Retry {
            return self.retry(what);
        }
        let Some(command) = self.command(what) else { return };
        let user = match what.kind {
            kind if kind.is_of_admins() => 0,
            _ => what.count("user") % 8,
        };
        let is_deaf = !what.kind.is_of_admins() && what.is("deaf");
        self.note_released(&command);
        self.note_wished(&command);
        if let Command::OnJobs { jobs, verb: JobVerb::Cancel } = &command {
            for job in jobs {
                self.watch.cancelled.entry(*job).or_insert(false);
            }
        }
        if let Command::Retry { jobs } = &command {
            // The cancelled job is wanted again.
            for job in jobs {
                self.watch.cancelled.insert(JobId { element: None, ..*job }, false);
            }
        }
        let asking = Asking {
            caller: caller(user),
            command,
            at: self.server_clock(),
            is_answered: false,
            is_deaf,
            versions: Vec::new(),
        };
        self.askings.push(asking);
        self.ask(self.askings.len() - 1);
    }

    /// An admin asks for something.
    pub(crate) fn ask_as_admin(&mut self, command: Command) {
        self.note_released(&command);
        self.askings.push(Asking {
            caller: caller(0),
            command,
            at: self.server_clock(),
            is_answered: false,
            is_deaf: false,
            versions: Vec::new(),
        });
        self.ask(self.askings.len() - 1);
    }

    /// A user repeats an unanswered submission under its key.
    fn retry(&mut self, what: &Happening) {
        let unanswered = self.unanswered();
        let Some(at) = picked(&unanswered, what.count("pick")) else { return };
        self.askings[at].is_deaf = what.is("deaf");
        self.ask(at);
    }

    pub(crate) fn unanswered(&self) -> Vec<usize> {
        let has_key = |asking: &Asking| {
            matches!(&asking.command, Command::Submit { key: Some(_), .. }) && !asking.is_answered
        };
        (0..self.askings.len()).filter(|at| has_key(&self.askings[*at])).collect()
    }

    pub(crate) fn ask(&mut self, asking: usize) {
        let Some(server) = self.server.as_mut() else { return };
        let request = server.last_request.next();
        server.last_request = request;
        server.pending.insert(request, asking);
        let Asking { caller, mut command, .. } = self.askings[asking].clone();
        if self.bug == Some(Bug::KeyForgotten)
            && let Command::Submit { key, .. } = &mut command
        {
            *key = None;
        }
        self.tell_server(Event::Requested { request, caller, command });
    }

    fn command(&self, what: &Happening) -> Option<Command> {
        let job = || picked(&self.live_jobs(), what.count("job"));
        Some(match what.kind {
            Kind::Submit => self.submission(what),
            Kind::Extend => {
                // Jobs that run are in the list twice: their limits matter most.
                let world = self.server.as_ref()?.control.world();
                let mut jobs: Vec<JobId> = world.holding().map(|row| row.job.id).collect();
                jobs.extend(self.live_jobs());
                Command::on(vec![picked(&jobs, what.count("job"))?], what.verb()?)
            }
            Kind::Again => {
                let job = picked(&self.ended_elements(), what.count("job"))?;
                Command::Retry { jobs: vec![job] }
            }
            Kind::Edit => {
                let version = Some(what.count("version")).filter(|version| *version > 0);
                let patch = JobPatch::default()
                    .with("priority", |to| to.standing.priority = priority(what));
                Command::Edit { job: job()?, version, patch, ends: Vec::new() }
            }
            Kind::Resize => {
                let job = picked(&self.resizable(), what.count("job"))?;
                let world = self.server.as_ref()?.control.world();
                let limit = what.count("limit").clamp(1, 1000);
                let request = what.count("part").clamp(1, limit);
                let [request, limit] = [request, limit].map(MilliGpu::new);
                let whole =
                    GpuRequest { amount: GpuAmount::Whole(1), ..world.job(job)?.spec.gpus.clone() };
                let gpus = whole.shared(Share::Part { request, limit }).ok()?;
                let patch = JobPatch::default().with("gpus", |to| {
                    to.gpus_written = Arc::from(gpus.to_string());
                    to.gpus = gpus;
                });
                Command::Edit { job, version: None, patch, ends: Vec::new() }
            }
            Kind::Pause | Kind::Resume => {
                let state =
                    if what.kind == Kind::Pause { JobState::Running } else { JobState::Paused };
                Command::on(vec![picked(&self.holding(state), what.count("job"))?], what.verb()?)
            }
            Kind::Allow => {
                let all: Vec<usize> = (0..self.machines.len()).collect();
                let machine = &self.machines[picked(&all, what.count("node"))?];
                let n = u64::try_from(machine.real.len()).expect("few");
                // One more than there are: all.
                let device = what.count("device") % (n + 1);
                let devices = (device < n).then(|| vec![device.to_string()]);
                Command::AllowDevices { node: machine.node.name.clone(), devices }
            }
            Kind::Strategy => {
                let all = DeviceStrategy::ALL.map(|(_, strategy)| strategy);
                Command::SetDeviceStrategy { strategy: picked(&all, what.count("which"))? }
            }
            Kind::Project | Kind::Unproject | Kind::Move | Kind::Preset => self.sharing(what)?,
            kind if kind.is_on_job() => Command::on(vec![job()?], what.verb()?),
            _ => return self.keeping(what),
        })
    }

    fn submission(&self, what: &Happening) -> Command {
        let after = what.count("after").checked_sub(1).and_then(|pick| {
            let known: Vec<JobId> = self.watch.acknowledged.keys().copied().collect();
            let kinds = [
                DependencyKind::Ok,
                DependencyKind::Fail,
                DependencyKind::End,
                DependencyKind::Each,
            ];
            // Only elements can wait for their like.
            let n_kinds = if what.count("array") > 0 { 4 } else { 3 };
            let kind = picked(&kinds[..n_kinds], what.count("kind"))?;
            Some(Dependency::new(picked(&known, pick)?, kind))
        });
        let ended = |after: &Dependency| match &self.store.archive.get(&after.job)?.job.phase {
            Phase::Ended(end) => {
                let (job, outcome, began_at) = (after.job, end.outcome, end.ended_at);
                Some(ArchivedDependency { job, outcome, began_at })
            }
            _ => None,
        };
        let ends: Vec<ArchivedDependency> = after.iter().filter_map(ended).collect();
        let elements = |after: &Dependency| {
            let EndedJob { spec, job } = self.store.archive.get(&after.job)?;
            let (indexes, array) = (spec.array.as_ref()?.indexes.clone(), job.array.as_ref()?);
            let by_element = after.kind == DependencyKind::Each;
            by_element.then(|| (after.job, ArrayEnds { indexes, ended: array.ended.clone() }))
        };
        let array_ends = after.iter().filter_map(elements).collect();
        let now = self.server_clock();
        let has_heads = heads::may_be_on(&self.cluster);
        let job = |_| heads::added(new_job(what, after, now), what, has_heads);
        let jobs = (0..what.count("jobs").clamp(1, 50)).map(job);
        let (project, pool) = (self.charged(what), projects::pool(what.count("pool")));
        let nodes = self.chosen(what.count("only"));
        let of_all = |job| {
            let (project, pool, nodes) = (project.clone(), pool.clone(), nodes.clone());
            NewJob::with(job, |job| (job.project, job.pool, job.nodes) = (project, pool, nodes))
        };
        let jobs = jobs.map(of_all).collect();
        let name = format!("key-{}", self.askings.len());
        let key = what.is("key").then(|| RequestKey { name, digest: "digest".to_owned() });
        Command::Submit { jobs, key, ends, array_ends, dry_run: false }
    }

    pub(crate) fn live_jobs(&self) -> Vec<JobId> {
        let Some(server) = &self.server else { return Vec::new() };
        let own = |row: &JobRow| {
            let array = row.job.array.as_ref();
            let next = array.and_then(|array| array.unstarted.next_after(None));
            let indexes = row.spec.array.as_ref().map(|array| &array.indexes);
            let element = next.zip(indexes).and_then(|(at, indexes)| indexes.at(at));
            let element = element.map(|index| JobId { element: Some(index), ..row.job.id });
            std::iter::once(row.job.id).chain(element)
        };
        server.control.world().job_rows().flat_map(own).collect()
    }

    /// Jobs that hold devices in this state.
    pub(crate) fn holding(&self, state: JobState) -> Vec<JobId> {
        let Some(server) = &self.server else { return Vec::new() };
        let holding = server.control.world().holding();
        holding.filter(|row| row.job.phase.state() == state).map(|row| row.job.id).collect()
    }

    /// Running jobs with a share of one device.
    pub(crate) fn resizable(&self) -> Vec<JobId> {
        let Some(server) = &self.server else { return Vec::new() };
        let is_share = |row: &&JobRow| {
            let is_one = row.spec.gpus.n_devices() == 1 && row.spec.array.is_none();
            is_one && row.spec.gpus.share().is_some() && row.job.phase.state() == JobState::Running
        };
        let holding = server.control.world().holding();
        holding.filter(is_share).map(|row| row.job.id).collect()
    }

    /// Elements of living arrays that have ended.
    pub(crate) fn ended_elements(&self) -> Vec<JobId> {
        let Some(server) = &self.server else { return Vec::new() };
        let own = |row: &JobRow| -> Vec<JobId> {
            let (Some(array), Some(spec)) = (&row.job.array, &row.spec.array) else {
                return Vec::new();
            };
            let ended = array.ended.values().flat_map(|positions| positions.iter());
            let indexes = ended.map(|position| spec.indexes.at(position));
            indexes.map(|element| JobId { element, ..row.job.id }).collect()
        };
        server.control.world().job_rows().flat_map(own).collect()
    }

    /// Records the effects of a step's requests, which become promises once they are answered.
    pub(crate) fn note_requests(&mut self, requests: &[RequestId]) {
        let Some(server) = &self.server else { return };
        for request in requests {
            let Some(at) = server.pending.get(request) else { continue };
            let asking = &mut self.askings[*at];
            let jobs = match &asking.command {
                Command::OnJobs { jobs, .. } => jobs.as_slice(),
                Command::Edit { job, .. } => std::slice::from_ref(job),
                _ => &[],
            };
            let row = |id: &JobId| server.control.world().job(*id);
            let changed = |row: &JobRow| (row.job.id, row.job.version, row.spec.gpus.clone());
            let versions = jobs.iter().filter_map(row).map(changed);
            asking.versions = versions.collect();
        }
    }

    pub(crate) fn answered(&mut self, request: RequestId, reply: Result<Reply, Refusal>) {
        let Some(server) = self.server.as_mut() else { return };
        let Some(at) = server.pending.remove(&request) else {
            return self.blame(Invariant::KeyAnsweredTwice, format!("{request} is answered twice"));
        };
        self.totals.replies += 1;
        let asking = &mut self.askings[at];
        asking.is_answered = !asking.is_deaf && !is_passing(&reply);
        let Ok(reply) = reply else { return };
        let command = asking.command.clone();
        self.note_kept(&command, &reply);
        self.note_agreed(&command, &reply);
        let asking = &self.askings[at];
        match (&asking.command, reply) {
            (Command::Submit { jobs, .. }, Reply::Submitted { first, n_jobs, .. }) => {
                let n_asked = jobs.len();
                if u64::try_from(n_asked).expect("few") != n_jobs {
                    let what = format!("{n_jobs} jobs were taken of {n_asked}");
                    self.blame(Invariant::JobLost, what);
                }
                self.submitted(at, first, n_jobs);
            }
            (Command::OnJobs { jobs, verb: JobVerb::Cancel }, _) => {
                for job in jobs.clone() {
                    let whole = JobId { element: None, ..job };
                    let is_again = |asking: &Asking| match &asking.command {
                        Command::Retry { jobs } => jobs.iter().any(|it| it.number == job.number),
                        _ => false,
                    };
                    // The order of the requests does not matter: a job that runs again goes on.
                    let stays = job != whole || !self.askings.iter().any(is_again);
                    self.watch.cancelled.insert(job, stays);
                }
            }
            (Command::OnJobs { .. } | Command::Edit { .. }, _) => {
                for (job, version, gpus) in asking.versions.clone() {
                    let least = self.watch.versions.entry(job).or_insert(version);
                    *least = version.max(*least);
                    if *least == version {
                        self.watch.sizes.insert(job, (version, gpus));
                    }
                }
            }
            _ => {}
        }
    }

    fn submitted(&mut self, at: usize, first: JobNumber, n_jobs: u64) {
        /// Keys are kept for a day; the clock may jump, so a little less.
        const KEPT: Millis = Millis::from_hours(20);
        let now = self.server_clock();
        let asking = &self.askings[at];
        let (uid, is_old) = (asking.caller.owner.uid, now.since(asking.at) > KEPT);
        if let Command::Submit { key: Some(key), .. } = &asking.command {
            let answer = (first.0, n_jobs);
            let key = (uid, key.name.clone());
            let before = *self.watch.keys.entry(key).or_insert(answer);
            if before != answer && !is_old {
                let what = format!("a key is answered with {before:?} and then {answer:?}");
                return self.blame(Invariant::KeyAnsweredTwice, what);
            }
        }
        for number in first.0..first.0 + n_jobs {
            match self.watch.acknowledged.insert(JobId::single(number), at) {
                None => self.totals.jobs += 1,
                Some(before) if before == at => {}
                Some(_) => {
                    let what = format!("number {number} is given to two submissions");
                    self.blame(Invariant::NumberReused, what);
                }
            }
        }
    }

    /// Drops the requests to a server that is gone: they get no answer.
    pub(crate) fn forget_pending(&mut self, server: &crate::sim::server::Server) {
        for at in server.pending.values() {
            self.askings[*at].is_deaf = false;
        }
    }
}

/// Whether the same request may be answered otherwise later.
fn is_passing(reply: &Result<Reply, Refusal>) -> bool {
    matches!(reply, Err(Refusal::StorageFull { .. }))
}

fn caller(user: u64) -> Caller {
    let uid = if user == 0 { 0 } else { 1000 + u32::try_from(user).expect("few users") };
    let owner = Owner { uid, gid: uid, user: Arc::from(format!("u{uid}")) };
    Caller::new(owner, user == 0)
}

fn priority(what: &Happening) -> i32 {
    i32::try_from(what.number("priority").clamp(-1000, 1000)).expect("clamped")
}

fn new_array(what: &Happening) -> Option<Box<ArraySpec>> {
    let small = |name| u32::try_from(what.count(name) % 100).expect("below 100");
    let spec =
        ArraySpec { indexes: Indexes::first_n(small("array"))?, values: None, objective: None };
    Some(Box::new(spec))
}

fn on_node_lost(what: &Happening) -> OnNodeLost {
    match what.count("lost") % 3 {
        1 => OnNodeLost::Requeue,
        2 => OnNodeLost::End,
        _ => OnNodeLost::Wait,
    }
}

fn exits(what: &Happening) -> BTreeSet<Exit> {
    match what.is("pauses") {
        true => BTreeSet::from([Exit::Pause, Exit::Requeue]),
        false => BTreeSet::new(),
    }
}

/// Jobs that may be paused are released while they are idle.
fn habits(what: &Happening) -> Habits {
    let idle_after = what.is("pauses").then_some(Millis::from_mins(30));
    Habits { idle_after, ..Habits::default() }
}

fn new_job(what: &Happening, after: Option<Dependency>, now: Timestamp) -> NewJob {
    let small = |name| u32::try_from(what.count(name) % 1000).expect("below 1000");
    let positive = |name| Some(small(name)).filter(|n| *n > 0);
    let model = positive("model").map(|model| MODELS[usize::from(model % 2 == 1)].1);
    let gpus = match (small("gpus"), model) {
        (0, _) => GpuRequest::whole(0),
        (n, None) => GpuRequest::whole(n),
        (n, Some(model)) => {
            GpuRequest::parse(&format!("{model}:{n}")).expect("a model and a number of it")
        }
    };
    // Thousandths of each device.
    let share = positive("share").map(|request| {
        let limit = what.count("most").min(1000).max(u64::from(request));
        Share::Part { request: MilliGpu::new(u64::from(request)), limit: MilliGpu::new(limit) }
    });
    let gpus = match share {
        Some(share) if !gpus.is_none() => gpus.shared(share).expect("they were asked for whole"),
        _ => gpus,
    };
    NewJob {
        context: BlobId(Arc::from("none")),
        request: JobRequest {
            name: Arc::from("job"),
            command: vec!["true".to_owned()],
            gpus_written: Arc::from(gpus.to_string()),
            gpus,
            cpus: positive("cpus").map(MilliCpu::from_cores),
            memory: positive("memory").map(Bytes::from_gib),
            time_limit: positive("limit").map(Millis::from_secs),
            grace: Millis::from_secs(small("grace")),
            after: after.into_iter().collect(),
            array: new_array(what),
            gang: match (small("nodes"), small("each")) {
                (nodes, 0) => Gang::anywhere(nodes),
                (nodes, each) => Gang::new(nodes, each),
            }
            .unwrap_or_default(),
            life: Life {
                begin: positive("begin").map(|seconds| now.after(Millis::from_secs(seconds))),
                deadline: positive("deadline").map(|seconds| now.after(Millis::from_secs(seconds))),
                retry: positive("retry").map(|most| {
                    Box::new(Retry {
                        most,
                        on: RetryOn::ALL.map(|(_, on)| on).into_iter().collect(),
                        exits: BTreeSet::new(),
                        backoff: Millis::from_secs(most - 1),
                    })
                }),
                preemptible: what.is("preemptible").then_some(true),
                exits: exits(what).into(),
                habits: habits(what).into(),
                on_node_lost: on_node_lost(what),
                ..Life::default()
            },
            allow_unsatisfiable: true,
            standing: Standing {
                max_parallel: positive("parallel").map(|most| most % 100).filter(|most| *most > 0),
                max_fails: (small("fails") % 100).checked_sub(1),
                priority: priority(what),
                notify: crate::sim::post::rules(what.count("user")),
                hold: what.is("hold"),
                ..Standing::default()
            }
            .into(),
            ..JobRequest::default()
        },
        ..NewJob::default()
    }
}
