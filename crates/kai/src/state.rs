//! The counters of a cycle, and the log that rolls changes back.
//!
//! All counters follow from the places of tasks, so there is one way to change them: [`State::set`]
//! subtracts a task's old contribution and adds its new one. A rollback sets the task to its old
//! value; that cannot fail.

use std::collections::{BTreeMap, BTreeSet};

use crate::counters::{At, Free, Hold, NodeFree, PlaceFree, SetNow, Shared, TaskNow, TaskStatus};
use crate::index::{Index, Mode};
use crate::input::{Amounts, GpuAsk, Input, TaskState};

/// The counters.
#[derive(Debug)]
pub(crate) struct State<'a> {
    pub index: &'a Index,
    pub tasks: Vec<TaskNow>,
    pub nodes: Vec<NodeFree>,
    pub places: Vec<PlaceFree>,
    pub shared: Vec<Shared>,
    /// Shared devices of tasks, one list after the other.
    pub lots: Vec<usize>,
    pub sets: Vec<SetNow>,
    /// What each project has, those below it included.
    pub allocated: Vec<Amounts>,
    /// The part of it that may not be taken back.
    pub fixed: Vec<Amounts>,
    /// Places with devices that are given out whole, by how many are or will be free.
    pub by_free: Vec<BTreeSet<usize>>,
    /// Places where a device was ever shared in this cycle.
    pub sharing: BTreeSet<usize>,
    /// Thousandths of GPUs that are or will be free, parts of shared devices included.
    pub free_gpu: i64,
    log: Vec<(usize, TaskNow)>,
}

impl<'a> State<'a> {
    /// The counters of an input, and what its shared devices are called.
    pub(crate) fn of(index: &'a Index, input: &Input) -> (Self, Vec<Option<String>>) {
        let mut state = Self {
            index,
            tasks: vec![
                TaskNow {
                    state: TaskStatus::Failed,
                    at: None,
                    from: None,
                    charged: false,
                    was: TaskStatus::Failed
                };
                index.tasks.len()
            ],
            nodes: index.nodes.iter().map(|_| NodeFree::default()).collect(),
            places: vec![PlaceFree::default(); index.places.len()],
            shared: Vec::new(),
            lots: Vec::new(),
            sets: vec![SetNow::default(); index.sets.len()],
            allocated: vec![Amounts::default(); index.projects.len()],
            fixed: vec![Amounts::default(); index.projects.len()],
            by_free: Vec::new(),
            sharing: BTreeSet::new(),
            free_gpu: 0,
            log: Vec::new(),
        };
        state.fill_free();
        let mut labels = BTreeMap::new();
        for job in &index.jobs {
            for row in job.tasks.clone() {
                let task = &input.jobs[job.given].tasks[index.tasks[row].given];
                let at = task.placement.as_ref().and_then(|it| {
                    let node = index.node(input, &it.node)?;
                    let places = index.nodes[node].places.clone();
                    let place = (places.start + it.devices).min(places.end - 1);
                    let lot = state.known_lot(row, place, &it.shared, &mut labels);
                    Some(At { place, lot })
                });
                state.count(row, -1);
                state.tasks[row] = first(task.state, at);
                state.count(row, 1);
            }
        }
        let mut names = vec![None; state.shared.len()];
        for ((_, name), row) in labels {
            names[row] = Some(name);
        }
        (state, names)
    }

    fn fill_free(&mut self) {
        for (row, node) in self.index.nodes.iter().enumerate() {
            self.nodes[row].cpu.idle = node.cpu;
            self.nodes[row].memory.idle = node.memory;
            self.nodes[row].slots.idle = node.slots;
        }
        let most = self.index.places.iter().map(|place| place.count).max().unwrap_or(0);
        let buckets = usize::try_from(most).unwrap_or(0) + 1;
        self.by_free = vec![BTreeSet::new(); buckets];
        for (row, place) in self.index.places.iter().enumerate() {
            self.places[row].instances =
                place.instances.iter().map(|it| Free { idle: it.count, leaving: 0 }).collect();
            self.places[row].whole.idle = place.count;
            self.free_gpu += place.count * 1000;
            self.free_gpu += place.instances.iter().map(|it| it.count * it.charge).sum::<i64>();
            if place.count > 0 {
                let bucket = self.bucket(row);
                self.by_free[bucket].insert(row);
            }
        }
    }

