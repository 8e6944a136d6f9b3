//! One cycle: the pending jobs in order, each placed, planned or left waiting.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::{
    Decision, Millis, OrderKey, Plan, PlannedStarts, Policy, Reason, Shape, TakenBack,
};
use gpool_world::{FitIx, JobRow, ShapeIx, Snapshot};

use crate::ahead::Ahead;
use crate::board::Board;
use crate::caps::Users;
use crate::elements::Elements;
use crate::evict::{Evictions, Ground, Lent};
use crate::keep::{Ending, Keeps, Span, length};
use crate::order::Head;
use crate::place::{self, Found, Seeker};
use crate::preempt;
use crate::projects::Projects;
use crate::turns::{Leaf, Turns};
use crate::wait;
use crate::waiting::Waiting;

/// Memory that cycles use again. A new one gives the same plans, only later.
#[derive(Debug, Clone, Default)]
pub struct Workspace {
    turns: Turns,
    /// By [`FitIx`], of jobs that no reservation admits: what found no place in this cycle.
    failed: Vec<Option<Failed>>,
    /// The same of jobs that some do, by which these are.
    failed_inside: BTreeMap<(usize, Vec<usize>), Failed>,
}

/// What found no place: all work of one fit that takes so long, or longer.
#[derive(Debug, Clone)]
struct Failed {
    /// `None` is for ever.
    length: Option<Millis>,
    reason: Reason,
}

impl Failed {
    fn covers(&self, length: Option<Millis>) -> bool {
        match (self.length, length) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(failed), Some(length)) => failed <= length,
        }
    }
}

/// Under [`PlannedStarts::All`], so many starts are planned: what one costs grows with those
/// before it.
const ALL_MAX: usize = 100;
/// So many jobs are looked ahead for that turn out to wait for something of which no end is known;
/// those behind them have no planned start.
const UNKNOWN_MAX: usize = 8;

/// Why each of those goes that make room.
type Why<'w> = &'w dyn Fn(&Lent) -> TakenBack;

/// A cycle while it is made.
struct Cycle<'a, 'w> {
    snapshot: Snapshot<'a>,
    policy: &'a Policy,
    board: Board<'a>,
    keeps: Keeps<'a>,
    ahead: Ahead<'a>,
    workspace: &'w mut Workspace,
    plan: Plan,
    /// Set where projects have shares, or bounds.
    projects: Option<Projects>,
    evictions: Evictions,
    elements: Elements,
    users: Users,
    waiting: Waiting,
    /// Priorities of which the first that waits was seen.
    tops: BTreeSet<i32>,
    /// Shapes for which no time is known, whoever of them asks.
    unknown: BTreeSet<ShapeIx>,
}

pub(crate) fn run(snapshot: &Snapshot<'_>, policy: &Policy, workspace: &mut Workspace) -> Plan {
    let world = snapshot.world;
    let board = Board::new(world);
    workspace.failed.clear();
    workspace.failed.resize(world.n_fit_rows(), None);
    workspace.failed_inside.clear();
    let projects = Projects::of(snapshot, policy);
    let mut turns = std::mem::take(&mut workspace.turns);
    turns.fill(world, policy, shared(&projects));
    let mut cycle = Cycle {
        snapshot: *snapshot,
        policy,
        keeps: Keeps::of(snapshot, policy, &board),
        board,
        ahead: Ahead::new(snapshot),
        workspace,
        plan: Plan { basis: world.revision(), ..Plan::default() },
        projects,
        evictions: Evictions::default(),
        elements: Elements::default(),
        users: Users::default(),
        waiting: Waiting::default(),
        tops: BTreeSet::new(),
        unknown: BTreeSet::new(),
    };
    loop {
        while let Some((leaf, head)) = turns.next(shared(&cycle.projects)) {
            cycle.turn(leaf, head, &mut turns);
            turns.settle(shared(&cycle.projects), leaf);
        }
        if !turns.lend(shared(&cycle.projects)) {
            break;
        }
    }
    let mut plan = cycle.plan;
    plan.waits = cycle.waiting.into_waits(world);
    workspace.turns = turns;
    plan
}

/// The projects, where they have shares.
fn shared(projects: &Option<Projects>) -> Option<&Projects> {
    projects.as_ref().filter(|projects| projects.are_shared)
}

