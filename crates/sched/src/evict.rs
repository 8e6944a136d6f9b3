//! Taking back what is on loan, for work that its project is entitled to (SCHEDULING A10 as A′ 2
//! has it): of everything that may go, the least that makes room on one node, from who is furthest
//! over its share. What is freed is claimed at once by whom it is freed for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use gpool_model::{
    AllocationState, Bytes, JobId, Millis, Phase, Project, ProjectName, ResourceKind, Timestamp,
};
use gpool_node::seating::{Seat, seat};
use gpool_world::{JobRow, ProjectIx, Snapshot};

use crate::board::{Board, NodeBoard};
use crate::keep::{Ending, Keeps, Span, length};
use crate::place::{Found, Seeker};
use crate::projects::{Amounts, Projects, Saturation};
use crate::room::Room;
use crate::shares::{Denied, Multiplier, Reclaim, Reclaimer, Row, Rules, Victim, mark_loans};
use crate::usable::unusable;

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
    /// Parts of devices of its node, by position, with how much of their memory.
    devices: Vec<(usize, Bytes)>,
    room: Room,
    pub order: GoesFirst,
}

/// Who goes first: whose project is furthest over its share, then the lower priority, then what
/// loses least work, then the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GoesFirst {
    saturation: Reverse<Saturation>,
    pub priority: i32,
    /// Thousandths of a device times milliseconds since it was started.
    lost: u64,
    pub started_at: Reverse<Timestamp>,
    job: Reverse<JobId>,
}

/// What making room on a node would cost; the least is chosen.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cost {
    /// More than twice of what is asked for would go.
    is_wasteful: bool,
    /// Of who is furthest from being over its share.
    saturation: Reverse<Saturation>,
    gpus: u64,
    priority: i32,
    lost: u64,
    n_jobs: usize,
    board_ix: usize,
}

/// What may be taken back in a cycle, worked out when it is first asked for.
pub(crate) struct Evictions {
    lent: Option<BTreeMap<usize, Vec<Lent>>>,
    /// Of each project, what may go for others of it that have a higher priority.
    pub(crate) own: BTreeMap<Option<Row>, BTreeMap<usize, Vec<Lent>>>,
    pub(crate) gone: BTreeSet<JobId>,
    /// Devices that are claimed already: node and position.
    pub(crate) claimed: BTreeSet<(usize, usize)>,
    rules: Reclaim,
}

/// What a search looks at.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a, 'b> {
    pub snapshot: &'b Snapshot<'a>,
    pub board: &'b Board<'a>,
    pub keeps: &'b Keeps<'a>,
    pub projects: &'b Projects,
    pub endings: &'b dyn Fn(usize) -> Vec<Ending>,
}

impl Default for Evictions {
    fn default() -> Self {
        Self {
            lent: None,
            own: BTreeMap::new(),
            gone: BTreeSet::new(),
            claimed: BTreeSet::new(),
            rules: Reclaim::new(Rules::Fair, Multiplier::ONE),
        }
    }
}

