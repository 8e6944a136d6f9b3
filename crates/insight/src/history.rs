//! The history of a cluster from its store, for simulations with changes. Reads a store that a
//! server may have open, and changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_control::forecast::Otherwise;
use gpool_model::job::Again;
use gpool_model::job::{DependencyKind, Owner};
use gpool_model::pattern::short_model;
use gpool_model::record::EndedJob;
use gpool_model::{
    Command, DeviceHealth, Exit, Gang, Job, JobId, JobSpec, Millis, NewJob, Node, NodeName, Phase,
    Record, Refusal, ResourceKind, Timestamp,
};
use gpool_store::{ArchiveFilter, Reader};
use gpool_trace::Coming;

use crate::otherwise::{self, Supposed};
use gpool_journal::codec;

/// Number of ended jobs read at once.
const PAGE: u32 = 1000;

/// A job that ran and has ended.
#[derive(Debug, Clone)]
pub struct PastJob {
    /// ID of the job, or of a single array element.
    pub id: JobId,
    pub owner: Owner,
    /// When it could start: after its submission, its begin time and the end of its dependencies.
    pub came_at: Timestamp,
    pub ran: Millis,
    pub job: NewJob,
}

/// The jobs of a history that are read.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Jobs that ended since.
    pub since: Timestamp,
    /// Most jobs; the newest ones are read.
    pub n_jobs: usize,
}

impl Extent {
    pub const ALL: Self = Self { since: Timestamp::ZERO, n_jobs: usize::MAX };
}

/// The jobs, nodes and policy of a store.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The last policy, projects and nodes. Nodes are healthy and idle.
    pub records: Vec<Record>,
    /// Jobs that ran, by arrival time.
    pub jobs: Vec<PastJob>,
    /// Number of ended jobs that never ran.
    pub n_never_ran: u64,
    /// Number of jobs that have not ended.
    pub n_not_ended: u64,
    /// Whether older jobs are left out because of their number.
    pub is_cut: bool,
}

/// Facts about jobs, collected before the ends of all dependencies are known.
#[derive(Default)]
struct HistoryFacts {
    ran: Vec<(Arc<JobSpec>, Job, Millis, Timestamp)>,
    ended_at: BTreeMap<JobId, Timestamp>,
    n_never_ran: u64,
    n_not_ended: u64,
    is_cut: bool,
}

impl History {
    /// Reads a store.
    ///
    /// # Errors
    /// If the store cannot be read, or contains data of a newer version.
    pub fn read(reader: &Reader, extent: Extent) -> Result<Self, String> {
        let said = |error: &dyn std::fmt::Display| error.to_string();
        // Live jobs first: a job that ends meanwhile is then found in the archive.
        let loaded = reader.load().map_err(|error| said(&error))?;
        let (mut records, mut specs, mut live) = (Vec::new(), BTreeMap::new(), Vec::new());
        for row in &loaded.records {
            match codec::decode(row).map_err(|error| said(&error))? {
                Record::Node(node) => records.push(Record::Node(Box::new(whole(*node)))),
                record @ (Record::Policy(_) | Record::Project(_)) => records.push(record),
                Record::JobSpec(spec) => drop(specs.insert(spec.id, spec)),
                Record::Job(job) => live.push(*job),
                // Past usage affects the queue order, and no usage is known before the first
                // job.
                Record::Cluster(_)
                | Record::Idempotency(_)
                | Record::Reservation(_)
                | Record::PastRuns(_)
                | Record::Delivery(_)
                | Record::Used(_)
                | Record::Subscription(_) => {}
            }
        }
        let mut read = HistoryFacts::default();
        let mut archived = BTreeSet::new();
        let since = Some(extent.since).filter(|since| *since > Timestamp::ZERO);
        let mut filter = ArchiveFilter { limit: PAGE, since, ..ArchiveFilter::default() };
        loop {
            if read.ran.len() >= extent.n_jobs {
                read.is_cut = true;
                break;
            }
            let rows = reader.archive(&filter).map_err(|error| said(&error))?;
            let Some(last) = rows.last() else { break };
            filter.before = Some(last.job);
            for row in &rows {
                archived.insert(row.job);
                let EndedJob { spec, job } =
                    codec::decode_ended(row).map_err(|error| said(&error))?;
                match &spec.array {
                    None => read.ended(spec, job),
                    Some(array) => {
                        let n_ended = read.elements(reader, &spec)?;
                        read.n_never_ran += u64::from(array.indexes.len()).saturating_sub(n_ended);
                        read.ended_at.insert(job.id, row.ended_at);
                    }
                }
            }
        }
        for job in live {
            let number = job.id.number;
            let spec = specs.get(&job.id).filter(|_| !archived.contains(&number));
            // Elements count with their array.
            let Some(spec) = spec.filter(|spec| spec.joins.is_none()) else { continue };
            read.n_not_ended += match &spec.array {
                None => 1,
                Some(array) => {
                    let n_ended = read.elements(reader, spec)?;
                    u64::from(array.indexes.len()).saturating_sub(n_ended)
                }
            };
        }
        Ok(read.history(records))
    }

