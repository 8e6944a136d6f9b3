//! Taking back what is on loan, for work that its project is entitled to (SCHEDULING A10 as A′ 2
//! has it): of everything that may go, the least that makes room on one node after the other, as
//! many as the work needs, from who is furthest over its share. What is freed is claimed at once by
//! whom it is freed for.

mod lift;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use gpool_model::plan::Fit;
use gpool_model::{
    AllocationState, Bytes, Exit, JobId, Millis, Phase, Project, ProjectName, ResourceKind,
    Resources,
};
use gpool_world::{JobRow, ProjectIx, Snapshot, World};

use crate::board::Board;
use crate::consolidate::Movables;
use crate::cost::{Cost, GoesFirst, cost};
use crate::keep::{Ending, Keeps};
use crate::place::{self, Found, Seeker};
use crate::preempt::{Lasts, Own};
use crate::projects::{Amounts, Projects};
use crate::room::Room;
use crate::saturation::Saturation;
use crate::shares::{Denied, Multiplier, Reclaim, Reclaimer, Row, Rules, Victim, mark_loans};
use crate::site::Site;

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
    /// What it holds of each node, by position on the board.
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
    pub room: Room,
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
    /// By position of the node on the board, what those hold there that go already.
    pub(crate) freed: BTreeMap<usize, Vec<HeldOn>>,
    /// Whose jobs, and what they ask, of which one waits for room that others leave already: nobody
    /// goes for one that comes after it.
    pub(crate) patient: BTreeSet<(ProjectName, Fit)>,
    /// Nodes that somebody left before this cycle, by position on the board.
    pub(crate) left: Option<BTreeSet<usize>>,
    pub(crate) movables: Movables,
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
            lent: BTreeMap::new(),
            own: BTreeMap::new(),
            lasts: Lasts::default(),
            gone: BTreeSet::new(),
            claimed: BTreeSet::new(),
            freed: BTreeMap::new(),
            patient: BTreeSet::new(),
            left: None,
            movables: Movables::default(),
            rules: Reclaim::new(Rules::Fair, Multiplier::ONE),
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
    pub seeker: &'b Seeker<'b>,
    /// What it would be charged, by kind.
    pub unit: &'s [u64],
    /// By position of the node on the board, who goes first first.
    pub all: &'s BTreeMap<usize, Vec<Lent>>,
    pub may_go: &'s dyn Fn(&Lent) -> bool,
}

impl Evictions {
    /// Whose work goes so that a job of that leaf can start, and where that is then; `None` if
    /// nothing may be taken back that would help. Who is paused keeps its host memory: where that
    /// is what is needed, nobody is.
    pub fn search(
        &mut self,
        ground: Ground<'_, '_>,
        seeker: &Seeker<'_>,
        unit: (Row, &[u64]),
    ) -> Option<(Vec<Found>, Vec<Lent>)> {
        // What users of one project have is theirs; projects take back.
        let (leaf, amounts) = unit;
        let project = ground.projects.project(leaf);
        let preemptible = seeker.shape.preemptible;
        let reclaimer = Reclaimer { project, unit: amounts, preemptible };
        self.rules.gate(&ground.projects.ledger, &reclaimer).ok()?;
        if let Some(found) = self.leaves_room(ground, seeker) {
            // It waits for that, and nobody after it may have it.
            self.claim(&found);
            return None;
        }
        let found = self.search_with(ground, seeker, reclaimer, true);
        if found.is_some() || !self.lent.get(&true).is_some_and(pauses_any) {
            return found;
        }
        self.search_with(ground, seeker, reclaimer, false)
    }

    fn search_with(
        &mut self,
        ground: Ground<'_, '_>,
        seeker: &Seeker<'_>,
        reclaimer: Reclaimer<'_>,
        may_pause: bool,
    ) -> Option<(Vec<Found>, Vec<Lent>)> {
        let Projects { tree, ledger, .. } = ground.projects;
        let lent = self.lent.remove(&may_pause).unwrap_or_else(|| lent(&ground, may_pause));
        let unused = Reclaim::new(Rules::Fair, Multiplier::ONE);
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
        let may_go = |it: &Lent| it.project != project;
        let search = Search { ground, seeker, unit, all: &lent, may_go: &may_go };
        let found = self.nodes(search, &[], &mut judge);
        self.lent.insert(may_pause, lent);
        self.rules = rules;
        let found = found.filter(|(_, victims)| !stay_in_the_way(ground, victims));
        found.map(|found| self.go(found))
    }