impl Evictions {
    /// Whose work goes so that a job of that leaf can start, and where that is then; `None` if
    /// nothing may be taken back that would help.
    pub fn search(
        &mut self,
        ground: Ground<'_, '_>,
        seeker: &Seeker<'_>,
        (leaf, unit): (Row, &[u64]),
    ) -> Option<(Found, Vec<Lent>)> {
        let Projects { tree, ledger, .. } = ground.projects;
        let preemptible = seeker.shape.preemptible;
        // What users of one project have is theirs; projects take back.
        let project = ground.projects.project(leaf);
        let reclaimer = Reclaimer { project, unit, preemptible };
        self.rules.gate(ledger, &reclaimer).ok()?;
        let lent = self.lent.get_or_insert_with(|| lent(&ground));
        if lent.is_empty() {
            return None;
        }
        let mut options: Vec<(Cost, Found, Vec<Lent>)> = Vec::new();
        for (board_ix, all) in lent {
            let may_go = |it: &&Lent| it.project != project && !self.gone.contains(&it.job);
            let mut all: Vec<&Lent> = all.iter().filter(may_go).collect();
            let node = &ground.board.nodes[*board_ix];
            if !node.row.node.takes_work() || !seeker.shape.fit.may_be_on(&node.row.node) {
                continue;
            }
            let site = Site::new(ground, *board_ix, seeker, &self.claimed);
            let Some(site) = site else { continue };
            // What may not go after all is left out, and the rest tried again.
            while let Some(victims) = site.least(&all) {
                let given = victims.iter();
                let given = given.map(|it| Victim { project: it.project, piece: &it.amounts });
                let given: Vec<Victim<'_>> = given.collect();
                match self.rules.check(tree, ledger, &reclaimer, &given) {
                    Ok(()) => {
                        let Some(devices) = site.devices(&victims) else { break };
                        let share = seeker.shape.fit.gpus.share();
                        let found = Found::new(*board_ix, node.ix, devices, share);
                        let cost = cost(ground.projects, &victims, unit, *board_ix);
                        options.push((cost, found, victims.into_iter().cloned().collect()));
                        break;
                    }
                    Err(Denied::Own { victim } | Denied::TakenBack { victim }) => {
                        let job = victims[victim].job;
                        all.retain(|it| it.job != job);
                    }
                    Err(_) => break,
                }
            }
        }
        let (_, found, victims) = options.into_iter().min_by(|one, other| one.0.cmp(&other.0))?;
        self.gone.extend(victims.iter().map(|it| it.job));
        self.claimed.extend(found.devices.iter().map(|ix| (found.board_ix, *ix)));
        Some((found, victims))
    }
}

pub(crate) fn cost(projects: &Projects, victims: &[&Lent], unit: &[u64], board_ix: usize) -> Cost {
    let gpus_at = projects.position(&ResourceKind::Gpu);
    let gpus: u64 = victims.iter().map(|it| it.amounts[gpus_at]).sum();
    let orders = || victims.iter().map(|it| it.order);
    Cost {
        is_wasteful: gpus > unit[gpus_at].saturating_mul(2),
        saturation: orders().map(|it| it.saturation).max().expect("somebody goes"),
        gpus,
        priority: orders().map(|it| it.priority).max().unwrap_or(0),
        lost: orders().map(|it| it.lost).fold(0, u64::saturating_add),
        n_jobs: victims.len(),
        board_ix,
    }
}

/// One node on which room is to be made.
pub(crate) struct Site<'a, 'b> {
    node: &'b NodeBoard<'a>,
    seeker: &'b Seeker<'b>,
    /// Devices that are kept for others, or claimed already.
    closed: BTreeSet<usize>,
    /// How many are leaving each device already, with how much of its memory.
    leaving: BTreeMap<usize, (usize, i128)>,
}

impl<'a, 'b> Site<'a, 'b> {
    pub(crate) fn new(
        ground: Ground<'a, 'b>,
        board_ix: usize,
        seeker: &'b Seeker<'b>,
        claimed: &BTreeSet<(usize, usize)>,
    ) -> Option<Self> {
        let node = &ground.board.nodes[board_ix];
        let span = Span::new(ground.snapshot.now, length(seeker.shape));
        let kept = match ground.keeps.has(board_ix) {
            false => Vec::new(),
            true => {
                let endings = || (ground.endings)(board_ix);
                ground.keeps.kept((board_ix, node), seeker.shape, span, &endings)?
            }
        };
        let claimed = claimed.range((board_ix, 0)..=(board_ix, usize::MAX)).map(|(_, ix)| *ix);
        let closed = kept.into_iter().chain(claimed).collect();
        let leaving = leaving(ground.snapshot, node);
        Some(Self { node, seeker, closed, leaving })
    }