    /// Returns the shared devices of a task, by their names on its node.
    fn known_lot(
        &mut self,
        task: usize,
        place: usize,
        names: &[String],
        labels: &mut BTreeMap<(usize, String), usize>,
    ) -> (usize, usize) {
        let ask = &self.index.asks[self.index.tasks[task].ask].request.gpu;
        if !matches!(ask, GpuAsk::Share { .. } | GpuAsk::Memory { .. }) {
            return (0, 0);
        }
        let unnamed = [String::new()];
        let names = if names.is_empty() { &unnamed[..] } else { names };
        let mut found = Vec::new();
        for name in names {
            let row = *labels.entry((place, name.clone())).or_insert_with(|| self.share(place));
            found.push(row);
        }
        found.sort_unstable();
        self.lot(&found)
    }

    /// Writes down a list of shared devices.
    pub(crate) fn lot(&mut self, shared: &[usize]) -> (usize, usize) {
        let start = self.lots.len();
        self.lots.extend_from_slice(shared);
        (start, self.lots.len())
    }

    /// A device of a place that nothing is on.
    pub(crate) fn unused_shared(&mut self, place: usize, but: &[usize]) -> usize {
        let unused = |row: &&usize| !self.shared[**row].live() && !but.contains(row);
        if let Some(&row) = self.places[place].shared.iter().find(unused) {
            return row;
        }
        self.share(place)
    }

    fn share(&mut self, place: usize) -> usize {
        self.shared.push(Shared { place, ..Shared::default() });
        let row = self.shared.len() - 1;
        self.places[place].shared.push(row);
        self.sharing.insert(place);
        row
    }

    /// Returns the point to which changes can be rolled back.
    pub(crate) fn mark(&self) -> usize {
        self.log.len()
    }

    /// Takes back what changed since the mark.
    pub(crate) fn undo(&mut self, mark: usize) {
        while self.log.len() > mark {
            let Some((task, old)) = self.log.pop() else { return };
            self.count(task, -1);
            self.tasks[task] = old;
            self.count(task, 1);
        }
    }

    /// The tasks that changed since the mark, each once, by row.
    pub(crate) fn changed(&self, mark: usize) -> Vec<usize> {
        let mut rows: Vec<usize> = self.log[mark..].iter().map(|&(task, _)| task).collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// Keeps the changes since the mark: tasks evicted in the trial leave.
    pub(crate) fn commit(&mut self, mark: usize) {
        for task in self.changed(mark) {
            if self.tasks[task].state == TaskStatus::Evicted {
                let now = TaskNow { state: TaskStatus::Releasing, ..self.tasks[task] };
                self.set(task, now);
            }
        }
        self.log.truncate(mark);
    }

    /// Changes what a task does.
    pub(crate) fn set(&mut self, task: usize, now: TaskNow) {
        self.log.push((task, self.tasks[task]));
        self.count(task, -1);
        self.tasks[task] = now;
        self.count(task, 1);
    }

    /// Ends a task in a trial. One that was only promised a place loses the promise.
    pub(crate) fn evict(&mut self, task: usize) {
        let old = self.tasks[task];
        let now = match (old.state, old.from) {
            (TaskStatus::Pipelined, Some(_)) => {
                TaskNow { state: TaskStatus::Releasing, at: None, charged: false, ..old }
            }
            (TaskStatus::Pipelined, None) => {
                TaskNow { state: TaskStatus::Pending, at: None, charged: false, ..old }
            }
            _ => TaskNow {
                state: TaskStatus::Evicted,
                at: None,
                from: old.at,
                charged: false,
                was: old.state,
            },
        };
        self.set(task, now);
    }

    /// Places a task, at once or after the tasks there have left. A task that was evicted in a
    /// trial and returns to its place counts as never evicted.
    pub(crate) fn put(&mut self, task: usize, at: At, later: bool) {
        let old = self.tasks[task];
        let back =
            old.state == TaskStatus::Evicted && old.from.is_some_and(|from| self.same(from, at));
        let now = if back {
            TaskNow { state: old.was, at: old.from, from: None, charged: true, was: old.was }
        } else if later {
            TaskNow { state: TaskStatus::Pipelined, at: Some(at), charged: true, ..old }
        } else {
            TaskNow { state: TaskStatus::Bound, at: Some(at), charged: true, ..old }
        };
        self.set(task, now);
    }

    fn same(&self, a: At, b: At) -> bool {
        a.place == b.place && self.lots[a.lot.0..a.lot.1] == self.lots[b.lot.0..b.lot.1]
    }

    /// The request of a task.
    pub(crate) fn gpu_ask(&self, task: usize) -> &'a GpuAsk {
        let index = self.index;
        &index.asks[index.tasks[task].ask].request.gpu
    }