    /// Nobody after it may have these devices.
    pub(crate) fn claim(&mut self, found: &Found) {
        self.claimed.extend(found.devices.iter().map(|ix| (found.board_ix, *ix)));
    }

    /// Those go, and their devices are claimed.
    pub(crate) fn go(
        &mut self,
        (found, victims): (Vec<Found>, Vec<Lent>),
    ) -> (Vec<Found>, Vec<Lent>) {
        self.gone.extend(victims.iter().map(|it| it.job));
        for (board_ix, held) in victims.iter().flat_map(|it| &it.held) {
            self.freed.entry(*board_ix).or_default().push(held.clone());
        }
        found.iter().for_each(|found| self.claim(found));
        (found, victims)
    }

    /// The nodes that a job gets, and whose work goes for it there beside those who go in any case;
    /// where there are several, all with devices of one model.
    pub(crate) fn nodes(
        &self,
        search: Search<'_, '_, '_>,
        gone: &[Lent],
        judge: &mut Judge<'_>,
    ) -> Option<(Vec<Found>, Vec<Lent>)> {
        if search.all.is_empty() {
            return None;
        }
        let fit = &search.seeker.shape.fit;
        let ranks = match place::n_nodes(fit) {
            1 => vec![None],
            _ => (0..fit.gpus.models.len().max(1)).map(Some).collect(),
        };
        ranks.into_iter().find_map(|rank| self.nodes_of(search, rank, gone.to_vec(), judge))
    }

    /// The same with devices of one model of the request, or of any. Nodes are taken one after the
    /// other, the cheapest first; who goes for one of them may make another one cheaper.
    fn nodes_of(
        &self,
        search: Search<'_, '_, '_>,
        rank: Option<usize>,
        mut victims: Vec<Lent>,
        judge: &mut Judge<'_>,
    ) -> Option<(Vec<Found>, Vec<Lent>)> {
        let n_nodes = place::n_nodes(&search.seeker.shape.fit);
        let mut found: Vec<Found> = Vec::new();
        if n_nodes > 1 || !victims.is_empty() {
            found = self.without_more(search, rank, &victims, &found, n_nodes);
            // It waits for those who leave by themselves.
            if found.len() == n_nodes {
                return (!victims.is_empty()).then_some((found, victims));
            }
        }
        // Where somebody may go who is furthest over its share comes first: what it costs elsewhere
        // is known to be more without a look.
        let nodes = search.all.iter().filter_map(|(board_ix, all)| {
            let first = all.iter().find(|it| (search.may_go)(it))?;
            Some((first.order.saturation, *board_ix, &all[..]))
        });
        let mut nodes: Vec<_> = nodes.collect();
        nodes.sort_by_key(|(saturation, board_ix, _)| (*saturation, *board_ix));
        while found.len() < n_nodes {
            let mut best: Option<(Cost, Found, Vec<Lent>)> = None;
            for (saturation, board_ix, all) in &nodes {
                if best.as_ref().is_some_and(|(cost, ..)| cost.is_below(*saturation)) {
                    break;
                }
                let is_other = found.iter().all(|found| found.board_ix != *board_ix);
                if is_other && self.may_be_enough(search, *board_ix, all) {
                    let (ground, seeker) = (search.ground, search.seeker);
                    let site = Site::new(ground, *board_ix, seeker, rank, self);
                    let option =
                        site.and_then(|site| self.option(search, &site, all, &victims, judge));
                    let options = best.into_iter().chain(option);
                    best = options.min_by(|one, other| one.0.cmp(&other.0));
                }
            }
            let (_, next, more) = best?;
            found.push(next);
            victims.extend(more);
            let n_more = n_nodes - found.len();
            let others = self.without_more(search, rank, &victims, &found, n_more);
            found.extend(others);
        }
        found.sort_by_key(|found| found.board_ix);
        Some((found, victims))
    }