impl<'a> Cycle<'a, '_> {
    /// It is the turn of a job: it starts, or waits for a reason.
    fn turn(&mut self, leaf: Leaf, head: Head, turns: &mut Turns) {
        let (world, policy) = (self.snapshot.world, self.policy);
        let row = self.row(&head);
        if let Some(reason) = self.elements.full(world, row.job.id) {
            let n_left = self.elements.n_left(row);
            self.waiting.of_array(head.shape_ix, row.job.id.number, n_left, reason);
            turns.heads(leaf).push_next(world, policy, &head);
            return;
        }
        let shape = &world.shape(head.shape_ix).shape;
        if let Some(reason) = self.users.quota(world, policy, shape) {
            // Nor may the rest of the shape, and nobody waits for them.
            self.waiting.of_shape(head.shape_ix, &reason);
            return;
        }
        let charged = self.projects.as_ref().map(|projects| {
            let row = projects.leaf(world.shape(head.shape_ix));
            (row, projects.charge(shape))
        });
        let mut refused = None;
        if let (Some(projects), Some((row, charge))) = (&self.projects, &charged) {
            refused = projects.refuses(*row, charge, shape.preemptible);
            let is_aside = leaf.is_some() && !turns.is_lending;
            if refused.is_none() && is_aside && !projects.is_entitled(*row, charge) {
                turns.set_aside(leaf, head);
                return;
            }
        }
        let is_refused = refused.is_some();
        let mut kept = refused.or_else(|| self.consider(&head));
        if let (Some(reason), Some((row, charge))) = (&kept, &charged)
            && waits_for_room(reason)
        {
            let by_right = leaf.is_some() && !turns.is_lending && !is_refused;
            if (by_right && self.take_back(&head, (*row, charge), turns))
                || self.preempt(&head, (*row, charge), turns)
            {
                kept = None;
            }
        }
        if is_refused && let Some(reason) = &kept {
            // Nor may the rest of the shape.
            self.waiting.of_shape(head.shape_ix, reason);
            return;
        }
        match kept {
            None => {
                self.users.started(world, policy, shape);
                if let (Some(projects), Some((row, charge))) = (&mut self.projects, &charged) {
                    projects.add(*row, charge, shape.preemptible);
                }
                self.waiting.started(head.shape_ix);
                match self.elements.take(row) {
                    true => turns.heads(leaf).push_again(head),
                    false => turns.heads(leaf).push_next(world, policy, &head),
                }
            }
            Some(reason) => {
                // The rest of the shape does not fit either.
                self.waiting.of_shape(head.shape_ix, &reason);
                if self.look_ahead(&head, &reason) {
                    turns.heads(leaf).push_next(world, policy, &head);
                }
            }
        }
    }

    fn row(&self, head: &Head) -> &'a JobRow {
        self.snapshot.world.job(head.job()).expect("queued jobs are there")
    }

    /// Starts a job, or says why it waits.
    fn consider(&mut self, head: &Head) -> Option<Reason> {
        let queue = self.snapshot.world.shape(head.shape_ix);
        let (shape, FitIx(fit_ix)) = (&queue.shape, queue.fit_ix);
        let (length, access) = (length(shape), self.keeps.access(shape));
        let failed = match access.is_empty() {
            true => self.workspace.failed[fit_ix].as_ref(),
            false => self.workspace.failed_inside.get(&(fit_ix, access.clone())),
        };
        if let Some(failed) = failed.filter(|failed| failed.covers(length)) {
            return Some(failed.reason.clone());
        }
        let row = self.row(head);
        let (job, attempt) = self.elements.next(row);
        let seeker = Seeker { shape, policy: self.policy, seed: place::seed(job, attempt) };
        if let Some(found) = self.place(&seeker) {
            self.start(row, shape, &found, Vec::new());
            return None;
        }
        let reason = reason(&self.snapshot, &self.board, &self.keeps, &seeker);
        let failed = Failed { length, reason: reason.clone() };
        match access.is_empty() {
            true => self.workspace.failed[fit_ix] = Some(failed),
            false => drop(self.workspace.failed_inside.insert((fit_ix, access), failed)),
        }
        Some(reason)
    }

    fn place(&self, seeker: &Seeker<'_>) -> Option<Vec<Found>> {
        let endings = |board_ix| self.ahead.on_node(&self.board, board_ix);
        place_among(&self.snapshot, &self.board, &self.keeps, seeker, &endings)
    }

    /// Takes back what is on loan so that a job can start; says whether that helped.
    fn take_back(
        &mut self,
        head: &Head,
        (leaf, charge): (crate::shares::Row, &[u64]),
        turns: &mut Turns,
    ) -> bool {
        let shape = &self.snapshot.world.shape(head.shape_ix).shape;
        let row = self.row(head);
        let (job, attempt) = self.elements.next(row);
        let seeker = Seeker { shape, policy: self.policy, seed: place::seed(job, attempt) };
        let Some(projects) = &self.projects else { return false };
        let endings = |board_ix| self.ahead.on_node(&self.board, board_ix);
        let ground = Ground {
            snapshot: &self.snapshot,
            board: &self.board,
            keeps: &self.keeps,
            projects,
            endings: &endings,
        };
        let Some((found, lent)) = self.evictions.search(ground, &seeker, (leaf, charge)) else {
            return false;
        };
        self.start_after(row, shape, &found, (&|_| TakenBack::Reclaim, lent), turns);
        true
    }

    /// Lets others of its project give way to a job that has a higher priority, or has had less
    /// GPU-time; says whether that helped.
    fn preempt(
        &mut self,
        head: &Head,
        (leaf, charge): (crate::shares::Row, &[u64]),
        turns: &mut Turns,
    ) -> bool {
        if !preempt::happens(self.snapshot.world, self.policy) {
            return false;
        }
        let shape = &self.snapshot.world.shape(head.shape_ix).shape;
        let row = self.row(head);
        let (job, attempt) = self.elements.next(row);
        let seeker = Seeker { shape, policy: self.policy, seed: place::seed(job, attempt) };
        let Some(projects) = &self.projects else { return false };
        let endings = |board_ix| self.ahead.on_node(&self.board, board_ix);
        let ground = Ground {
            snapshot: &self.snapshot,
            board: &self.board,
            keeps: &self.keeps,
            projects,
            endings: &endings,
        };
        let is_lent = !projects.are_shared || turns.is_lending;
        let may_have = |gone: &[&Lent]| {
            let given: Vec<(crate::shares::Row, &[u64])> =
                gone.iter().map(|it| (it.leaf, &it.amounts[..])).collect();
            (is_lent || projects.borrows_no_more(leaf, charge, &given))
                && projects.refuses_after(leaf, charge, shape.preemptible, &given).is_none()
        };
        let found = {
            let asks = (leaf, charge, head.is_escalated);
            self.evictions.preempt(ground, &seeker, asks, &may_have)
        };
        let Some((found, victims)) = found else { return false };
        let why = |it: &Lent| preempt::why(self.policy, it, (shape, head.is_escalated));
        self.start_after(row, shape, &found, (&why, victims), turns);
        true
    }

    /// Starts a job on what others give up for it.
    fn start_after(
        &mut self,
        row: &JobRow,
        shape: &Shape,
        found: &[Found],
        (why, victims): (Why<'_>, Vec<Lent>),
        turns: &mut Turns,
    ) {
        let (beneficiary, _) = self.elements.next(row);
        let mut after = Vec::new();
        for it in victims {
            let victim = self.snapshot.world.job(it.job).expect("only jobs hold something");
            self.ahead.take_back(&self.board, victim, it.exit);
            let attempt = victim.job.attempt;
            after.push(u32::try_from(self.plan.decisions.len()).unwrap_or(u32::MAX));
            let (job, exit, why) = (it.job, it.exit, why(&it));
            self.plan.decisions.push(Decision::Evict { job, attempt, why, beneficiary, exit });
            if let Some(projects) = &mut self.projects {
                projects.remove(it.leaf, &it.amounts);
            }
            turns.settle(shared(&self.projects), Some(it.leaf));
        }
        self.start(row, shape, found, after);
    }

    fn start(&mut self, row: &JobRow, shape: &Shape, found: &[Found], after: Vec<u32>) {
        let (job, attempt) = self.elements.next(row);
        self.plan.decisions.push(match shape.fit.at.is_empty() {
            true => {
                let placements = place::placements(found, &shape.fit, self.snapshot.world);
                Decision::Start { job, attempt, placements, after }
            }
            false => {
                let placements = shape.fit.at.clone();
                Decision::Resume { job, attempt, placements, after }
            }
        });
        for found in found {
            self.board.book(found, &shape.fit);
            self.ahead.start(&self.board, (job, row), &shape.fit, found);
        }
    }

    /// Keeps the earliest time and place for a job that waits, if it is its turn to have them kept.
    /// Answers whether the next of its shape could have that turn too.
    fn look_ahead(&mut self, head: &Head, reason: &Reason) -> bool {
        let most = match self.policy.planned_starts {
            PlannedStarts::AtMost(most) => usize::try_from(most).unwrap_or(usize::MAX),
            PlannedStarts::All => ALL_MAX,
        };
        if self.plan.planned.len() >= most.min(ALL_MAX)
            || self.unknown.len() >= UNKNOWN_MAX
            || !waits_for_room(reason)
        {
            return false;
        }
        let queue = self.snapshot.world.shape(head.shape_ix);
        let shape = &queue.shape;
        if shape.joins {
            return false;
        }
        let by_priority = self.policy.order.contains(&OrderKey::Priority);
        let is_top = self.tops.insert(if by_priority { shape.priority } else { 0 });
        let by_right = head.is_escalated || self.policy.planned_starts == PlannedStarts::All;
        if !(is_top || by_right) || self.unknown.contains(&head.shape_ix) {
            return false;
        }
        let next = self.elements.next(self.row(head));
        match self.ahead.plan(&self.board, &self.keeps, shape, next, self.policy) {
            Some((planned, kept)) => {
                self.plan.planned.push(planned);
                // What it is to have counts for its user, or others of his would take it.
                self.users.started(self.snapshot.world, self.policy, shape);
                if let Some(projects) = &mut self.projects {
                    let row = projects.leaf(queue);
                    let charge = projects.charge(shape);
                    projects.add(row, &charge, shape.preemptible);
                }
                kept.into_iter().for_each(|(board_ix, keep)| self.keeps.add(board_ix, keep));
                by_right
            }
            None => {
                self.unknown.insert(head.shape_ix);
                false
            }
        }
    }
}

