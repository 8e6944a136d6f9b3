//! Pages of jobs: first live jobs, from memory, then ended jobs, from the archive.

use std::collections::{BTreeSet, HashSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use axum::response::Response;
use gpool_model::job::JobState;
use gpool_model::{JobId, JobNumber, Reason, Refusal};
use gpool_store::ArchiveFilter;
use gpool_wire::{GroupStatus, Time, json};
use gpool_world::{JobRow, World};
use serde::Deserialize;
use utoipa::IntoParams;

use super::asker::Asker;
use super::extract::ApiError;
use super::found::{self, FoundJob};
use super::groups::{self, Folding};
use super::page::{self, Making, Piece, Room};
use crate::api::Api;
use gpool_journal::codec;
use gpool_server::elements;
use gpool_server::fault::internal;
use gpool_server::handle::{Age, CoreHandle};
use gpool_server::view::View;

const LIMIT_DEFAULT: u32 = 200;
const LIMIT_MAX: u32 = 10_000;
/// Number of ended jobs read at once, and maximum size of their records in bytes.
const READ_AT_ONCE: usize = 256;
const READ_BYTES: usize = 1 << 20;

/// Query parameters of a job list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// States separated by commas; `all`; `active` (default: not ended); `ended`.
    pub state: Option<String>,
    /// Only jobs of this user.
    pub user: Option<String>,
    /// Only jobs of this project and all projects below it.
    pub project: Option<String>,
    /// Only jobs with exactly this name. Only admins see the names of other users' jobs.
    pub name: Option<String>,
    /// Only jobs of the group with this name. Only admins see the groups of other users.
    pub group: Option<String>,
    /// If true, lists only the first of the jobs of a group that have not ended, with `group`.
    pub fold_groups: Option<bool>,
    /// Only jobs that ended at or after this time.
    pub ended_since: Option<Time>,
    /// Only jobs that ended before this time.
    pub ended_until: Option<Time>,
    /// If true, also lists active array elements one by one.
    pub elements: Option<bool>,
    /// Maximum number of jobs on the page. Default: 200.
    #[param(minimum = 1, maximum = 10_000)]
    pub limit: Option<u32>,
    /// Start of the page: `next_cursor` of the previous page.
    pub cursor: Option<String>,
}

/// The start of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cursor {
    /// The first live job after this one.
    Living(Option<JobId>),
    /// The last ended job before this number.
    Ended(Option<JobNumber>),
}

#[derive(Debug, Clone)]
struct Filter {
    states: BTreeSet<JobState>,
    user: Option<String>,
    /// One of these projects; empty means any.
    projects: BTreeSet<String>,
    name: Option<String>,
    group: Option<String>,
    folds_groups: bool,
    since: Option<Time>,
    until: Option<Time>,
    elements: bool,
    /// The caller may see only the names of this user's jobs; `None`: of all jobs.
    sees_only: Option<u32>,
}

impl Filter {
    async fn of(
        api: &Api,
        asker: &Asker,
        params: &ListParams,
        states_default: &str,
    ) -> Result<Self, Refusal> {
        let projects = match params.project.clone() {
            Some(name) => {
                let below = move |view: &View<'_>| with_below(view.world, name);
                api.handle.look(asker.caller.owner.uid, Age::New, below).await?
            }
            None => BTreeSet::new(),
        };
        Ok(Self {
            states: states(Some(params.state.as_deref().unwrap_or(states_default)))?,
            user: params.user.clone(),
            projects,
            name: params.name.clone(),
            group: params.group.clone(),
            folds_groups: params.fold_groups.unwrap_or(false),
            since: params.ended_since,
            until: params.ended_until,
            elements: params.elements.unwrap_or(false),
            sees_only: (!asker.caller.admin).then_some(asker.caller.owner.uid),
        })
    }

