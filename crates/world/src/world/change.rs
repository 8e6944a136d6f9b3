//! The functions that change the world. Each keeps the indexes true and records which records
//! changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_model::budget::Payer;
use gpool_model::record::{ClusterRecord, EndedJob, Record, RecordChange, RecordKey, RecordKind};
use gpool_model::{
    DeviceUuid, GpuAmount, Job, JobEnd, JobId, JobSpec, Likeness, MilliGpu, Millis, Node, NodeName,
    OrderKey, Outcome, PastRuns, Phase, Policy, ProjectName, ReservationName, Resources, Revision,
    Timestamp,
};

use crate::ledger::NodeRow;
use crate::row::{JobRow, NodeIx};
use crate::world::World;
use crate::world::used::in_use;

impl World {
    /// Advances the clock to `now`: escalates jobs that have waited long enough and passes the
    /// moments up to then.
    pub fn advance(&mut self, now: Timestamp) {
        self.tell_time(now);
        self.advance_alarms(now);
        self.queue.advance(now, &self.policy);
    }

    /// Replaces the facts about the cluster that must never be lost.
    pub fn put_cluster(&mut self, cluster: ClusterRecord) {
        self.mark(Record::Cluster(cluster.clone()).key());
        self.cluster = cluster;
    }

    pub fn put_policy(&mut self, mut policy: Policy) {
        policy.align_pools();
        self.mark(Record::Policy(Box::new(policy.clone())).key());
        let asks_of_one = |policy: &Policy| {
            let levels = policy.asks_attained().then(|| policy.attained_levels.clone());
            (policy.order.contains(&OrderKey::Predicted), levels)
        };
        let asks = |policy: &Policy| {
            let pools = policy.pools.iter().map(|(pool, own)| (pool.clone(), asks_of_one(own)));
            let pools: BTreeMap<_, _> = pools.collect();
            (policy.tells_users_apart(), asks_of_one(policy), pools)
        };
        let is_other = asks(&self.policy) != asks(&policy);
        if policy.use_half_life != self.policy.use_half_life {
            self.settle_use();
        }
        self.policy = policy;
        self.rotate_anew();
        self.queue.line_up_anew(&self.policy);
        if is_other {
            // The shapes of jobs depend on the policy.
            let pending: Vec<JobId> = self.queue.jobs().collect();
            self.queue_anew(&pending);
        }
    }

