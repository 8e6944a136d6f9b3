//! Arrays, from their records alone: each element is in exactly one place, and a plan starts no
//! more elements than exist or than may run at once.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::{
    ArrayState, Attempt, DependencyKind, JobId, JobNumber, JobSpec, Phase, Plan, Positions, Reason,
    Wait,
};
use gpool_world::{JobRow, Snapshot, World};

use crate::job::{is_parked, pending, started};
use crate::violation::Violation;

/// Returns the row that describes a job: for an element that the array may start, the array's.
pub(crate) fn row_of(world: &World, id: JobId) -> Option<&JobRow> {
    let own = world.job(id);
    own.or_else(|| {
        let row = world.job(JobId { element: None, ..id })?;
        let position = row.spec.array.as_ref()?.indexes.position(id.element?)?;
        row.job.array.as_ref()?.unstarted.contains(position).then_some(row)
    })
}

/// The rows with jobs that a plan leaves waiting, each with their number.
pub(crate) fn waiting_rows<'a>(
    snapshot: &Snapshot<'a>,
    started: &BTreeSet<JobId>,
) -> Vec<(&'a JobRow, u64)> {
    let n_left = |row: &JobRow| match &row.job.array {
        None => u64::from(!started.contains(&row.job.id)),
        Some(array) => {
            let of = |element| JobId { element, ..row.job.id };
            let taken = started.range(of(Some(0))..=of(Some(u32::MAX)));
            let n_taken = taken.filter(|id| snapshot.world.job(**id).is_none()).count() as u64;
            u64::from(array.unstarted.len()).saturating_sub(n_taken)
        }
    };
    pending(snapshot).map(|row| (row, n_left(row))).filter(|(_, n)| *n > 0).collect()
}

/// How many elements of each array run before a plan, and after it.
pub(crate) struct Running {
    before: BTreeMap<JobNumber, u32>,
    after: BTreeMap<JobNumber, u32>,
    /// Elements with a planned start: no others may take their places.
    planned: BTreeMap<JobNumber, u32>,
}

impl Running {
    /// Counts only arrays with elements that a plan starts.
    pub fn started(world: &World, plan: &Plan) -> Self {
        let mut after = BTreeMap::<JobNumber, u32>::new();
        for id in started(plan).iter().filter(|id| id.element.is_some()) {
            *after.entry(id.number).or_default() += 1;
        }
        let mut before = BTreeMap::new();
        for (number, n_started) in &mut after {
            let held = world.elements_holding(*number).filter(|row| !is_parked(row));
            let n_running = u32::try_from(held.count()).unwrap_or(u32::MAX);
            before.insert(*number, n_running);
            *n_started = n_started.saturating_add(n_running);
        }
        Self { before, after, planned: BTreeMap::new() }
    }

    pub fn of(world: &World, plan: &Plan) -> Self {
        let mut before = BTreeMap::new();
        let runs = |row: &&JobRow| row.job.id.element.is_some() && !is_parked(row);
        for row in world.holding().filter(runs) {
            *before.entry(row.job.id.number).or_default() += 1;
        }
        let mut after = before.clone();
        for id in started(plan).iter().filter(|id| id.element.is_some()) {
            *after.entry(id.number).or_default() += 1;
        }
        let mut planned = BTreeMap::new();
        for it in plan.planned.iter().filter(|it| it.job.element.is_some()) {
            *planned.entry(it.job.number).or_default() += 1;
        }
        Self { before, after, planned }
    }

    /// Whether an array may start no more elements after the plan.
    pub fn is_full(&self, world: &World, number: JobNumber) -> bool {
        let n_planned = self.planned.get(&number).copied().unwrap_or(0);
        self.is_full_beside(world, number, n_planned)
    }

    /// The same if `n_planned` elements have a planned start.
    pub fn is_full_beside(&self, world: &World, number: JobNumber, n_planned: u32) -> bool {
        let running = self.n_after(number).saturating_add(n_planned);
        most_of(world, number).is_some_and(|most| running >= most)
    }

    fn n_after(&self, number: JobNumber) -> u32 {
        self.after.get(&number).copied().unwrap_or(0)
    }

    /// No array runs more elements than it may.
    pub fn check(&self, world: &World, found: &mut Vec<Violation>) {
        for (number, running) in &self.after {
            let before = self.before.get(number).copied().unwrap_or(0);
            // A lower limit ends no elements that already run.
            if let Some(most) = most_of(world, *number)
                && *running > most
                && *running > before
            {
                let job = JobId { number: *number, element: None };
                found.push(Violation::TooManyAtOnce { job, running: *running, most });
            }
        }
    }