    /// Returns the filter for the archive; `None` if no archived job can match.
    fn of_archive(&self, asker: &Asker) -> Option<ArchiveFilter> {
        let mut user = self.user.clone();
        if (self.name.is_some() || self.group.is_some()) && self.sees_only.is_some() {
            let own = asker.caller.owner.user.to_string();
            if user.as_ref().is_some_and(|user| *user != own) {
                return None;
            }
            user = Some(own);
        }
        let wanted = self.states.iter().filter(|state| state.is_end());
        let archive = ArchiveFilter {
            user,
            projects: self.projects.iter().cloned().collect(),
            name: self.name.clone(),
            group: self.group.clone(),
            states: wanted.map(|state| state.as_str().to_owned()).collect(),
            since: self.since.map(|since| since.0),
            until: self.until.map(|until| until.0),
            ..ArchiveFilter::default()
        };
        Some(archive).filter(|archive| !archive.states.is_empty())
    }

    /// An array has the states of all its elements.
    fn lets_through(&self, world: &World, row: &JobRow) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        let spec = &row.spec;
        let is_open = self.name.is_none() && self.group.is_none();
        let seen = is_open || self.sees_only.is_none_or(|uid| spec.owner.uid == uid);
        let group = spec.part_of.as_ref().map_or("", |place| &place.name);
        let is_in = || match elements::counts(world, row) {
            None => self.states.contains(&row.job.phase.state()),
            Some(counts) => {
                counts.keys().any(|state| !state.is_end() && self.states.contains(state))
            }
        };
        self.since.is_none()
            && self.until.is_none()
            && (self.elements || row.job.id.element.is_none())
            && is_in()
            && is(&self.user, &spec.owner.user)
            && (self.projects.is_empty() || self.projects.contains(spec.project.as_str()))
            && seen
            && is(&self.name, &spec.name)
            && is(&self.group, group)
    }

    /// Whether the job has a row of its own: not if another job of its group has that row.
    fn has_row(&self, world: &World, row: &JobRow, folding: &Folding) -> bool {
        let lists = |row: &JobRow| self.lets_through(world, row);
        lists(row) && (!self.folds_groups || folding.shows(world, row, lists))
    }

    /// The group that the row of a job stands for.
    fn group_of(&self, world: &World, row: &JobRow) -> Option<GroupStatus> {
        let lists = |row: &JobRow| self.lets_through(world, row);
        self.folds_groups.then(|| groups::status(world, row, lists)).flatten()
    }

    fn is_by_state_only(&self) -> bool {
        let is_any_time = self.since.is_none() && self.until.is_none();
        let is_any_job = self.user.is_none() && self.name.is_none() && self.group.is_none();
        is_any_job && self.projects.is_empty() && is_any_time
    }
}

/// Returns a project and all projects below it, by name.
fn with_below(world: &World, name: String) -> BTreeSet<String> {
    let mut found = BTreeSet::from([name]);
    // Each round adds one level of projects.
    loop {
        let n_before = found.len();
        for project in world.projects().values() {
            if project.parent.as_ref().is_some_and(|parent| found.contains(parent.as_str())) {
                found.insert(project.name.to_string());
            }
        }
        if found.len() == n_before {
            return found;
        }
    }
}

/// Returns one page of a list.
pub(crate) async fn page(
    api: &Api,
    asker: &Arc<Asker>,
    params: ListParams,
) -> Result<Response, ApiError> {
    let limit = limit(params.limit)?;
    let cursor = params.cursor.as_deref().map_or(Ok(Cursor::Living(None)), cursor_of)?;
    let filter = Arc::new(Filter::of(api, asker, &params, "active").await?);
    let (api, asker) = (api.clone(), Arc::clone(asker));
    let (listed, folding) = (Listed::default(), Folding::default());
    let mut is_first = true;
    let make = move |place: Cursor, room: Room| -> Making<Cursor> {
        let (api, asker, filter) = (api.clone(), Arc::clone(&asker), Arc::clone(&filter));
        let (listed, folding) = (listed.clone(), folding.clone());
        let is_first = std::mem::replace(&mut is_first, false);
        Box::pin(async move {
            let uid = asker.caller.owner.uid;
            let age = if is_first { Age::New } else { Age::Last };
            let handle = api.handle.clone();
            match place {
                Cursor::Living(after) => {
                    let look = move |view: &View<'_>| {
                        let (filter, asker) = (&filter, &asker);
                        let pass = Pass { handle: &handle, filter, asker, listed, folding };
                        let mut piece = living(view, &pass, after, room);
                        piece.total = if is_first { total(view, filter) } else { None };
                        piece
                    };
                    api.handle.look(uid, age, look).await
                }
                Cursor::Ended(before) => {
                    let counted = Arc::clone(&filter);
                    let count = move |view: &View<'_>| total(view, &counted);
                    let total = match is_first && filter.is_by_state_only() {
                        true => api.handle.look(uid, age, count).await?,
                        false => None,
                    };
                    let read = move || {
                        let (filter, asker) = (&filter, &asker);
                        let pass = Pass { handle: &handle, filter, asker, listed, folding };
                        ended(&pass, before, room)
                    };
                    let mut piece = api.handle.run_slow(uid, read).await?;
                    piece.total = total;
                    Ok(piece)
                }
            }
        })
    };
    page::answer(cursor, limit, in_text, Box::new(make)).await
}

