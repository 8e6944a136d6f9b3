//! Taking back what is on loan, for work that its project is entitled to (SCHEDULING A10 as A′ 2
//! has it): of everything that may go, the least that makes room on one node after the other, as
//! many as the work needs, from who is furthest over its share. What is freed is claimed at once by
//! whom it is freed for.

pub(crate) mod at_limit;
mod backoff;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use gpool_model::{
    AllocationState, Bytes, Exit, JobId, Millis, Phase, Project, ProjectName, ResourceKind,
    Resources,
};
use gpool_world::{JobRow, ProjectIx, Snapshot, World};

use crate::capacity::{Capacity, Demand, Departure, Holds, HostResources, Placed};
use crate::dominant_share::DominantShare;
use crate::fairshare::{Denied, Multiplier, Reclaim, Reclaimer, Row, Victim, mark_loans};
use crate::pipeline::consolidate::Movables;
use crate::pipeline::preempt::{Lasts, Own};
use crate::quota_state::{Amounts, Projects};
use crate::victims::node::leaving;
use crate::victims::order::GoesFirst;

/// A job on loan, which may go.
#[derive(Debug, Clone)]
pub(crate) struct Lent {
    pub job: JobId,
    /// Who is charged for it.
    pub leaf: Row,
    /// His project.
    project: Row,
    /// What it counts for.
    pub amounts: Amounts,
    /// Its allocation on each node, by position in the capacity.
    pub held: BTreeMap<usize, HeldOn>,
    /// How it goes.
    pub exit: Exit,
    /// Whether it finds room elsewhere at once.
    pub moves: bool,
    pub order: GoesFirst,
}

/// What a job holds on one node.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeldOn {
    /// Parts of devices, by position, with how much of their memory.
    pub devices: Vec<(usize, Bytes)>,
    pub room: HostResources,
}

/// What may be taken back in a cycle, worked out when it is first asked for.
pub(crate) struct Evictions {
    /// With pauses, and without.
    lent: BTreeMap<bool, BTreeMap<usize, Vec<Lent>>>,
    /// Of each project, what may go for others of it that have a higher priority; the same.
    pub(crate) own: BTreeMap<(Option<Row>, bool), Own>,
    pub(crate) lasts: Lasts,
    pub(crate) gone: BTreeSet<JobId>,
    /// Devices that are claimed already: node and position.
    pub(crate) claimed: BTreeSet<(usize, usize)>,
    /// By position of the node in the capacity, what those hold there that go already.
    pub(crate) freed: BTreeMap<usize, Vec<HeldOn>>,
    /// Of whom one waits for what comes by itself, and the shortest time for which one asks it.
    patient: BTreeMap<backoff::Alike, u64>,
    /// Whether the turn of the job that was looked at last has not come yet.
    pub(crate) waits_its_turn: bool,
    /// Nodes that a job left before this cycle, by position in the capacity.
    pub(crate) left: Option<BTreeSet<usize>>,
    pub(crate) movables: Movables,
    rules: Reclaim,
}

/// What a search looks at.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a, 'b> {
    pub snapshot: &'b Snapshot<'a>,
    pub capacity: &'b Capacity<'a>,
    pub holds: &'b Holds<'a>,
    pub projects: &'b Projects,
    /// Expected departures from a node, the earliest first.
    pub departures: &'b dyn Fn(usize) -> Vec<Departure>,
}

impl Default for Evictions {
    fn default() -> Self {
        Self {
            lent: BTreeMap::new(),
            own: BTreeMap::new(),
            lasts: Lasts::default(),
            gone: BTreeSet::new(),
            claimed: BTreeSet::new(),
            freed: BTreeMap::new(),
            patient: BTreeMap::new(),
            waits_its_turn: false,
            left: None,
            movables: Movables::default(),
            rules: Reclaim::new(Multiplier::ONE),
        }
    }
}

impl Evictions {
    /// Others ask now, by another policy: for whom somebody of the same project goes is another
    /// question then.
    pub fn ask_by(&mut self, lasts: Lasts) {
        self.lasts = lasts;
        self.own.clear();
    }
}