    /// Replaces the nodes by `n_nodes` with `n_devices` devices each, of the most frequent model,
    /// and with the cores and memory of the largest node.
    ///
    /// # Errors
    /// If no device exists to copy the model from.
    pub fn replace_nodes(&mut self, n_nodes: u32, n_devices: u32) -> Result<(), Refusal> {
        let nodes = self.nodes();
        let mut models = BTreeMap::<String, usize>::new();
        for device in nodes.iter().flat_map(|node| &node.devices) {
            *models.entry(short_model(&device.model)).or_default() += 1;
        }
        // On a tie, the first by name.
        let most = models.into_iter().rev().max_by_key(|(_, n)| *n);
        let model = most.map(|(model, _)| model).unwrap_or_default();
        let supposed = vec![Supposed::Nodes { n_nodes, n_devices, model }];
        let added = resolve(supposed, &nodes)?;
        self.records.retain(|record| !matches!(record, Record::Node(_)));
        for (nth, otherwise) in added.into_iter().enumerate() {
            if let Otherwise::Node(mut node) = otherwise {
                node.name = NodeName::new(format!("node{nth:05}"));
                self.records.push(Record::Node(node));
            }
        }
        Ok(())
    }

    /// Applies changes written as text: adds nodes, and returns the commands for the others.
    ///
    /// # Errors
    /// The first change with a syntax error, or that does not apply to past jobs.
    pub fn suppose(&mut self, texts: &[String]) -> Result<Vec<Command>, Refusal> {
        let mut commands = Vec::new();
        for otherwise in resolve(otherwise::read(texts)?, &self.nodes())? {
            match otherwise {
                Otherwise::Node(node) => self.records.push(Record::Node(node)),
                Otherwise::Command(
                    command @ (Command::ChangeProjects(_)
                    | Command::SetPolicy { .. }
                    | Command::Drain { .. }
                    | Command::Undrain { .. }),
                ) => commands.push(command),
                Otherwise::Command(_) => {
                    let why = "it is not possible for a history, which has fixed jobs; add, \
                               project, policy, drain and undrain are"
                        .to_owned();
                    return Err(Refusal::Invalid { field: "if".to_owned(), why });
                }
            }
        }
        Ok(commands)
    }

    /// Takes the jobs for a simulation. The owner of each is its project if there are several, or
    /// else its user.
    pub fn take_jobs(&mut self) -> Vec<Coming> {
        let projects: BTreeSet<&str> =
            self.jobs.iter().map(|job| job.job.project.as_str()).collect();
        let by_project = projects.len() > 1;
        let coming = |PastJob { owner, came_at, ran, job, .. }: PastJob| {
            let whose = match by_project {
                true => Arc::from(job.project.as_str()),
                false => Arc::clone(&owner.user),
            };
            Coming { at: came_at, duration: ran, owner, whose, job }
        };
        std::mem::take(&mut self.jobs).into_iter().map(coming).collect()
    }

    fn nodes(&self) -> Vec<Node> {
        let node = |record: &Record| match record {
            Record::Node(node) => Some((**node).clone()),
            _ => None,
        };
        self.records.iter().filter_map(node).collect()
    }
}

fn resolve(supposed: Vec<Supposed>, nodes: &[Node]) -> Result<Vec<Otherwise>, Refusal> {
    // No job is created; the caller only needs to know that the text requests one.
    let resolved = otherwise::resolve(supposed, nodes, |_| Ok(Vec::new()))?;
    Ok(resolved.into_iter().map(|(_, otherwise)| otherwise).collect())
}

/// Returns the node without its current tasks, faults and drains. Its jobs can be paused when they
/// are preempted.
fn whole(mut node: Node) -> Node {
    node.drain = None;
    node.device_drains = BTreeMap::new();
    node.connected = false;
    node.silence = None;
    node.capacity.set(ResourceKind::PauseMemory, 0);
    for device in &mut node.devices {
        device.health = DeviceHealth::Healthy;
        device.unmanaged = Vec::new();
        device.strays = Vec::new();
        device.overshoots = Vec::new();
        device.guests = Vec::new();
        device.damaged = Vec::new();
    }
    node
}