    /// Adds a node or replaces its record; capacity that jobs hold there stays booked.
    pub fn put_node(&mut self, node: Node) {
        self.mark(Record::Node(Box::new(node.clone())).key());
        let name = node.name.clone();
        self.watch_drains(&node);
        self.count_capacity(&node);
        // The charge for GPUs depends on their model and pool.
        let charged = self.charged_otherwise(&node);
        for row in &charged {
            self.uncount_for_project(row);
        }
        let before = self.node(&name).map(|row| row.node.clone());
        let mut row = NodeRow::new(node);
        let ix = match self.node_by_name.get(&name).copied() {
            Some(ix) => {
                before.iter().for_each(|before| self.uncount_capacity(before));
                ix
            }
            None => {
                let ix = NodeIx(self.nodes.len());
                let before = |ix: &NodeIx| self.nodes[ix.0].node.name < name;
                let at = self.nodes_in_order.partition_point(before);
                self.nodes_in_order.insert(at, ix);
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
        row.n_changes = self.nodes[ix.0].n_changes + 1;
        self.nodes[ix.0] = row;
        let after = self.nodes[ix.0].node.clone();
        self.limit_slots_anew(before.as_ref(), Some(&after));
        for row in &charged {
            self.count_for_project(row);
        }
    }

    /// Removes a node on which no task holds anything, and returns whether there was one. Each
    /// [`NodeIx`] becomes invalid.
    pub fn remove_node(&mut self, name: &NodeName) -> bool {
        let Some(ix) = self.node_by_name.get(name).copied() else { return false };
        if !self.nodes[ix.0].here.is_empty() {
            return false;
        }
        self.node_by_name.remove(name);
        let row = self.nodes.remove(ix.0);
        self.mark(Record::Node(Box::new(row.node.clone())).key());
        self.nodes_in_order.retain(|it| *it != ix);
        let later = self.nodes_in_order.iter_mut().chain(self.node_by_name.values_mut());
        later.filter(|it| **it > ix).for_each(|it| it.0 -= 1);
        self.ends.close_gap(ix);
        self.watch_drains(&Node {
            drain: None,
            device_drains: BTreeMap::new(),
            ..row.node.clone()
        });
        self.uncount_capacity(&row.node);
        self.limit_slots_anew(Some(&row.node), None);
        true
    }

    /// Returns the jobs on a node that the new record charges for other kinds of GPUs.
    fn charged_otherwise(&self, node: &Node) -> Vec<JobRow> {
        let Some(before) = self.node(&node.name) else { return Vec::new() };
        let models = |node: &Node| -> Vec<(DeviceUuid, String)> {
            node.devices.iter().map(|it| (it.uuid.clone(), it.model.clone())).collect()
        };
        if before.node.pool == node.pool && models(&before.node) == models(node) {
            return Vec::new();
        }
        let mut jobs: Vec<JobId> = before.here.iter().map(|task| task.job).collect();
        jobs.dedup();
        jobs.iter().filter_map(|job| self.job(*job)).cloned().collect()
    }

    /// Marks every node as disconnected; the records stay. Only a message from an agent shows that
    /// it answers.
    pub fn disconnect_nodes(&mut self) {
        for row in &mut self.nodes {
            row.node.connected = false;
            row.node.silence = None;
            row.n_changes += 1;
        }
        self.holdings.capacity = Resources::none();
    }

    /// Adds an admitted job.
    ///
    /// # Panics
    /// If a job with this ID exists.
    pub fn add_job(&mut self, spec: Arc<JobSpec>, job: Job) {
        let id = job.id;
        assert!(!self.jobs.contains_key(&id), "job {id} is added once");
        if id.element.is_none() {
            self.mark(Record::JobSpec(Arc::clone(&spec)).key());
        }
        self.mark_job(id);
        self.change_use(&spec, MilliGpu::ZERO, in_use(&job));
        let row = Arc::new(JobRow { spec, job });
        self.index(&row);
        self.jobs.insert(id, row);
    }

    /// Replaces the state of a job. A job that has ended leaves memory; the array keeps the end of
    /// an element.
    ///
    /// # Panics
    /// If the job does not exist.
    pub fn put_job(&mut self, job: Job) {
        let id = job.id;
        let mut row = self.jobs.remove(&id).expect("only jobs that are there change");
        self.unindex(&row);
        self.mark_job(id);
        self.change_use(&row.spec, in_use(&row.job), in_use(&job));
        if let Phase::Ended(end) = &job.phase {
            if id.element.is_some() {
                self.note_element_end(id, job.attempt, end);
            } else {
                self.mark(Record::JobSpec(Arc::clone(&row.spec)).key());
                self.remember_end(id, end.outcome);
                self.remember_elements(&row.spec, &job);
            }
            if job.array.is_none() {
                self.remember_run(&row.spec, end, job.course.paused);
            }
            self.ended.push(EndedJob { spec: Arc::clone(&row.spec), job });
            return;
        }
        match Arc::get_mut(&mut row) {
            Some(row) => row.job = job,
            // A reader still holds the old row.
            None => row = Arc::new(JobRow { spec: Arc::clone(&row.spec), job }),
        }
        self.index(&row);
        self.jobs.insert(id, row);
    }

    /// Replaces the recorded run times of one likeness.
    pub fn put_past_runs(&mut self, runs: PastRuns) {
        self.mark(RecordKey { kind: RecordKind::PastRuns, key: runs.like.key() });
        self.past.insert(runs);
    }

    /// Replaces the spec of a job, for an array that of its elements too.
    ///
    /// # Panics
    /// If the job does not exist, or is an element.
    pub fn put_spec(&mut self, spec: &Arc<JobSpec>) {
        let of = |element| JobId { element, ..spec.id };
        let rows = self.jobs.range(of(None)..=of(Some(u32::MAX))).map(|(id, _)| *id);
        let rows: Vec<JobId> = rows.collect();
        assert_eq!(rows.first(), Some(&spec.id), "only specs of jobs that are there change");
        self.mark(Record::JobSpec(Arc::clone(spec)).key());
        for id in rows {
            let mut row = self.jobs.remove(&id).expect("it was just looked up");
            self.unindex(&row);
            Arc::make_mut(&mut row).spec = Arc::clone(spec);
            self.index(&row);
            self.jobs.insert(id, row);
        }
    }

    /// Takes the next revision and all changes since the last one: each changed record once, in the
    /// order of the keys, and the jobs that ended, in order. `None` if nothing changed.
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

    /// Returns every record of this world in the order of their keys, enough to load it again.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        let mut records = vec![
            Record::Cluster(self.cluster.clone()),
            Record::Policy(Box::new(self.policy.clone())),
        ];
        records.extend(self.projects.values().cloned().map(|it| Record::Project(Box::new(it))));
        records.extend(self.nodes.iter().map(|row| Record::Node(Box::new(row.node.clone()))));
        for (id, row) in &self.jobs {
            if id.element.is_none() {
                records.push(Record::JobSpec(Arc::clone(&row.spec)));
            }
            records.push(Record::Job(Box::new(row.job.clone())));
        }
        records.extend(self.requests.values().cloned().map(Record::Idempotency));
        let reservations = self.reservations.values().cloned();
        records.extend(reservations.map(|it| Record::Reservation(Box::new(it))));
        records.extend(self.past.all().cloned().map(Record::PastRuns));
        let deliveries = self.outbox.all().cloned();
        records.extend(deliveries.map(|delivery| Record::Delivery(Box::new(delivery))));
        records.extend(self.all_used().map(Record::Used));
        let subscriptions = self.subscriptions.values().cloned();
        records.extend(subscriptions.map(|it| Record::Subscription(Box::new(it))));
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
                project.cloned().map(|it| Record::Project(Box::new(it)))
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
            RecordKind::Used => self.used_by_key(&key.key).map(Record::Used),
            RecordKind::Subscription => {
                let found = Payer::of_key(&key.key).and_then(|it| self.subscriptions.get(&it));
                found.cloned().map(|it| Record::Subscription(Box::new(it)))
            }
            RecordKind::PastRuns => {
                let like = Likeness::of_key(&key.key);
                like.and_then(|like| self.past.runs(&like)).cloned().map(Record::PastRuns)
            }
            RecordKind::Delivery => {
                let delivery = self.outbox.get(&key.key).cloned();
                delivery.map(|delivery| Record::Delivery(Box::new(delivery)))
            }
        }
    }

    /// Marks the record of a job as changed.
    pub(crate) fn mark_job(&mut self, id: JobId) {
        self.mark(RecordKey { kind: RecordKind::Job, key: id.to_string() });
    }

    pub(crate) fn mark(&mut self, key: RecordKey) {
        self.n_changes += 1;
        self.changed.insert(key);
    }

    fn remember_end(&mut self, id: JobId, outcome: Outcome) {
        self.recent_ends.insert(id, outcome);
        self.recent_order.push_back(id);
        if self.recent_order.len() > Self::RECENT_ENDS_MAX
            && let Some(oldest) = self.recent_order.pop_front()
        {
            self.recent_ends.remove(&oldest);
            self.recent_arrays.remove(&oldest.number);
        }
    }

    /// Counts only runs that ended by themselves or by their limit.
    fn remember_run(&mut self, spec: &JobSpec, end: &JobEnd, paused: Millis) {
        let finished =
            matches!(end.outcome, Outcome::Succeeded | Outcome::Failed | Outcome::TimedOut);
        let Some(started_at) = end.started_at.filter(|_| finished) else { return };
        let length = end.ended_at.since(started_at).saturating_sub(paused);
        let like = Likeness::of(spec);
        let is_whole = matches!(spec.gpus.amount, GpuAmount::Whole(_)) && !spec.has_parts();
        let gpu = end.usage.gpu.filter(|gpu| is_whole && !gpu.memory_peak.is_zero());
        for like in self.past.add(like, length, gpu, end.ended_at) {
            self.mark(RecordKey { kind: RecordKind::PastRuns, key: like.key() });
            let pending = self.pending_by_like.get(&like).into_iter().flatten().copied();
            let pending: Vec<JobId> = pending.collect();
            self.queue_anew(&pending);
        }
    }
}