/// Whether so many may go together; of those that may not one is named, if it may help to leave it
/// out.
pub(crate) type Judge<'j> = dyn FnMut(&[&Lent]) -> Result<(), Option<JobId>> + 'j;

/// What is looked for, and among whom.
#[derive(Clone, Copy)]
pub(crate) struct Search<'s, 'a, 'b> {
    pub ground: Ground<'a, 'b>,
    pub demand: &'b Demand<'b>,
    /// What it would be charged, by kind.
    pub unit: &'s [u64],
    /// Indexed by the node's position in the capacity; the first victim is first.
    pub all: &'s BTreeMap<usize, Vec<Lent>>,
    pub may_go: &'s dyn Fn(&Lent) -> bool,
}

impl Evictions {
    /// Whose work goes so that a job of that leaf can start, and where that is then; `None` if
    /// nothing may be taken back that would help. Who is paused keeps its host memory: where that
    /// is what is needed, nobody is.
    pub fn reclaim(
        &mut self,
        ground: Ground<'_, '_>,
        demand: &Demand<'_>,
        unit: (Row, &[u64]),
    ) -> Option<(Vec<Placed>, Vec<Lent>)> {
        // What users of one project have is theirs; projects take back.
        let (leaf, amounts) = unit;
        let project = ground.projects.project(leaf);
        let preemptible = demand.shape.preemptible;
        let reclaimer = Reclaimer { project, unit: amounts, preemptible };
        self.rules.gate(&ground.projects.ledger, &reclaimer).ok()?;
        if self.is_patient(demand) {
            return None;
        }
        if let Some(found) = self.leaves_room(ground, demand) {
            if self.is_taken_back(ground, &found) {
                return Some(self.go((vec![found], Vec::new())));
            }
            self.wait_for(demand, &found);
            return None;
        }
        let found = self.reclaim_with(ground, demand, reclaimer, true);
        if found.is_some() || !self.lent.get(&true).is_some_and(pauses_any) {
            return found;
        }
        self.reclaim_with(ground, demand, reclaimer, false)
    }

    fn reclaim_with(
        &mut self,
        ground: Ground<'_, '_>,
        demand: &Demand<'_>,
        reclaimer: Reclaimer<'_>,
        may_pause: bool,
    ) -> Option<(Vec<Placed>, Vec<Lent>)> {
        let Projects { tree, ledger, .. } = ground.projects;
        let lent = self.lent.remove(&may_pause).unwrap_or_else(|| lent(&ground, may_pause));
        let unused = Reclaim::new(Multiplier::ONE);
        let mut rules = std::mem::replace(&mut self.rules, unused);
        let mut judge = |given: &[&Lent]| {
            let pieces = given.iter();
            let victims: Vec<Victim<'_>> =
                pieces.map(|it| Victim { project: it.project, piece: &it.amounts }).collect();
            rules.check(tree, ledger, &reclaimer, &victims).map_err(|denied| match denied {
                Denied::Own { victim } | Denied::TakenBack { victim } => Some(given[victim].job),
                _ => None,
            })
        };
        let Reclaimer { project, unit, .. } = reclaimer;
        let may_go = |it: &Lent| it.project != project && !stays_in_the_way(ground, it);
        let search = Search { ground, demand, unit, all: &lent, may_go: &may_go };
        let found = self.nodes(search, &[], &mut judge);
        self.lent.insert(may_pause, lent);
        self.rules = rules;
        found.map(|found| self.go(found))
    }

    /// Whether those who leave the devices of a place go by this plan, all of them.
    fn is_taken_back(&self, ground: Ground<'_, '_>, found: &Placed) -> bool {
        let leaving = leaving(ground.snapshot, &ground.capacity.nodes[found.node_pos]);
        !found.devices.is_empty() && found.devices.iter().all(|ix| !leaving.has_device(*ix))
    }

    /// Nobody after it may have these devices.
    pub(crate) fn claim(&mut self, found: &Placed) {
        self.claimed.extend(found.devices.iter().map(|ix| (found.node_pos, *ix)));
    }

