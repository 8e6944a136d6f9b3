//! Searches for victims so that a job can be placed: more and more possible victims, worst first,
//! task by task of the job, in trials that are rolled back until one succeeds.

use std::collections::{BTreeMap, BTreeSet};

use crate::counters::TaskStatus;
use crate::cycle::place::How;
use crate::cycle::place_unit::place_unit;
use crate::cycle::turns::Turns;
use crate::cycle::victims::{Piece, Pool, Victims};
use crate::cycle::{Cycle, Obstacle};
use crate::input::GpuAsk;
use crate::settings::Stage;
use crate::state::State;
use crate::unit;

/// The state that the solver of one stage keeps from job to job.
pub(crate) struct Solver {
    stage: Stage,
    /// The possible victims.
    pool: Pool,
    trials: Trials,
}

/// The order in which trials place tasks.
struct Trials {
    /// The waiting jobs.
    turns: Turns,
    /// The projects with a queue order changed by the last trial.
    dirty: Vec<usize>,
}

/// The job to place, and its possible victims.
pub(crate) struct Search<'s> {
    pub job: usize,
    pub tasks: &'s [usize],
    /// The projects of possible victims.
    pub leafs: Vec<usize>,
    pub allowed: &'s dyn Fn(usize) -> bool,
    /// The most jobs that the search considers.
    pub most: usize,
    /// Whether a trial that places the job is allowed.
    pub valid: &'s mut Valid<'s>,
}

/// Checks a trial: the placed tasks, and the victims.
type Valid<'s> = dyn FnMut(&mut Cycle<'_>, &[usize], &[Piece]) -> Result<(), Obstacle> + 's;

impl Solver {
    pub(crate) fn of(cycle: &Cycle<'_>, stage: Stage) -> Self {
        let pool = Pool::of(cycle.rules, &cycle.state);
        Self { stage, pool, trials: Trials { turns: cycle.turns(|_| true), dirty: Vec::new() } }
    }

    /// Returns the projects with possible victims.
    pub(crate) fn projects(&self) -> impl Iterator<Item = usize> + '_ {
        self.pool.projects()
    }

    /// Places a job and evicts its victims. Returns the projects with changes.
    ///
    /// # Errors
    /// If no trial holds; nothing has changed then.
    pub(crate) fn solve(
        &mut self,
        cycle: &mut Cycle<'_>,
        mut search: Search<'_>,
    ) -> Result<Vec<usize>, Obstacle> {
        if !cycle.rules.settings.shortcuts {
            self.pool = Pool::of(cycle.rules, &cycle.state);
        }
        let mark = cycle.state.mark();
        let mut nodes = usable(cycle, search.tasks);
        let mut recorded: Vec<Piece> = Vec::new();
        for count in 1..=search.tasks.len() {
            let found = self.extend(cycle, &mut search, count, &recorded, nodes.as_deref_mut());
            match found {
                Ok(pieces) => recorded = pieces,
                Err(obstacle) => {
                    cycle.state.undo(mark);
                    return Err(obstacle);
                }
            }
            if count < search.tasks.len() {
                cycle.state.undo(mark);
            }
        }
        let changed = cycle.commit(mark, self.stage, search.job);
        for &project in &changed {
            self.pool.refill(cycle.rules, &cycle.state, project);
            self.trials.turns.refill(cycle.rules, &cycle.state, project, &|_| true);
        }
        Ok(changed)
    }

    /// Finds victims for the first tasks of the job, beyond the victims found for fewer tasks. On
    /// success the trial stays applied.
    fn extend(
        &mut self,
        cycle: &mut Cycle<'_>,
        search: &mut Search<'_>,
        count: usize,
        recorded: &[Piece],
        mut nodes: Option<&mut [bool]>,
    ) -> Result<Vec<Piece>, Obstacle> {
        let start = cycle.state.mark();
        let tasks = &search.tasks[..count];
        let mut last = Obstacle::NobodyGivesWay;
        if !recorded.is_empty() {
            let nodes = nodes.as_deref_mut();
            match self.trials.attempt(cycle, search, tasks, recorded.to_vec(), nodes) {
                Attempt::Holds(pieces) => return Ok(pieces),
                Attempt::Invalid(obstacle) => last = obstacle,
                Attempt::Fails => {}
            }
            cycle.state.undo(start);
        }
        let given: BTreeSet<usize> =
            recorded.iter().flat_map(|it| it.tasks.iter().copied()).collect();
        let mut potential = Potential::default();
        let leafs = search.leafs.iter().copied();
        let mut victims = Victims::of(cycle.rules, &cycle.state, &self.pool, leafs, search.allowed);
        while let Some(piece) = victims.next(&cycle.state, &given) {
            if piece.tasks.is_empty() {
                continue;
            }
            let of_job = &potential.of_job;
            if !of_job.contains_key(&piece.job) && of_job.len() >= search.most {
                break;
            }
            let places = potential.add(cycle, piece);
            for node in places {
                let pieces: Vec<Piece> =
                    recorded.iter().cloned().chain(potential.on(node)).collect();
                match self.trials.attempt(cycle, search, tasks, pieces, nodes.as_deref_mut()) {
                    Attempt::Holds(pieces) => return Ok(pieces),
                    Attempt::Invalid(obstacle) => {
                        last = obstacle;
                        cycle.state.undo(start);
                        break;
                    }
                    Attempt::Fails => cycle.state.undo(start),
                }
            }
        }
        Err(last)
    }
}