    /// The least of those that has to go, in the order in which they go; `None` if all of them are
    /// not enough, or nobody has to.
    pub(crate) fn least<'l>(&self, all: &[&'l Lent]) -> Option<Vec<&'l Lent>> {
        let mut chosen: Vec<&Lent> = Vec::new();
        if self.devices(&chosen).is_some() {
            return None;
        }
        let mut left = all.iter();
        while self.devices(&chosen).is_none() {
            chosen.push(*left.next()?);
        }
        // The last one was needed. Of the others, who would go last stays first.
        for at in (0..chosen.len().saturating_sub(1)).rev() {
            let mut fewer = chosen.clone();
            fewer.remove(at);
            if self.devices(&fewer).is_some() {
                chosen = fewer;
            }
        }
        Some(chosen)
    }

    /// The devices that the job would get once these have left; `None` if it still does not fit.
    pub(crate) fn devices(&self, gone: &[&Lent]) -> Option<Vec<usize>> {
        let fit = &self.seeker.shape.fit;
        let room = gone.iter().fold(self.node.free, |room, it| room.more(it.room));
        if Room::needed(fit).first_short(room).is_some() {
            return None;
        }
        let mut freed = self.leaving.clone();
        for (ix, memory) in gone.iter().flat_map(|it| &it.devices) {
            let (n, sum) = freed.entry(*ix).or_default();
            *n += 1;
            *sum += i128::from(memory.get());
        }
        let devices = self.node.row.node.devices.iter().enumerate();
        let seats = devices.map(|(ix, device)| {
            let open = !self.closed.contains(&ix) && unusable(self.node.row, ix).is_none();
            let (n_freed, memory) = freed.get(&ix).copied().unwrap_or_default();
            let is_free = open && self.node.n_holders(ix) <= n_freed;
            let left = self.node.memory_left(ix) + memory;
            let shares = self.node.row.is_whole(ix) || self.node.row.is_shared(ix) || is_free;
            let room = match open && shares {
                true => Bytes::new(u64::try_from(left.max(0)).unwrap_or(0)),
                false => Bytes::ZERO,
            };
            Seat { device, is_free, is_busy: !is_free && self.node.is_busy(ix), room }
        });
        let seats: Vec<Seat<'_>> = seats.collect();
        seat(&seats, &fit.gpus, self.seeker.policy.device_strategy, self.seeker.seed)
    }
}

/// Who leaves the devices of a node without being told again: whoever fits once they have left
/// waits for them.
fn leaving(snapshot: &Snapshot<'_>, node: &NodeBoard<'_>) -> BTreeMap<usize, (usize, i128)> {
    let mut leaving = BTreeMap::<usize, (usize, i128)>::new();
    let all = &node.row.node.devices;
    let rows = node.row.here.iter().filter_map(|task| Some((task, snapshot.world.job(task.job)?)));
    for (task, row) in rows.filter(|(_, row)| matches!(row.job.phase, Phase::Stopping { .. })) {
        let own = row.job.phase.allocations().iter().filter(|it| it.task == *task);
        for slot in own.flat_map(|it| &it.slots) {
            let Some(ix) = all.iter().position(|device| device.uuid == slot.device) else {
                continue;
            };
            let (n, sum) = leaving.entry(ix).or_default();
            *n += 1;
            *sum += i128::from(slot.part.memory_of(all[ix].memory).get());
        }
    }
    leaving
}