    /// What a task is charged as it is.
    pub(crate) fn charge(&self, task: usize) -> Amounts {
        let now = self.tasks[task];
        match now.at.or(now.from) {
            Some(at) => self.index.charge_at(task, at.place),
            None => self.index.asks[self.index.tasks[task].ask].charge,
        }
    }

    fn count(&mut self, task: usize, sign: i64) {
        let index = self.index;
        let now = self.tasks[task];
        let row = &index.tasks[task];
        if let Some(counter) = self.sets[row.set].counter(now.state) {
            *counter += sign;
        }
        if let Some(from) = now.from {
            self.hold(task, from, Hold::Leave, sign);
        }
        if let Some(at) = now.at {
            match now.state {
                TaskStatus::Bound | TaskStatus::Running => self.hold(task, at, Hold::Stay, sign),
                TaskStatus::Pipelined => self.hold(task, at, Hold::Claim, sign),
                _ => {}
            }
        }
        let job = &index.jobs[row.job];
        if now.charged
            && let Some(project) = job.project
        {
            let charge = self.charge(task);
            let add = |into: &mut Amounts| {
                if sign > 0 { *into += charge } else { *into -= charge }
            };
            for row in index.upward(project) {
                add(&mut self.allocated[row]);
                if !job.preemptible {
                    add(&mut self.fixed[row]);
                }
            }
        }
    }

    fn hold(&mut self, task: usize, at: At, how: Hold, sign: i64) {
        let index = self.index;
        let request = &index.asks[index.tasks[task].ask].request;
        let node = &mut self.nodes[index.places[at.place].node];
        node.cpu.count(how, sign * request.cpu);
        node.memory.count(how, sign * request.memory);
        node.slots.count(how, sign);
        match &request.gpu {
            GpuAsk::None => {}
            GpuAsk::Whole(count) => self.count_whole(at.place, |it| it.count(how, sign * count)),
            GpuAsk::Unbooked => {
                if how != Hold::Claim {
                    self.places[at.place].unbooked += sign;
                }
            }
            GpuAsk::Share { .. } | GpuAsk::Memory { .. } => {
                let need = self.need(&request.gpu, at.place);
                for index in at.lot.0..at.lot.1 {
                    self.count_shared(self.lots[index], how, sign * need);
                }
            }
            GpuAsk::Mig(asked) => {
                for it in asked {
                    let place = &index.places[at.place];
                    let known = place.instances.iter().position(|one| one.profile == it.profile);
                    if let Some(known) = known {
                        let free = &mut self.places[at.place].instances[known];
                        let before = free.later();
                        free.count(how, sign * it.count);
                        let more = free.later() - before;
                        self.free_gpu += more * place.instances[known].charge;
                    }
                }
            }
        }
    }

