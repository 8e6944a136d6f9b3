//! The doors through which the world changes. Each keeps the indexes true and remembers which
//! records changed.

use std::sync::Arc;

use gpool_model::plan::Fit;
use gpool_model::record::{
    ClusterRecord, EndedJob, IdempotencyRecord, Record, RecordChange, RecordKey, RecordKind,
};
use gpool_model::{
    Job, JobEnd, JobId, JobSpec, Likeness, Millis, Node, NodeName, OrderKey, Outcome, Phase,
    Policy, ProjectName, ReservationName, Revision, Shape, Timestamp,
};

use crate::ledger::NodeRow;
use crate::world::{JobRow, NodeIx, World};

impl World {
    /// Lets time pass: escalates jobs that have waited long enough by `now`, and waits for what
    /// time brings after it.
    pub fn advance(&mut self, now: Timestamp) {
        self.advance_alarms(now);
        self.queue.advance(now, self.policy.escalate_after);
    }

    /// Replaces what the cluster must never forget.
    pub fn put_cluster(&mut self, cluster: ClusterRecord) {
        self.mark(Record::Cluster(cluster.clone()).key());
        self.cluster = cluster;
    }

    /// Replaces the policy.
    pub fn put_policy(&mut self, policy: Policy) {
        self.mark(Record::Policy(Box::new(policy.clone())).key());
        let asks = |policy: &Policy| policy.order.contains(&OrderKey::Predicted);
        let is_other = asks(&self.policy) != asks(&policy);
        self.policy = policy;
        self.queue.reset_escalation();
        if is_other {
            // What jobs have in common is another thing now.
            let pending: Vec<JobId> = self.queue.jobs().collect();
            self.queue_anew(&pending);
        }
    }

    /// Adds a node or replaces what is recorded of it; what jobs hold there stays booked.
    pub fn put_node(&mut self, node: Node) {
        self.mark(Record::Node(Box::new(node.clone())).key());
        let name = node.name.clone();
        self.watch_drains(&node);
        let mut row = NodeRow::new(node);
        let ix = match self.node_by_name.get(&name) {
            Some(ix) => *ix,
            None => {
                let ix = NodeIx(self.nodes.len());
                self.node_by_name.insert(name.clone(), ix);
                self.nodes.push(row.clone());
                ix
            }
        };
        for task in &self.nodes[ix.0].here {
            let held = self.jobs[&task.job].job.phase.allocations().iter();
            for allocation in held.filter(|allocation| allocation.task == *task) {
                row.book(allocation);
            }
        }
        self.nodes[ix.0] = row;
    }

    /// Takes every node for one whose agent has not answered yet. What is recorded stays: whether
    /// an agent answers is known by hearing from it, not by reading it.
    pub fn disconnect_nodes(&mut self) {
        for row in &mut self.nodes {
            row.node.connected = false;
        }
    }

    /// Adds a job that was admitted.
    ///
    /// # Panics
    /// If there is a job of that id.
    pub fn add_job(&mut self, spec: Arc<JobSpec>, job: Job) {
        let id = job.id;
        assert!(!self.jobs.contains_key(&id), "job {id} is added once");
        self.mark(Record::JobSpec(Arc::clone(&spec)).key());
        self.mark(Record::Job(Box::new(job.clone())).key());
        let row = JobRow { spec, job };
        self.index(&row);
        self.jobs.insert(id, row);
    }

    /// Replaces what has become of a job. A job that has ended leaves memory.
    ///
    /// # Panics
    /// If there is no such job.
    pub fn put_job(&mut self, job: Job) {
        let id = job.id;
        let mut row = self.jobs.remove(&id).expect("only jobs that are there change");
        self.unindex(&row);
        self.mark(Record::Job(Box::new(job.clone())).key());
        if let Phase::Ended(end) = &job.phase {
            self.mark(Record::JobSpec(Arc::clone(&row.spec)).key());
            self.remember_end(id, end.outcome);
            self.remember_run(&row.spec, end);
            self.ended.push(EndedJob { spec: row.spec, job });
            return;
        }
        row.job = job;
        self.index(&row);
        self.jobs.insert(id, row);
    }

    /// Remembers how a request was answered.
    pub fn put_request(&mut self, record: IdempotencyRecord) {
        self.mark(Record::Idempotency(record.clone()).key());
        self.remember_request(record);
    }

    /// Forgets requests that were answered before that moment.
    pub fn forget_requests(&mut self, before: Timestamp) {
        while let Some((at, key)) = self.requests_by_age.first().cloned() {
            if at >= before {
                break;
            }
            self.requests_by_age.pop_first();
            if let Some(record) = self.requests.remove(&key) {
                self.mark(Record::Idempotency(record).key());
            }
        }
    }

