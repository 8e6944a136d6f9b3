//! Pages of jobs: first those that have not ended, from memory, then those that have, from the
//! archive.

use std::collections::BTreeSet;
use std::ops::Bound;

use gpool_model::job::JobState;
use gpool_model::{JobId, JobNumber, Refusal};
use gpool_store::ArchiveFilter;
use gpool_wire::{List, Time, json};
use gpool_world::{JobRow, World};
use serde::Deserialize;
use utoipa::IntoParams;

use super::Api;
use super::asker::Asker;
use super::jobs::Found;
use crate::elements;
use crate::handle::View;

const LIMIT_DEFAULT: u32 = 200;
const LIMIT_MAX: u32 = 10_000;

/// Which jobs to list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// States separated by commas; `all`; `active` (the default: not ended); `ended`.
    pub state: Option<String>,
    /// Only this user's.
    pub user: Option<String>,
    /// Only this project's, and of all below it.
    pub project: Option<String>,
    /// Only with exactly this name. Names of other users' jobs are seen by admins only.
    pub name: Option<String>,
    /// Only jobs that ended then or later.
    pub ended_since: Option<Time>,
    /// Only jobs that ended before.
    pub ended_until: Option<Time>,
    /// Elements of arrays that are in the middle of something too, each for itself.
    pub elements: Option<bool>,
    /// At most this many; 200 unless given.
    #[param(minimum = 1, maximum = 10_000)]
    pub limit: Option<u32>,
    /// Where the page begins: `next_cursor` of the one before.
    pub cursor: Option<String>,
}

/// Where a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cursor {
    /// With the first living job after this one.
    Living(Option<JobId>),
    /// With the last ended job before this number.
    Ended(Option<JobNumber>),
}

/// What narrows a list.
#[derive(Debug, Clone)]
struct Filter {
    states: BTreeSet<JobState>,
    user: Option<String>,
    /// One of these; empty means any.
    projects: BTreeSet<String>,
    name: Option<String>,
    since: Option<Time>,
    until: Option<Time>,
    elements: bool,
    /// The one who asks may see the names of this user's jobs only; `None`: everybody's.
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
            Some(name) => api.handle.query(move |view| with_below(view.world, name)).await?,
            None => BTreeSet::new(),
        };
        Ok(Self {
            states: states(Some(params.state.as_deref().unwrap_or(states_default)))?,
            user: params.user.clone(),
            projects,
            name: params.name.clone(),
            since: params.ended_since,
            until: params.ended_until,
            elements: params.elements.unwrap_or(false),
            sees_only: (!asker.caller.admin).then_some(asker.caller.owner.uid),
        })
    }

    /// What of the archive is let through; `None` if nothing is.
    fn of_archive(&self, asker: &Asker) -> Option<ArchiveFilter> {
        let mut user = self.user.clone();
        if self.name.is_some() && self.sees_only.is_some() {
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
            states: wanted.map(|state| state.as_str().to_owned()).collect(),
            since: self.since.map(|since| since.0),
            until: self.until.map(|until| until.0),
            ..ArchiveFilter::default()
        };
        Some(archive).filter(|archive| !archive.states.is_empty())
    }

    /// An array is in every state that one of its elements is in.
    fn lets_through(&self, world: &World, row: &JobRow) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        let spec = &row.spec;
        let seen = self.name.is_none() || self.sees_only.is_none_or(|uid| spec.owner.uid == uid);
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
    }

    fn is_by_state_only(&self) -> bool {
        let is_any_time = self.since.is_none() && self.until.is_none();
        self.user.is_none() && self.projects.is_empty() && self.name.is_none() && is_any_time
    }
}