/// All that is on loan and may go, by position of its node on the board, who goes first first.
fn lent(ground: &Ground<'_, '_>) -> BTreeMap<usize, Vec<Lent>> {
    let Snapshot { world, now } = *ground.snapshot;
    let projects = ground.projects;
    let mut lent = BTreeMap::<usize, Vec<Lent>>::new();
    let (mut kept, mut marks) = (Vec::new(), Vec::new());
    for (ix, (project, of)) in world.project_rows().iter().zip(projects.rows()).enumerate() {
        let over = projects.over_own(*of);
        let (Some(saturation), false) = (over, project.evictable.is_empty()) else { continue };
        let mut rows: Vec<&JobRow> =
            project.evictable.iter().filter_map(|id| world.job(*id)).collect();
        // In the order in which they are kept: what can't go, then higher priorities, then age.
        rows.sort_by_key(|row| (Reverse(row.job.priority), row.spec.submitted_at, row.job.id));
        let for_good = projects.amounts(&project.sum.for_good);
        let pieces: Vec<Amounts> = rows.iter().map(|row| amounts_of(projects, row)).collect();
        let all = std::iter::once(&for_good[..]).chain(pieces.iter().map(|piece| &piece[..]));
        let guaranteed: Vec<_> = projects.guaranteed(*of);
        mark_loans(&guaranteed, all, &mut kept, &mut marks);
        let safe_for = min_runtime(ground, &project.name);
        let on_loan = rows.into_iter().zip(pieces).zip(&marks[1..]).filter(|(_, lent)| **lent);
        for ((row, amounts), _) in on_loan {
            let leaf = projects.leaf_of(ProjectIx(ix), row.spec.owner.uid);
            let Some((board_ix, piece)) = piece(ground, row, leaf, amounts, saturation) else {
                continue;
            };
            let Reverse(started_at) = piece.order.started_at;
            if started_at.after(safe_for) <= now {
                lent.entry(board_ix).or_default().push(piece);
            }
        }
    }
    lent.values_mut().for_each(|all| all.sort_by_key(|it| it.order));
    lent
}

pub(crate) fn amounts_of(projects: &Projects, row: &JobRow) -> Amounts {
    let allocations = row.job.phase.allocations().iter();
    let mut sum = vec![0; projects.n_kinds()];
    for allocation in allocations {
        for (sum, amount) in sum.iter_mut().zip(projects.amounts(&allocation.resources)) {
            *sum += amount;
        }
    }
    sum
}

/// A job as what may go; `None` if it is on several nodes.
pub(crate) fn piece(
    ground: &Ground<'_, '_>,
    row: &JobRow,
    leaf: Row,
    amounts: Amounts,
    saturation: Saturation,
) -> Option<(usize, Lent)> {
    let Snapshot { world, now } = *ground.snapshot;
    let [allocation] = row.job.phase.allocations() else { return None };
    let started_at = match &row.job.phase {
        Phase::Starting { since, .. } => *since,
        Phase::Running { started_at, .. } => *started_at,
        _ => return None,
    };
    if matches!(allocation.state, AllocationState::Claimed { .. }) {
        return None;
    }
    let board_ix = ground.board.position(world, &allocation.node)?;
    let all = &ground.board.nodes[board_ix].row.node.devices;
    let devices = allocation.slots.iter().filter_map(|slot| {
        let ix = all.iter().position(|device| device.uuid == slot.device)?;
        Some((ix, slot.part.memory_of(all[ix].memory)))
    });
    let gpus = allocation.resources.get(&ResourceKind::Gpu);
    let order = GoesFirst {
        saturation: Reverse(saturation),
        priority: row.job.priority,
        lost: now.since(started_at).get().saturating_mul(gpus.max(1)),
        started_at: Reverse(started_at),
        job: Reverse(row.job.id),
    };
    let (job, room) = (row.job.id, Room::booked(&allocation.resources));
    let project = ground.projects.project(leaf);
    let devices = devices.collect();
    Some((board_ix, Lent { job, leaf, project, amounts, devices, room, order }))
}

/// For how long what a project started is safe from others: as it or the first above it says.
fn min_runtime(ground: &Ground<'_, '_>, name: &ProjectName) -> Millis {
    let projects = ground.snapshot.world.projects();
    let above = |it: &&Project| projects.get(it.parent.as_ref()?);
    let mut upwards = std::iter::successors(projects.get(name), above).take(projects.len());
    upwards.find_map(|it| it.min_runtime.reclaim).unwrap_or(Millis::ZERO)
}