impl HistoryFacts {
    fn ended(&mut self, spec: Arc<JobSpec>, job: Job) {
        let Phase::Ended(end) = &job.phase else { return };
        self.ended_at.insert(job.id, end.ended_at);
        if spec.joins.is_some() {
            return;
        }
        match ran(&job, spec.time_limit) {
            Some((span, first)) => self.ran.push((spec, job, span, first)),
            None => self.n_never_ran += 1,
        }
    }

    /// Records the ended elements of an array, and returns their number.
    fn elements(&mut self, reader: &Reader, spec: &Arc<JobSpec>) -> Result<u64, String> {
        let mut next = Some(0);
        let mut n = 0;
        while let Some(from) = next {
            let rows = reader.elements(spec.id.number, from, PAGE);
            let rows = rows.map_err(|error| error.to_string())?;
            next = rows.last().and_then(|last| last.element.checked_add(1));
            for row in &rows {
                let job = codec::decode_element(row).map_err(|error| error.to_string())?;
                self.ended(Arc::clone(spec), job);
                n += 1;
            }
        }
        Ok(n)
    }

    fn history(self, records: Vec<Record>) -> History {
        let Self { ran, ended_at, n_never_ran, n_not_ended, is_cut } = self;
        let jobs = ran.into_iter().map(|(spec, job, span, first)| PastJob {
            id: job.id,
            owner: spec.owner.clone(),
            // A job that started had arrived by then, regardless of its other times.
            came_at: came_at(&spec, job.id, &ended_at).min(first),
            ran: span,
            job: resubmission(&spec, &job, span),
        });
        let mut jobs: Vec<PastJob> = jobs.collect();
        jobs.sort_by_key(|job| (job.came_at, job.id));
        History { records, jobs, n_never_ran, n_not_ended, is_cut }
    }
}

/// Returns how long a job ran in its last attempt and its start, including the earlier attempts
/// that saved their state.
pub fn ran(job: &Job, limit: Option<Millis>) -> Option<(Millis, Timestamp)> {
    let Phase::Ended(end) = &job.phase else { return None };
    let span = |from: Timestamp, until: Timestamp, paused: Millis| {
        let span = until.since(from).saturating_sub(paused);
        // Time after the limit belongs to the job's termination.
        limit.map_or(span, |limit| span.min(limit))
    };
    let mut all = end.started_at.map(|at| (span(at, end.ended_at, job.course.paused), at));
    for past in job.course.past.iter().rev() {
        let Some(at) = past.started_at else { continue };
        let goes_on = matches!(past.again, Again::TakenBack { exit: Exit::Checkpoint, .. });
        let (sum, _) = match all {
            Some(_) if !goes_on => break,
            // The job ended while it waited to continue.
            sum => sum.unwrap_or((Millis::ZERO, at)),
        };
        all = Some((sum.saturating_add(span(at, past.ended_at, Millis::ZERO)), at));
        if !goes_on {
            break;
        }
    }
    all
}

/// Returns when a job could start, apart from missing capacity.
fn came_at(spec: &JobSpec, id: JobId, ended_at: &BTreeMap<JobId, Timestamp>) -> Timestamp {
    let end_of = |job: JobId, kind: DependencyKind| {
        let alike = JobId { number: job.number, element: id.element };
        let alike = ended_at.get(&alike).filter(|_| kind == DependencyKind::Each);
        alike.or_else(|| ended_at.get(&job)).copied()
    };
    let all = spec.after.iter().filter_map(|it| end_of(it.job, it.kind)).max();
    let one = spec.life.after_one.iter().filter_map(|it| end_of(it.job, it.kind)).min();
    let moments = [Some(spec.submitted_at), spec.life.begin, all, one];
    moments.into_iter().flatten().max().unwrap_or(spec.submitted_at)
}

/// Returns the request as a separate job that sends no messages, does not grow, and ends after
/// `ran`.
fn resubmission(spec: &JobSpec, job: &Job, ran: Millis) -> NewJob {
    let mut new = NewJob::again(spec, job, None);
    new.retry_of = None;
    new.standing.note = None;
    new.standing.notify = Vec::new();
    new.allow_unsatisfiable = false;
    new.gang = Gang { nodes_most: new.gang.nodes, ..new.gang };
    // The limit applies to each attempt; this combines several into one.
    new.time_limit = new.time_limit.map(|limit| limit.max(ran));
    new.life.retry = None;
    if new.life.exits.contains(&Exit::Pause) {
        let mut exits = BTreeSet::clone(&new.life.exits);
        exits.remove(&Exit::Pause);
        exits.insert(Exit::Checkpoint);
        new.life.exits = exits.into();
    }
    new
}