/// The live jobs that one answer has listed. It reads the archive later, so a job that ends in
/// between is in both.
#[derive(Clone, Default)]
struct Listed(Arc<Mutex<HashSet<JobId>>>);

impl Listed {
    fn add(&self, id: JobId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    fn has(&self, id: JobId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }
}

/// Shared data of the pieces of one answer.
struct Pass<'a> {
    handle: &'a CoreHandle,
    filter: &'a Filter,
    asker: &'a Asker,
    listed: Listed,
    folding: Folding,
}

fn living(view: &View<'_>, pass: &Pass<'_>, after: Option<JobId>, room: Room) -> Piece<Cursor> {
    let Pass { handle, filter, asker, listed, folding } = pass;
    let mut piece = Piece::new(room);
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let rows = view.world.jobs().range((from, Bound::Unbounded)).map(|(_, row)| row);
    let mut last = after;
    let explainer = view.explainer();
    for row in rows.filter(|row| filter.has_row(view.world, row, folding)) {
        let shown = || {
            let reasons = explainer.decisive(row, Reason::LISTED_MAX);
            let elements = elements::together(view.world, row, view.now);
            let (eta, planned_at) = (handle.eta_of(&row.job), view.planned_at(row.job.id));
            let nodes = found::shared_nodes(view, row);
            let is_in_plan = eta.is_some() || !row.job.phase.allocations().is_empty();
            let found = FoundJob {
                eta,
                planned_at,
                elements,
                nodes,
                expected_run: found::expected_run(view, row).filter(|_| is_in_plan),
                group: filter.group_of(view.world, row),
                ..FoundJob::waiting(row, reasons)
            };
            found.for_caller(asker, view.now)
        };
        if piece.is_full() || !piece.add(&shown()) {
            piece.next = Some(Cursor::Living(last));
            return piece;
        }
        last = Some(row.job.id);
        listed.add(row.job.id);
    }
    let wants_ended = filter.states.iter().any(|state| state.is_end());
    piece.next = wants_ended.then_some(Cursor::Ended(None));
    piece
}

/// Returns the number of jobs on all pages, if the count is cheap.
fn total(view: &View<'_>, filter: &Filter) -> Option<u64> {
    if !filter.is_by_state_only() {
        return None;
    }
    let n_by_state = view.world.n_by_state();
    let one_by_one = || {
        let (rows, folding) = (view.world.job_rows(), Folding::default());
        rows.filter(|row| filter.has_row(view.world, row, &folding)).count() as u64
    };
    let n_living = if view.world.n_arrays() > 0 || (filter.folds_groups && view.world.has_groups())
    {
        one_by_one()
    } else {
        filter.states.iter().filter_map(|state| n_by_state.get(state)).sum::<u64>()
    };
    match filter.states.iter().filter(|state| state.is_end()).count() {
        0 => Some(n_living),
        n if n == JobState::ALL.iter().filter(|state| state.is_end()).count() => {
            Some(n_living + n_ended(view))
        }
        _ => None,
    }
}

/// Returns the number of ended jobs: all submitted jobs that are not live.
pub(crate) fn n_ended(view: &View<'_>) -> u64 {
    view.world.cluster().n_jobs().saturating_sub(view.world.n_live_jobs() as u64)
}