/// A project and all below it, by name.
fn with_below(world: &World, name: String) -> BTreeSet<String> {
    let mut found = BTreeSet::from([name]);
    // Each round finds those one level further down.
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

/// One page of a list.
pub(crate) async fn page(
    api: &Api,
    asker: &Asker,
    params: ListParams,
) -> Result<List<gpool_wire::Job>, Refusal> {
    let limit = limit(params.limit)?;
    let cursor = params.cursor.as_deref().map_or(Ok(Cursor::Living(None)), cursor_of)?;
    let filter = Filter::of(api, asker, &params, "active").await?;
    let wants_ended = filter.states.iter().any(|state| state.is_end());
    let mut page = Page { found: Vec::new(), next: None, total: None };
    let asked = filter.clone();
    match cursor {
        Cursor::Living(after) => {
            page = api.handle.query(move |view| living(view, &asked, after, limit)).await?;
            if page.next.is_none() && wants_ended {
                page.next = Some(Cursor::Ended(None));
            }
        }
        Cursor::Ended(_) => {
            page.total = api.handle.query(move |view| total(view, &asked)).await?;
        }
    }
    let from_archive = match (cursor, page.next) {
        (Cursor::Ended(before), _) | (Cursor::Living(_), Some(Cursor::Ended(before))) => {
            Some(before)
        }
        (Cursor::Living(_), _) => None,
    };
    if let Some(before) = from_archive.filter(|_| page.found.len() < limit) {
        ended(api, asker, &filter, before, limit, &mut page).await?;
    }
    let now = crate::core::now();
    let items = page.found.into_iter().map(|found| {
        let eta = api.handle.eta_of(&found.job);
        Found { eta, ..found }.shown(asker, now)
    });
    let items = items.collect();
    let mut list = List::new(items);
    list.next_cursor = page.next.map(in_text);
    list.total = page.total;
    Ok(list)
}

struct Page {
    found: Vec<Found>,
    next: Option<Cursor>,
    total: Option<u64>,
}

fn living(view: &View<'_>, filter: &Filter, after: Option<JobId>, limit: usize) -> Page {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let rows = view.world.jobs().range((from, Bound::Unbounded)).map(|(_, row)| row);
    let mut rows = rows.filter(|row| filter.lets_through(view.world, row));
    let mut explainer = view.explainer();
    let mut found = Vec::new();
    for row in rows.by_ref().take(limit) {
        let reasons = explainer.briefly(row);
        let elements = elements::together(view.world, row, view.now);
        let (spec, job) = (row.spec.clone(), row.job.clone());
        let planned_at = view.planned_at(job.id);
        found.push(Found { spec, job, reasons, eta: None, planned_at, elements });
    }
    let more = rows.next().is_some();
    let next = found.last().filter(|_| more).map(|last| Cursor::Living(Some(last.job.id)));
    Page { found, next, total: total(view, filter) }
}

/// How many jobs there are on all pages, where counting them costs next to nothing.
fn total(view: &View<'_>, filter: &Filter) -> Option<u64> {
    if !filter.is_by_state_only() {
        return None;
    }
    let n_by_state = view.world.n_by_state();
    let one_by_one = || {
        let rows = view.world.job_rows();
        rows.filter(|row| filter.lets_through(view.world, row)).count() as u64
    };
    let n_living = if view.world.n_arrays() > 0 {
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

/// Jobs that have ended: a job that was taken either lives or has ended.
pub(crate) fn n_ended(view: &View<'_>) -> u64 {
    view.world.cluster().n_jobs().saturating_sub(view.world.n_live_jobs() as u64)
}

async fn ended(
    api: &Api,
    asker: &Asker,
    filter: &Filter,
    before: Option<JobNumber>,
    limit: usize,
    page: &mut Page,
) -> Result<(), Refusal> {
    page.next = None;
    let room = limit - page.found.len();
    let Some(archive) = filter.of_archive(asker) else { return Ok(()) };
    let limit = u32::try_from(room + 1).unwrap_or(u32::MAX);
    let archive = ArchiveFilter { before, limit, ..archive };
    let mut rows = api.handle.archive(archive).await?;
    if rows.len() > room {
        rows.truncate(room);
        page.next = rows.last().map(|last| Cursor::Ended(Some(last.id().number)));
    }
    let rows = rows.into_iter();
    page.found.extend(rows.map(Found::of_ended));
    Ok(())
}

/// Which ended jobs are asked for; `None` if none can be.
pub(crate) async fn archive_filter(
    api: &Api,
    asker: &Asker,
    params: &ListParams,
) -> Result<Option<ArchiveFilter>, Refusal> {
    // It sums up all that there are; a limit that no list takes is a slip here too.
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
        Some(near) => format!("{shown:?} is no state; did you mean {near}?"),
        None => format!("{shown:?} is no state; they are {}", known.join(", ")),
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