    /// Takes the next revision and all that changed since the last one: records, each once, in
    /// the order of their keys, and jobs that ended, in order. `None` if nothing changed.
    pub fn take_changes(&mut self) -> Option<(Revision, Vec<RecordChange>, Vec<EndedJob>)> {
        if self.changed.is_empty() {
            return None;
        }
        self.revision = self.revision.next();
        let changed = std::mem::take(&mut self.changed);
        let records =
            changed.into_iter().map(|key| RecordChange { value: self.record(&key), key }).collect();
        Some((self.revision, records, std::mem::take(&mut self.ended)))
    }

    /// Whether anything changed since the last commit was taken.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Every record of this world, in the order of their keys: what loading it again needs.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        let mut records = vec![
            Record::Cluster(self.cluster.clone()),
            Record::Policy(Box::new(self.policy.clone())),
        ];
        records.extend(self.projects.values().cloned().map(Record::Project));
        records.extend(self.nodes.iter().map(|row| Record::Node(Box::new(row.node.clone()))));
        for row in self.jobs.values() {
            records.push(Record::JobSpec(Arc::clone(&row.spec)));
            records.push(Record::Job(Box::new(row.job.clone())));
        }
        records.extend(self.requests.values().cloned().map(Record::Idempotency));
        let reservations = self.reservations.values().cloned();
        records.extend(reservations.map(|it| Record::Reservation(Box::new(it))));
        records.extend(self.past.all().cloned().map(Record::PastRuns));
        records.sort_by_key(Record::key);
        records
    }

    fn record(&self, key: &RecordKey) -> Option<Record> {
        let job = || key.key.parse().ok().and_then(|id: JobId| self.jobs.get(&id));
        match key.kind {
            RecordKind::Cluster => Some(Record::Cluster(self.cluster.clone())),
            RecordKind::Policy => Some(Record::Policy(Box::new(self.policy.clone()))),
            RecordKind::Project => {
                let project = self.projects.get(&ProjectName::new(&key.key));
                project.cloned().map(Record::Project)
            }
            RecordKind::Node => {
                let row = self.node(&NodeName::new(&key.key));
                row.map(|row| Record::Node(Box::new(row.node.clone())))
            }
            RecordKind::JobSpec => job().map(|row| Record::JobSpec(Arc::clone(&row.spec))),
            RecordKind::Job => job().map(|row| Record::Job(Box::new(row.job.clone()))),
            RecordKind::Idempotency => {
                self.requests.get(&key.key).cloned().map(Record::Idempotency)
            }
            RecordKind::Reservation => {
                let found = self.reservations.get(&ReservationName::new(&key.key));
                found.cloned().map(|it| Record::Reservation(Box::new(it)))
            }
            RecordKind::PastRuns => self.past.by_key(&key.key).cloned().map(Record::PastRuns),
        }
    }

    pub(crate) fn mark(&mut self, key: RecordKey) {
        self.n_changes += 1;
        self.changed.insert(key);
    }

    pub(crate) fn remember_request(&mut self, record: IdempotencyRecord) {
        self.requests_by_age.insert((record.at, record.key()));
        self.requests.insert(record.key(), record);
    }

    fn remember_end(&mut self, id: JobId, outcome: Outcome) {
        self.recent_ends.insert(id, outcome);
        self.recent_order.push_back(id);
        if self.recent_order.len() > Self::RECENT_ENDS_MAX
            && let Some(oldest) = self.recent_order.pop_front()
        {
            self.recent_ends.remove(&oldest);
        }
    }

    /// Only what ended by itself or by its limit says how long such jobs run.
    fn remember_run(&mut self, spec: &JobSpec, end: &JobEnd) {
        let finished =
            matches!(end.outcome, Outcome::Succeeded | Outcome::Failed | Outcome::TimedOut);
        let Some(started_at) = end.started_at.filter(|_| finished) else { return };
        let length = end.ended_at.since(started_at);
        let like = Likeness::of(spec);
        for like in self.past.add(like, length, end.ended_at) {
            self.mark(RecordKey { kind: RecordKind::PastRuns, key: like.key() });
            let pending = self.pending_by_like.get(&like).into_iter().flatten().copied();
            let pending: Vec<JobId> = pending.collect();
            self.queue_anew(&pending);
        }
    }

    /// Finds the shapes of pending jobs again.
    fn queue_anew(&mut self, jobs: &[JobId]) {
        for id in jobs {
            let row = self.jobs[id].clone();
            let is_escalated = self.queue.place(*id).is_some_and(|place| place.is_escalated);
            self.unqueue(&row);
            self.enqueue(&row);
            if is_escalated {
                self.queue.escalate(*id);
            }
        }
    }

    fn enqueue(&mut self, row: &JobRow) {
        let Phase::Pending { since } = row.job.phase else { return };
        let waits_since = Timestamp::new(since.get().saturating_sub(row.job.waited.get()));
        let shape = self.shape_of(row);
        self.queue.insert(row.job.id, shape, row.spec.submitted_at, waits_since);
        if self.policy.order.contains(&OrderKey::Predicted) {
            let like = Likeness::of(&row.spec);
            self.pending_by_like.entry(like).or_default().insert(row.job.id);
        }
    }

    fn unqueue(&mut self, row: &JobRow) {
        self.queue.remove(row.job.id);
        if self.pending_by_like.is_empty() {
            return;
        }
        let like = Likeness::of(&row.spec);
        if let Some(jobs) = self.pending_by_like.get_mut(&like) {
            jobs.remove(&row.job.id);
            if jobs.is_empty() {
                self.pending_by_like.remove(&like);
            }
        }
    }

    /// The shape of a job.
    fn shape_of(&self, row: &JobRow) -> Shape {
        let spec = &row.spec;
        let asks = self.policy.order.contains(&OrderKey::Predicted);
        let prediction = asks.then(|| self.prediction(spec)).flatten();
        Shape {
            project: spec.project.clone(),
            uid: spec.owner.uid,
            reserved_as: self.reserved_as(row.job.id),
            pool: None,
            priority: row.job.priority,
            preemptible: false,
            time_limit: spec.time_limit.map(|limit| {
                let step = Shape::LIMIT_STEP.get();
                Millis::new(limit.div_ceil(step).get().saturating_mul(step))
            }),
            predicted: prediction.map(|prediction| Shape::rounded_length(prediction.p50)),
            fit: Fit {
                gpus: spec.gpus.clone(),
                cpus: spec.cpus.unwrap_or_default(),
                memory: spec.memory.unwrap_or_default(),
            },
        }
    }

    pub(crate) fn index(&mut self, row: &JobRow) {
        *self.n_by_state.entry(row.job.phase.state()).or_default() += 1;
        *self.n_by_uid.entry(row.spec.owner.uid).or_default() += 1;
        match &row.job.phase {
            Phase::Pending { .. } => self.enqueue(row),
            Phase::Waiting { .. } | Phase::Held { .. } => {
                for dependency in &row.spec.after {
                    self.dependents.entry(dependency.job).or_default().insert(row.job.id);
                }
            }
            Phase::Ended(_) => {}
            Phase::Starting { allocations, .. }
            | Phase::Running { allocations, .. }
            | Phase::Stopping { allocations, .. } => {
                self.holding.insert(row.job.id);
                self.ends.insert(row);
                for allocation in allocations {
                    let ix = self.node_by_name.get(&allocation.node);
                    let ix = ix.expect("what is held is on a node that is there");
                    self.nodes[ix.0].book(allocation);
                }
            }
        }
    }

    pub(crate) fn unindex(&mut self, row: &JobRow) {
        let state = row.job.phase.state();
        if let Some(n) = self.n_by_state.get_mut(&state) {
            *n -= 1;
            if *n == 0 {
                self.n_by_state.remove(&state);
            }
        }
        if let Some(n) = self.n_by_uid.get_mut(&row.spec.owner.uid) {
            *n -= 1;
            if *n == 0 {
                self.n_by_uid.remove(&row.spec.owner.uid);
            }
        }
        match &row.job.phase {
            Phase::Pending { .. } => self.unqueue(row),
            Phase::Waiting { .. } | Phase::Held { .. } => {
                for dependency in &row.spec.after {
                    if let Some(waiting) = self.dependents.get_mut(&dependency.job) {
                        waiting.remove(&row.job.id);
                        if waiting.is_empty() {
                            self.dependents.remove(&dependency.job);
                        }
                    }
                }
            }
            Phase::Ended(_) => {}
            Phase::Starting { allocations, .. }
            | Phase::Running { allocations, .. }
            | Phase::Stopping { allocations, .. } => {
                self.holding.remove(&row.job.id);
                self.ends.remove(row);
                for allocation in allocations {
                    let ix = self.node_by_name.get(&allocation.node);
                    let ix = ix.expect("what is held is on a node that is there");
                    self.nodes[ix.0].unbook(allocation);
                }
            }
        }
    }
}