    /// Whether a plan is right that an array has reached its own limit.
    pub fn is_true(&self, world: &World, wait: &Wait) -> bool {
        let (Some(number), Reason::GroupParallelLimit { running, most }) =
            (wait.array, &wait.reason)
        else {
            return false;
        };
        let of = |counts: &BTreeMap<JobNumber, u32>| counts.get(&number).copied().unwrap_or(0);
        let last = self.n_after(number).saturating_add(of(&self.planned));
        most_of(world, number) == Some(*most)
            && running >= most
            && (of(&self.before)..=last).contains(running)
    }
}

fn most_of(world: &World, number: JobNumber) -> Option<u32> {
    world.job(JobId { number, element: None })?.job.array.as_ref()?.max_parallel
}

/// An array and its elements contradict neither each other nor themselves.
pub(crate) fn check_row(world: &World, row: &JobRow, found: &mut Vec<Violation>) {
    let id = row.job.id;
    let mut wrong = |what: &'static str| found.push(Violation::WrongArray { job: id, what });
    if let Some(element) = id.element {
        let array = world.job(JobId { element: None, ..id }).filter(|row| row.job.array.is_some());
        let position = array.and_then(|row| row.spec.array.as_ref()?.indexes.position(element));
        if position.is_none() {
            wrong("an element has no array");
        }
        if row.job.array.is_some() || matches!(row.job.phase, Phase::Underway { .. }) {
            wrong("an element is an array");
        }
        return;
    }
    if has_counterpart(world, row) {
        wrong("an element may start before its counterpart in another array has ended");
    }
    match (&row.spec.array, &row.job.array) {
        (None, None) => {
            if matches!(row.job.phase, Phase::Underway { .. }) {
                wrong("a job without elements is started");
            }
        }
        (Some(_), Some(array)) => check_array(world, row, array, &mut wrong),
        _ => wrong("only one of its two records is that of an array"),
    }
}

/// Whether an element may start although its counterpart in another array has not ended.
fn has_counterpart(world: &World, row: &JobRow) -> bool {
    let mut each = row.spec.after.iter().filter(|it| it.kind == DependencyKind::Each).peekable();
    let (Some(_), Some(spec), Some(array)) = (each.peek(), &row.spec.array, &row.job.array) else {
        return false;
    };
    let lives = |job: JobId| {
        let mut elements = array.unstarted.iter().map(|position| spec.indexes.at(position));
        elements.any(|element| world.is_live(JobId { element, ..job }))
    };
    each.any(|it| lives(it.job))
}

fn check_array(
    world: &World,
    row: &JobRow,
    array: &ArrayState,
    wrong: &mut impl FnMut(&'static str),
) {
    let mut places: Vec<&Positions> = vec![&array.unstarted, &array.waiting];
    places.extend(array.ended.values());
    let rows = rows_of(world, &row.spec, row.job.id);
    places.push(&rows);
    let n: u64 = places.iter().map(|place| u64::from(place.len())).sum();
    let mut all = Positions::default();
    for place in places {
        all.extend(place);
    }
    let n_elements = row.spec.array.as_ref().map_or(0, |spec| spec.indexes.len());
    if n != u64::from(n_elements) || all != Positions::first_n(n_elements) {
        wrong("an element is in no set or in two sets");
    }
    let (can_start, waits) = (!array.unstarted.is_empty(), !array.waiting.is_empty());
    let fits = match &row.job.phase {
        Phase::Pending { .. } => can_start,
        Phase::Held { .. } | Phase::Waiting { .. } => can_start || waits,
        Phase::Underway { .. } => !can_start && !waits && !rows.is_empty(),
        Phase::Starting { .. }
        | Phase::Running { .. }
        | Phase::Paused { .. }
        | Phase::Stopping { .. }
        | Phase::Ended(_) => false,
    };
    if !fits {
        wrong("its state does not match its elements");
    }
}

fn rows_of(world: &World, spec: &JobSpec, id: JobId) -> Positions {
    let of = |element| JobId { element, ..id };
    let rows = world.jobs().range(of(Some(0))..=of(Some(u32::MAX)));
    let indexes = spec.array.as_ref().map(|spec| &spec.indexes);
    rows.filter_map(|(id, _)| indexes?.position(id.element?)).collect()
}

/// Returns the attempt that an element without a row would start as.
pub(crate) fn attempt_of(row: &JobRow, array: &ArrayState, id: JobId) -> Attempt {
    let indexes = row.spec.array.as_ref().map(|spec| &spec.indexes);
    let position = indexes.zip(id.element).and_then(|(indexes, index)| indexes.position(index));
    let mut later = array.attempts.iter();
    let found = later.find(|(_, these)| position.is_some_and(|it| these.contains(it)));
    found.map_or(Attempt::FIRST, |(attempt, _)| *attempt)
}

/// How many pending jobs a row counts for.
pub(crate) fn weight(row: &JobRow) -> u64 {
    row.job.array.as_ref().map_or(1, |array| u64::from(array.unstarted.len()))
}