    /// What a share takes of a device, also where none would be given now.
    fn need(&self, ask: &GpuAsk, place: usize) -> i64 {
        let room = self.index.places[place].room;
        self.index.share_of(ask, place).map_or(room, |(need, _)| need.min(room))
    }

    fn count_shared(&mut self, row: usize, how: Hold, amount: i64) {
        let old = self.shared[row];
        let shared = &mut self.shared[row];
        match how {
            Hold::Stay => shared.used += amount,
            Hold::Leave => {
                shared.used += amount;
                shared.leaving += amount;
            }
            Hold::Claim => shared.claimed += amount,
        }
        let new = *shared;
        let (before, after) = (old.whole(), new.whole());
        self.count_whole(old.place, |it| {
            it.idle += after.idle - before.idle;
            it.leaving += after.leaving - before.leaving;
        });
        self.free_gpu += self.part_free(new) - self.part_free(old);
    }

    /// Thousandths of a shared device that are or will be free.
    fn part_free(&self, shared: Shared) -> i64 {
        if !shared.live() || shared.all_leave() {
            return 0;
        }
        let room = i128::from(self.index.places[shared.place].room);
        let free = room - i128::from(shared.used - shared.leaving + shared.claimed);
        i64::try_from(free.max(0) * 1000 / room).unwrap_or(0)
    }

    fn count_whole(&mut self, place: usize, change: impl FnOnce(&mut Free)) {
        let listed = self.index.places[place].count > 0;
        let before = self.bucket(place);
        let later = self.places[place].whole.later();
        change(&mut self.places[place].whole);
        self.free_gpu += (self.places[place].whole.later() - later) * 1000;
        let after = self.bucket(place);
        if listed && before != after {
            self.by_free[before].remove(&place);
            self.by_free[after].insert(place);
        }
    }

    fn bucket(&self, place: usize) -> usize {
        let free = usize::try_from(self.places[place].whole.later()).unwrap_or(0);
        free.min(self.by_free.len().saturating_sub(1))
    }

    /// Whether a shared device has room for a share; `later` counts leaving tasks as gone.
    pub(crate) fn shared_fits(&self, row: usize, need: i64, later: bool) -> bool {
        let it = self.shared[row];
        let room = self.index.places[it.place].room;
        if later {
            it.live() && !it.all_leave() && room - it.used + it.leaving - it.claimed >= need
        } else {
            it.used > 0 && room - it.used >= need
        }
    }

    /// Whether a job that runs is promised more.
    pub(crate) fn promised_more(&self, job: usize) -> bool {
        let sets = || self.index.jobs[job].sets.clone().map(|set| self.sets[set]);
        sets().any(|set| set.claiming > 0) && sets().any(|set| set.holding > 0)
    }

    /// Whether any GPU, instance or part of a shared device of a place is or will be free.
    pub(crate) fn any_free(&self, place: usize) -> bool {
        let free = &self.places[place];
        let mixed = self.index.places[place].mode == Mode::Mixed;
        (!mixed && (free.whole.idle > 0 || free.whole.later() > 0))
            || free.instances.iter().any(|it| it.idle > 0 || it.later() > 0)
            || free.shared.iter().any(|&row| self.part_free(self.shared[row]) > 0)
    }
}

/// What a task counts at the start of a cycle.
fn first(state: TaskState, at: Option<At>) -> TaskNow {
    let now = |state, at, from, charged| TaskNow { state, at, from, charged, was: state };
    match state {
        TaskState::Pending => now(TaskStatus::Pending, None, None, false),
        TaskState::Gated => now(TaskStatus::Gated, None, None, false),
        TaskState::Bound => now(TaskStatus::Bound, at, None, true),
        TaskState::Running => now(TaskStatus::Running, at, None, true),
        TaskState::Pipelined => now(TaskStatus::Pipelined, at, None, false),
        TaskState::Releasing => now(TaskStatus::Releasing, None, at, false),
        TaskState::Succeeded => now(TaskStatus::Succeeded, None, None, false),
        TaskState::Failed => now(TaskStatus::Failed, None, None, false),
    }
}