    /// Those go, and their devices are claimed.
    pub(crate) fn go(
        &mut self,
        (found, victims): (Vec<Placed>, Vec<Lent>),
    ) -> (Vec<Placed>, Vec<Lent>) {
        self.gone.extend(victims.iter().map(|it| it.job));
        for (node_pos, held) in victims.iter().flat_map(|it| &it.held) {
            self.freed.entry(*node_pos).or_default().push(held.clone());
        }
        found.iter().for_each(|found| self.claim(found));
        (found, victims)
    }
}

/// Whether one would still hold something where a start is planned when that comes, who had been
/// expected to leave before.
pub(crate) fn stays_in_the_way(ground: Ground<'_, '_>, it: &Lent) -> bool {
    let Snapshot { world, now } = *ground.snapshot;
    let starts = it.held.keys().flat_map(|node_pos| ground.holds.starts(*node_pos));
    let Some(first) = starts.min() else { return false };
    match it.exit {
        // His memory is still his.
        Exit::Pause => true,
        exit => world
            .job(it.job)
            .is_none_or(|row| world.expected_end_if_taken_back(row, exit, now).at > first),
    }
}

/// All borrowing jobs that may end, by position of their node; the first victim is first.
fn lent(ground: &Ground<'_, '_>, may_pause: bool) -> BTreeMap<usize, Vec<Lent>> {
    let Snapshot { world, now } = *ground.snapshot;
    let projects = ground.projects;
    let mut lent = BTreeMap::<usize, Vec<Lent>>::new();
    let mut marks = Vec::new();
    for (ix, (project, of)) in world.project_rows().iter().zip(projects.rows()).enumerate() {
        let over = projects.over_own(*of);
        let (Some(saturation), false) = (over, project.evictable.is_empty()) else { continue };
        let mut rows: Vec<&JobRow> =
            project.evictable.iter().filter_map(|id| world.job(*id)).collect();
        // In the order in which they are kept: what can't go, then higher priorities, then age.
        rows.sort_by_key(|row| (Reverse(row.job.priority), row.spec.submitted_at, row.job.id));
        let pieces: Vec<Amounts> =
            rows.iter().map(|row| amounts_of(world, projects, row)).collect();
        let guaranteed: Vec<_> = projects.guaranteed(*of);
        let mut kept = projects.amounts(&project.sum.for_good);
        mark_loans(&guaranteed, pieces.iter().map(|it| &it[..]), &mut kept, &mut marks);
        let safe_for = min_runtime(ground, &project.name);
        let on_loan = rows.into_iter().zip(pieces).zip(&marks).filter(|(_, lent)| **lent);
        for ((row, amounts), _) in on_loan {
            let leaf = projects.leaf_of(ProjectIx(ix), row.spec.owner.uid);
            let who = (row, may_pause);
            let Some(piece) = piece(ground, who, leaf, &amounts, saturation) else { continue };
            let Reverse(started_at) = piece.order.started_at;
            if started_at.after(safe_for) <= now {
                put(&mut lent, piece);
            }
        }
    }
    lent.values_mut().for_each(|all| all.sort_unstable_by_key(|it| it.order));
    lent
}

/// Notes it on each of its nodes; mostly there is one, and nothing is copied.
pub(crate) fn put(by_node: &mut BTreeMap<usize, Vec<Lent>>, lent: Lent) {
    let mut nodes = lent.held.keys();
    let Some(first) = nodes.next().copied() else { return };
    for node_pos in nodes {
        by_node.entry(*node_pos).or_default().push(lent.clone());
    }
    by_node.entry(first).or_default().push(lent);
}

pub(crate) fn amounts_of(world: &World, projects: &Projects, row: &JobRow) -> Amounts {
    let allocations = row.job.phase.allocations().iter();
    let mut sum = vec![0; projects.n_kinds()];
    for allocation in allocations {
        for (sum, amount) in sum.iter_mut().zip(projects.amounts_held(world, allocation)) {
            *sum += amount;
        }
    }
    sum
}