    /// Whether a node may have as many devices as are asked for, with those of all who are looked
    /// at: told without a look at who else has them.
    fn may_be_enough(&self, search: Search<'_, '_, '_>, board_ix: usize, all: &[Lent]) -> bool {
        let fit = &search.seeker.shape.fit;
        let here = all.iter().filter_map(|it| it.held.get(&board_ix));
        let n_held: usize = here.map(|it| it.devices.len()).sum();
        let leaves = self.left.as_ref().is_none_or(|left| left.contains(&board_ix))
            || self.freed.contains_key(&board_ix);
        let n_free = search.ground.board.nodes[board_ix].n_free;
        leaves || fit.gpus.share().is_some() || n_free + n_held >= place::n_devices_on_node(fit)
    }

    /// Nodes on which nobody has to go but those who go already, or leave by themselves; at most so
    /// many, the lowest names.
    fn without_more(
        &self,
        Search { ground, seeker, .. }: Search<'_, '_, '_>,
        rank: Option<usize>,
        victims: &[Lent],
        found: &[Found],
        n_most: usize,
    ) -> Vec<Found> {
        let gone: Vec<&Lent> = victims.iter().collect();
        let others = (0..ground.board.nodes.len())
            .filter(|ix| found.iter().all(|found| found.board_ix != *ix));
        let sites = others.filter_map(|ix| Site::new(ground, ix, seeker, rank, self));
        sites.filter_map(|site| site.found(&gone)).take(n_most).collect()
    }

    /// Who else goes so that a job finds room on one node, beside those who go already.
    fn option(
        &self,
        search: Search<'_, '_, '_>,
        site: &Site<'_, '_>,
        all: &[Lent],
        victims: &[Lent],
        judge: &mut Judge<'_>,
    ) -> Option<(Cost, Found, Vec<Lent>)> {
        let goes = |it: &Lent| victims.iter().any(|victim| victim.job == it.job);
        let may_go = |it: &&Lent| (search.may_go)(it) && !self.gone.contains(&it.job) && !goes(it);
        let mut all: Vec<&Lent> = all.iter().filter(may_go).collect();
        // What may not go after all is left out, and the rest tried again.
        while let Some(more) = site.least(victims, &all) {
            let gone: Vec<&Lent> = victims.iter().chain(more.iter().copied()).collect();
            match judge(&gone) {
                Ok(()) => {
                    let found = site.found(&gone)?;
                    let cost = cost(search.ground.projects, &more, search.unit, found.board_ix);
                    return Some((cost, found, more.into_iter().cloned().collect()));
                }
                Err(Some(job)) if more.iter().any(|it| it.job == job) => {
                    all.retain(|it| it.job != job);
                }
                Err(_) => return None,
            }
        }
        None
    }
}

/// Whether some would still hold something where a start is planned when that comes: they had been
/// expected to leave before.
pub(crate) fn stay_in_the_way(ground: Ground<'_, '_>, victims: &[Lent]) -> bool {
    let Snapshot { world, now } = *ground.snapshot;
    victims.iter().any(|it| {
        let leaves = match it.exit {
            // His memory is still his.
            Exit::Pause => None,
            exit => world.job(it.job).map(|row| World::expected_end_if_taken_back(row, exit, now)),
        };
        let mut starts = it.held.keys().flat_map(|board_ix| ground.keeps.starts(*board_ix));
        starts.any(|start| leaves.is_none_or(|end| end.at > start))
    })
}

/// All that is on loan and may go, by position of its node on the board, who goes first first.
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
    for board_ix in nodes {
        by_node.entry(*board_ix).or_default().push(lent.clone());
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
    saturation: Saturation,
) -> Option<Lent> {
    let Snapshot { world, now } = *ground.snapshot;
    let started_at = match &row.job.phase {
        Phase::Starting { since, .. } => *since,
        Phase::Running { started_at, .. } => started_at.after(row.job.course.paused),
        _ => return None,
    };
    let exit = best_exit(world, row, may_pause)?;
    let kept = match exit {
        Exit::Pause => row.spec.resources_paused(),
        Exit::Checkpoint | Exit::Requeue | Exit::Kill => Resources::none(),
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
        let board_ix = ground.board.position(world, &allocation.node)?;
        let all = &ground.board.nodes[board_ix].row.node.devices;
        let devices = allocation.slots.iter().filter_map(|slot| {
            let ix = all.iter().position(|device| device.uuid == slot.device)?;
            Some((ix, slot.part.memory_of(all[ix].memory)))
        });
        let here = held.entry(board_ix).or_default();
        here.devices.extend(devices);
        here.room = here.room.more(Room::booked(&allocation.resources)).less(Room::booked(&kept));
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