/// The possible victims named so far.
#[derive(Default)]
struct Potential {
    pieces: Vec<Piece>,
    /// By job, its pieces.
    of_job: BTreeMap<usize, Vec<usize>>,
    /// By node, the jobs with a named task there, in the order of naming.
    on_node: BTreeMap<usize, Vec<usize>>,
}

impl Potential {
    /// Adds a victim. Returns the nodes of its tasks.
    fn add(&mut self, cycle: &Cycle<'_>, piece: Piece) -> Vec<usize> {
        let state = &cycle.state;
        let on = |task: usize| state.tasks[task].at.map(|at| state.index.places[at.place].node);
        let mut nodes: Vec<usize> = piece.tasks.iter().filter_map(|&task| on(task)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for &node in &nodes {
            let jobs = self.on_node.entry(node).or_default();
            if !jobs.contains(&piece.job) {
                jobs.push(piece.job);
            }
        }
        self.of_job.entry(piece.job).or_default().push(self.pieces.len());
        self.pieces.push(piece);
        nodes
    }

    /// Returns all pieces of the jobs with a piece on a node.
    fn on(&self, node: usize) -> impl Iterator<Item = Piece> + '_ {
        let jobs = self.on_node.get(&node).into_iter().flatten();
        let mut rows: Vec<usize> =
            jobs.filter_map(|job| self.of_job.get(job)).flatten().copied().collect();
        rows.sort_unstable();
        rows.into_iter().map(|row| self.pieces[row].clone())
    }
}

/// The result of a trial.
enum Attempt {
    /// The trial succeeds, with these victims and moved tasks.
    Holds(Vec<Piece>),
    /// The job found its place, but not by the rules.
    Invalid(Obstacle),
    /// The job found no place.
    Fails,
}

impl Trials {
    /// Evicts all of these, and places them and the job in order.
    fn attempt(
        &mut self,
        cycle: &mut Cycle<'_>,
        search: &mut Search<'_>,
        tasks: &[usize],
        pieces: Vec<Piece>,
        mut nodes: Option<&mut [bool]>,
    ) -> Attempt {
        for leaf in std::mem::take(&mut self.dirty) {
            self.turns.restart(cycle.rules, &cycle.state, leaf);
        }
        if !cycle.rules.settings.shortcuts {
            self.turns = cycle.turns(|_| true);
        }
        let opened = open(cycle, &pieces, nodes.as_deref_mut());
        for piece in &pieces {
            end(&mut cycle.state, piece);
        }
        let possible = !cycle.rules.settings.shortcuts || possible(&cycle.state, tasks);
        let placed = possible && self.replace(cycle, search.job, tasks, &pieces, nodes.as_deref());
        for node in opened {
            if let Some(nodes) = nodes.as_deref_mut() {
                nodes[node] = false;
            }
        }
        if !placed {
            return Attempt::Fails;
        }
        if let Err(obstacle) = (search.valid)(cycle, tasks, &pieces) {
            return Attempt::Invalid(obstacle);
        }
        let gave = |task: &usize| {
            matches!(cycle.state.tasks[*task].state, TaskStatus::Evicted | TaskStatus::Pipelined)
        };
        let given = pieces.into_iter().filter_map(|mut piece| {
            piece.tasks.retain(gave);
            (!piece.tasks.is_empty()).then_some(piece)
        });
        Attempt::Holds(given.collect())
    }