/// A job as what may go: all of it, wherever its tasks are.
pub(crate) fn piece(
    ground: &Ground<'_, '_>,
    (row, may_pause): (&JobRow, bool),
    leaf: Row,
    amounts: &[u64],
    saturation: DominantShare,
) -> Option<Lent> {
    let Snapshot { world, now } = *ground.snapshot;
    let started_at = match &row.job.phase {
        Phase::Starting { since, .. } => *since,
        Phase::Running { started_at, .. } => started_at.after(row.job.course.paused),
        _ => return None,
    };
    let exit = best_exit(world, row, may_pause)?;
    let (kept, kept_room) = match exit {
        Exit::Pause => (row.spec.resources_paused(), HostResources::booked_paused(&row.spec)),
        Exit::Checkpoint | Exit::Requeue | Exit::Kill => {
            (Resources::none(), HostResources::default())
        }
    };
    let kept_of = ground.projects.amounts(&kept);
    let n_tasks = row.job.phase.allocations().len() as u64;
    let less = |(amount, kept): (&u64, &u64)| amount.saturating_sub(kept.saturating_mul(n_tasks));
    let amounts = amounts.iter().zip(&kept_of).map(less).collect();
    let mut held = BTreeMap::<usize, HeldOn>::new();
    let mut gpus = 0;
    for allocation in row.job.phase.allocations() {
        if matches!(allocation.state, AllocationState::Claimed { .. }) {
            return None;
        }
        let node_pos = ground.capacity.position(world, &allocation.node)?;
        let all = &ground.capacity.nodes[node_pos].row.node.devices;
        let devices = allocation.slots.iter().filter_map(|slot| {
            let ix = all.iter().position(|device| device.uuid == slot.device)?;
            Some((ix, slot.part.memory_of(all[ix].memory)))
        });
        let here = held.entry(node_pos).or_default();
        here.devices.extend(devices);
        here.room = here.room.more(HostResources::booked(allocation)).less(kept_room);
        gpus += allocation.resources.get(&ResourceKind::Gpu);
    }
    let order = GoesFirst {
        saturation: Reverse(saturation),
        priority: row.job.priority,
        stays: row.spec.joins.is_none(),
        level: Reverse(0),
        came_at: None,
        lost: lost(row, exit, now.since(started_at)).get().saturating_mul(gpus.max(1)),
        started_at: Reverse(started_at),
        job: Reverse(row.job.id),
    };
    let project = ground.projects.project(leaf);
    Some(Lent { job: row.job.id, leaf, project, amounts, held, exit, moves: false, order })
}

/// The best way to take a job back; `None` if there is none. All of its tasks go in that way, so
/// all of its nodes must be able to.
pub(crate) fn best_exit(world: &World, row: &JobRow, may_pause: bool) -> Option<Exit> {
    let can_pause = || {
        let nodes = row.job.phase.allocations().iter().map(|it| world.node(&it.node));
        matches!(row.job.phase, Phase::Running { .. })
            && row.spec.is_of_one_size()
            && nodes.into_iter().all(|it| it.is_some_and(|it| it.node.can_pause()))
    };
    let allowed = row.spec.life.allowed_exits();
    allowed.into_iter().find(|exit| *exit != Exit::Pause || (may_pause && can_pause()))
}

/// Whether anybody would be paused.
pub(crate) fn pauses_any(lent: &BTreeMap<usize, Vec<Lent>>) -> bool {
    lent.values().flatten().any(|it| it.exit == Exit::Pause)
}

/// How much of what a job has done since its start is lost with that exit: all of it, unless it
/// saves it; then at most the time that it has for that.
fn lost(row: &JobRow, exit: Exit, ran: Millis) -> Millis {
    match exit {
        Exit::Pause => Millis::ZERO,
        Exit::Checkpoint => {
            let grace = row.spec.life.checkpoint.and_then(|checkpoint| checkpoint.grace);
            ran.min(grace.unwrap_or(row.spec.grace))
        }
        Exit::Requeue | Exit::Kill => ran,
    }
}

/// For how long what a project started is safe from others: as it or the first above it says.
fn min_runtime(ground: &Ground<'_, '_>, name: &ProjectName) -> Millis {
    let projects = ground.snapshot.world.projects();
    let above = |it: &&Project| projects.get(it.parent.as_ref()?);
    let mut upwards = std::iter::successors(projects.get(name), above).take(projects.len());
    upwards.find_map(|it| it.min_runtime.reclaim).unwrap_or(Millis::ZERO)
}