/// Whether what a job waits for may come by itself, when others end.
fn waits_for_room(reason: &Reason) -> bool {
    if let Reason::NodesNotFree { need, able, .. } = reason {
        return able >= need;
    }
    !matches!(
        reason,
        Reason::GpuModelMissing { .. }
            | Reason::GpuMemoryTooSmall { .. }
            | Reason::AgentUnreachable { .. }
            | Reason::NodeDrained { .. }
            | Reason::OnlyInPool { .. }
    )
}

/// The best places that the tasks of a job can have at once. `endings` says what is given back on
/// a node.
pub(crate) fn place_among<'a>(
    snapshot: &Snapshot<'a>,
    board: &Board<'a>,
    keeps: &Keeps<'a>,
    seeker: &Seeker<'_>,
    endings: &dyn Fn(usize) -> Vec<Ending>,
) -> Option<Vec<Found>> {
    let span = Span::new(snapshot.now, length(seeker.shape));
    place::place(board, seeker, &|board_ix| {
        let node = &board.nodes[board_ix];
        let mut kept = match keeps.has(board_ix) {
            false => Vec::new(),
            true => keeps.kept((board_ix, node), seeker.shape, span, &|| endings(board_ix))?,
        };
        node.close_others(&seeker.shape.fit, &mut kept);
        Some(kept)
    })
}

/// Why a job has no place: what is kept on the place that it would have otherwise, or what is
/// short.
pub(crate) fn reason(
    snapshot: &Snapshot<'_>,
    board: &Board<'_>,
    keeps: &Keeps<'_>,
    seeker: &Seeker<'_>,
) -> Reason {
    let otherwise = place::place(board, seeker, &|board_ix| {
        let mut kept = Vec::new();
        board.nodes[board_ix].close_others(&seeker.shape.fit, &mut kept);
        Some(kept)
    });
    let kept = otherwise.and_then(|found| {
        let not_reserved = keeps.not_reserved(board, seeker.shape);
        not_reserved.or_else(|| {
            found.iter().find_map(|found| {
                let node = (found.board_ix, &board.nodes[found.board_ix]);
                keeps.reason(node, seeker.shape, snapshot.now)
            })
        })
    });
    kept.unwrap_or_else(|| wait::reason(board, &seeker.shape.fit))
}