fn ended(pass: &Pass<'_>, before: Option<JobNumber>, room: Room) -> Result<Piece<Cursor>, Refusal> {
    let Pass { handle, filter, asker, listed, .. } = pass;
    let mut piece = Piece::new(room);
    let Some(archive) = filter.of_archive(asker) else { return Ok(piece) };
    let limit = u32::try_from(piece.n_left().min(READ_AT_ONCE) + 1).unwrap_or(u32::MAX);
    let archive = ArchiveFilter { before, limit, bytes_max: Some(READ_BYTES), ..archive };
    let rows = handle.open_reader()?.archive(&archive).map_err(internal)?;
    let now = gpool_server::clock::now();
    let mut last = before;
    for row in &rows {
        let ended = codec::decode_ended(row).map_err(internal)?;
        if listed.has(ended.id()) {
            last = Some(row.job);
            continue;
        }
        if piece.is_full() || !piece.add(&FoundJob::of_ended(ended).for_caller(asker, now)) {
            piece.next = Some(Cursor::Ended(last));
            return Ok(piece);
        }
        last = Some(row.job);
    }
    // The read also stops at a size limit.
    let n_bytes: usize = rows.iter().map(|row| row.body.len()).sum();
    let is_cut = rows.len() as u64 == u64::from(limit) || n_bytes >= READ_BYTES;
    piece.next = is_cut.then_some(Cursor::Ended(last));
    Ok(piece)
}

/// Returns the filter for ended jobs; `None` if no job can match.
pub(crate) async fn archive_filter(
    api: &Api,
    asker: &Asker,
    params: &ListParams,
) -> Result<Option<ArchiveFilter>, Refusal> {
    // Totals cover all jobs, but an invalid limit is still an error.
    limit(params.limit)?;
    Ok(Filter::of(api, asker, params, "ended").await?.of_archive(asker))
}

fn invalid(field: &str, why: String) -> Refusal {
    Refusal::Invalid { field: field.to_owned(), why }
}

pub(crate) fn limit(asked: Option<u32>) -> Result<usize, Refusal> {
    let limit = asked.unwrap_or(LIMIT_DEFAULT);
    if (1..=LIMIT_MAX).contains(&limit) {
        return Ok(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    Err(invalid("limit", format!("{limit} is not between 1 and {LIMIT_MAX}")))
}

pub(crate) fn states(asked: Option<&str>) -> Result<BTreeSet<JobState>, Refusal> {
    let mut states = BTreeSet::new();
    for word in asked.unwrap_or("active").split(',').map(str::trim) {
        match word {
            "all" => states.extend(JobState::ALL),
            "active" => states.extend(JobState::ALL.into_iter().filter(|state| !state.is_end())),
            "ended" => states.extend(JobState::ALL.into_iter().filter(|state| state.is_end())),
            word => match JobState::ALL.into_iter().find(|state| state.as_str() == word) {
                Some(state) => drop(states.insert(state)),
                None => return Err(no_state(word)),
            },
        }
    }
    Ok(states)
}

fn no_state(word: &str) -> Refusal {
    let mut known = vec!["all", "active", "ended"];
    known.extend(JobState::ALL.map(JobState::as_str));
    let shown: String = word.chars().take(40).collect();
    let why = match json::nearest(word, known.iter().copied()) {
        Some(near) => format!("{shown:?} is not a state; did you mean {near}?"),
        None => format!("{shown:?} is not a state; the states are {}", known.join(", ")),
    };
    invalid("state", why)
}

pub(crate) fn cursor_of(text: &str) -> Result<Cursor, Refusal> {
    let bad = || invalid("cursor", "it is not the next_cursor of a page".to_owned());
    match text.split_once(':').ok_or_else(bad)? {
        ("living", id) => id.parse().map(|id| Cursor::Living(Some(id))).map_err(|_| bad()),
        ("ended", "") => Ok(Cursor::Ended(None)),
        ("ended", number) => {
            number.parse().map(|n| Cursor::Ended(Some(JobNumber(n)))).map_err(|_| bad())
        }
        _ => Err(bad()),
    }
}

pub(crate) fn in_text(cursor: Cursor) -> String {
    match cursor {
        Cursor::Living(None) => "living:0".to_owned(),
        Cursor::Living(Some(id)) => format!("living:{id}"),
        Cursor::Ended(None) => "ended:".to_owned(),
        Cursor::Ended(Some(number)) => format!("ended:{number}"),
    }
}