    /// Places the evicted tasks and the job, in order; returns whether the job was placed.
    fn replace(
        &mut self,
        cycle: &mut Cycle<'_>,
        job: usize,
        tasks: &[usize],
        pieces: &[Piece],
        nodes: Option<&[bool]>,
    ) -> bool {
        let rules = cycle.rules;
        let mut involved: Vec<usize> = pieces.iter().map(|piece| piece.job).collect();
        involved.push(job);
        involved.sort_unstable();
        involved.dedup();
        let leaf_of = |job: usize| rules.index.jobs[job].project;
        self.dirty.extend(involved.iter().filter_map(|&it| leaf_of(it)));
        for &it in &involved {
            self.turns.skip[it] = true;
        }
        for &it in &involved {
            let asked = (it == job).then(|| unit::charge(&cycle.state, tasks));
            if it == job || unit::candidate(&cycle.state, it) {
                self.turns.push(rules, &cycle.state, it, asked);
            } else if let Some(leaf) = leaf_of(it) {
                self.turns.update(rules, &cycle.state, leaf);
            }
        }
        let placed = self.in_turn(cycle, job, tasks, How { later: true, nodes });
        for &it in &involved {
            self.turns.skip[it] = false;
        }
        self.dirty.sort_unstable();
        self.dirty.dedup();
        placed
    }

    fn in_turn(
        &mut self,
        cycle: &mut Cycle<'_>,
        job: usize,
        tasks: &[usize],
        how: How<'_>,
    ) -> bool {
        let rules = cycle.rules;
        let mut placed = false;
        while let Some(leaf) = self.turns.leaf() {
            let Some((next, again)) = self.turns.first_of(leaf) else { break };
            if !again {
                self.dirty.push(leaf);
                self.turns.pass(rules, &cycle.state, leaf);
                continue;
            }
            self.turns.pop(rules, &cycle.state);
            let state = &mut cycle.state;
            let mark = state.mark();
            let tasks = if next == job { Some(tasks.to_vec()) } else { unit::unit(state, next) };
            let found = tasks.is_some_and(|it| place_unit(rules, state, next, &it, how).is_ok());
            if !found {
                state.undo(mark);
                if next == job {
                    return false;
                }
            }
            placed |= found && next == job;
            self.turns.update(rules, &cycle.state, leaf);
        }
        placed
    }
}

/// Opens the victims' nodes to tasks without GPUs; returns the nodes that were closed.
fn open(cycle: &Cycle<'_>, pieces: &[Piece], nodes: Option<&mut [bool]>) -> Vec<usize> {
    let mut opened = Vec::new();
    let Some(nodes) = nodes else { return opened };
    for &task in pieces.iter().flat_map(|piece| &piece.tasks) {
        if let Some(at) = cycle.state.tasks[task].at {
            let node = cycle.rules.index.places[at.place].node;
            if !std::mem::replace(&mut nodes[node], true) {
                opened.push(node);
            }
        }
    }
    opened
}

/// Evicts a piece. A job that loses its gang also loses the claims of its other tasks.
fn end(state: &mut State<'_>, piece: &Piece) {
    for &task in &piece.tasks {
        state.evict(task);
    }
    let row = &state.index.jobs[piece.job];
    if row.sets.clone().all(|set| state.sets[set].holding == 0) {
        for task in row.tasks.clone() {
            if state.tasks[task].state == TaskStatus::Pipelined {
                state.evict(task);
            }
        }
    }
}

/// Whether enough whole devices are or become free for the tasks, by counters: for each size, all
/// tasks that are at least that large have to fit side by side.
fn possible(state: &State<'_>, tasks: &[usize]) -> bool {
    let mut asked: Vec<usize> = tasks
        .iter()
        .filter_map(|&task| match state.gpu_ask(task) {
            GpuAsk::Whole(count) => usize::try_from(*count).ok(),
            _ => None,
        })
        .collect();
    asked.sort_unstable_by(|a, b| b.cmp(a));
    asked.iter().enumerate().all(|(row, &size)| {
        asked.get(row + 1) == Some(&size) || size == 0 || fit_beside(state, size, row + 1)
    })
}

fn fit_beside(state: &State<'_>, size: usize, wanted: usize) -> bool {
    let mut fit = 0;
    for (free, places) in state.by_free.iter().enumerate().skip(size) {
        fit += (free / size) * places.len();
        if fit >= wanted {
            return true;
        }
    }
    false
}

/// The nodes where tasks without GPUs may go in a trial, if not all.
fn usable(cycle: &Cycle<'_>, tasks: &[usize]) -> Option<Vec<bool>> {
    let state = &cycle.state;
    if tasks.iter().any(|&task| *state.gpu_ask(task) == GpuAsk::None) {
        return None;
    }
    let nodes = cycle.rules.index.nodes.iter();
    Some(nodes.map(|node| node.places.clone().any(|place| state.any_free(place))).collect())
}
