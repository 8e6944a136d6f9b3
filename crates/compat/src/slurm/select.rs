//! Selects jobs by id, user, name and state. Slurm's ids are `7`, `7_4`, `7_[1-3]`, and a plain
//! number for an element of an array (`1073748996`).

use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::ParsedArgs;
use gpool_cli::resolve::every_job;
use gpool_cli::session::Session;
use gpool_client::{Client, JobsQuery};
use gpool_model::{GpuRequest, JobId};
use gpool_wire::{Job, catalogue};

use super::arrays::{self, ArrayExpansion, is_of};
use super::cells::DEFAULT_POOL;
use super::hostlist::parts;
use super::states::{STATES, is_in};
use super::tres::gres_type;

/// Up to this number, named elements of an array are read one by one.
const NAMED_MAX: usize = 50;

/// Most elements in one word.
const ELEMENTS_MAX: u64 = 1_000_000;

/// Parses ids: `7`, `7_4`, `7_[1-3,5]`, `7.batch`, or several separated by commas.
pub fn ids(words: impl Iterator<Item = String>) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for word in words {
        for part in parts(&word) {
            found.extend(id(part).ok_or_else(|| {
                Failure::new(catalogue::INVALID, format!("{part:?} is not a job ID"))
                    .tip("7, 7_4 (of an array) or 7_[1-3]")
            })?);
        }
    }
    Ok(found)
}

fn id(part: &str) -> Option<Vec<String>> {
    // A job step means its job here.
    let part = part.split_once('.').map_or(part, |(job, _)| job);
    let (number, elements) = match part.split_once('_') {
        None => (part, None),
        Some((number, elements)) => (number, Some(elements)),
    };
    let number = number.parse::<u64>().ok().filter(|number| *number > 0)?;
    let Some(elements) = elements else { return Some(vec![JobId::of_plain(number).to_string()]) };
    let elements = elements.trim_start_matches('[').trim_end_matches(']');
    let mut ids = Vec::new();
    for range in elements.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
        if last < first || last - first >= ELEMENTS_MAX {
            return None;
        }
        ids.extend((first..=last).map(|element| format!("{number}.{element}")));
    }
    Some(ids)
}

/// The conditions of a list of jobs.
#[derive(Debug, Default)]
pub struct Filter {
    /// The ids; empty means all.
    pub ids: Vec<String>,
    users: Vec<String>,
    names: Vec<String>,
    accounts: Vec<String>,
    states: Vec<String>,
    nodes: Vec<String>,
    partitions: Vec<String>,
}

impl Filter {
    /// Reads the flags that Slurm's commands share.
    pub fn of(args: &ParsedArgs, ids_from: &str, session: &Session) -> Result<Self> {
        let all =
            |long: &'static str| -> Vec<String> { args.list(long).map(str::to_owned).collect() };
        let mut users = all("user");
        if args.has("me") {
            users.push(session.me().to_owned());
        }
        let states = all("state");
        if let Some(state) =
            states.iter().find(|state| !is_state(state) && !state.eq_ignore_ascii_case("all"))
        {
            return Err(Failure::new(catalogue::INVALID, format!("there is no state {state:?}"))
                .why(format!("the choices are {}", STATES.join(" "))));
        }
        Ok(Self {
            ids: ids(all_of(args, ids_from).into_iter())?,
            users,
            names: all("name"),
            accounts: all("account"),
            states,
            nodes: all("nodelist"),
            partitions: all("partition"),
        })
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        let lists =
            [&self.users, &self.names, &self.accounts, &self.states, &self.nodes, &self.partitions];
        self.ids.is_empty() && lists.iter().all(|list| list.is_empty())
    }

    /// Whether there is a condition on states.
    #[must_use]
    pub fn has_states(&self) -> bool {
        !self.states.is_empty()
    }

    /// Whether there is a condition on users.
    #[must_use]
    pub fn has_users(&self) -> bool {
        !self.users.is_empty()
    }

    /// Selects only jobs of this user.
    pub fn only_user(&mut self, user: &str) {
        self.users.push(user.to_owned());
    }

    #[must_use]
    pub fn takes(&self, job: &Job) -> bool {
        let is_one =
            |list: &[String], value: &str| list.is_empty() || list.iter().any(|v| v == value);
        (self.ids.is_empty() || is_of(job, &self.ids))
            && is_one(&self.users, &job.user)
            && is_one(&self.names, &job.name)
            && is_one(&self.accounts, &job.project)
            && is_one(&self.partitions, job.request.pool.as_deref().unwrap_or(DEFAULT_POOL))
            && (self.states.is_empty() || self.states.iter().any(|state| is_in(job, state)))
            && (self.nodes.is_empty()
                || job.placement.iter().any(|placed| self.nodes.contains(&placed.node)))
    }

    /// The selected jobs, of those that have not ended or of all.
    pub fn jobs(&self, client: &Client, with_ended: bool) -> Result<Vec<Job>> {
        let mut jobs = self.all(client, with_ended)?;
        jobs.retain(|job| self.takes(job));
        Ok(jobs)
    }

    /// The selected rows, with rows of elements in place of arrays.
    pub fn rows(&self, client: &Client, with_ended: bool, is_spread: bool) -> Result<Vec<Job>> {
        let mut rows = Vec::new();
        let mut arrays = self.all(client, with_ended)?;
        let is_array_of = |job: &Job, id: &String| id.split('.').next() == Some(job.id.as_str());
        arrays.retain(|job| self.ids.is_empty() || self.ids.iter().any(|id| is_array_of(job, id)));
        let (arrays, jobs): (Vec<Job>, Vec<Job>) =
            arrays.into_iter().partition(|job| job.array.is_some());
        rows.extend(jobs);
        for array in arrays {
            let named: Vec<&String> =
                self.ids.iter().filter(|id| is_array_of(&array, id)).collect();
            if !named.is_empty()
                && named.len() < NAMED_MAX
                && named.iter().all(|id| **id != array.id)
            {
                for id in named {
                    rows.push(client.job(id)?);
                }
                continue;
            }
            rows.extend(arrays::spread(
                client,
                vec![array],
                ArrayExpansion { with_ended, is_spread },
            )?);
        }
        put_pools(client, &mut rows)?;
        put_models(client, &mut rows)?;
        rows.retain(|job| self.takes(job));
        arrays::in_order(&mut rows);
        Ok(rows)
    }

    fn all(&self, client: &Client, with_ended: bool) -> Result<Vec<Job>> {
        let query = JobsQuery {
            state: with_ended.then(|| "all".to_owned()),
            user: match self.users.as_slice() {
                [only] => Some(only.clone()),
                _ => None,
            },
            ..JobsQuery::default()
        };
        let mut jobs = every_job(client, &query)?;
        put_pools(client, &mut jobs)?;
        Ok(jobs)
    }
}

/// The jobs with these ids; without ids, those that have not ended.
///
/// # Errors
/// There is no such job, or the server can't be asked.
pub fn selected(names: &[String], session: &Session) -> Result<Vec<Job>> {
    let client = session.client()?;
    let filter = Filter { ids: ids(names.iter().cloned())?, ..Filter::default() };
    let rows = filter.rows(&client, !filter.ids.is_empty(), false)?;
    if rows.is_empty() && !filter.ids.is_empty() {
        let what = format!("there is no job {}", filter.ids.join(", "));
        return Err(Failure::new(catalogue::NO_SUCH_JOB, what).tip("sacct -a"));
    }
    Ok(rows)
}

/// Sets the pool of running jobs without one to the pool of their node.
fn put_pools(client: &Client, jobs: &mut [Job]) -> Result<()> {
    let is_unsaid = |job: &Job| job.request.pool.is_none() && !job.placement.is_empty();
    if !jobs.iter().any(is_unsaid) {
        return Ok(());
    }
    let nodes = client.nodes()?.items;
    for job in jobs.iter_mut().filter(|job| is_unsaid(job)) {
        let node = job.placement.first().map(|placed| &placed.node);
        let found = nodes.iter().find(|it| Some(&it.name) == node);
        job.request.pool = found.map(|it| it.pool.clone());
    }
    Ok(())
}

/// Replaces the requested model of jobs that have their GPUs by the name of these, as nodes show
/// it: a request for `h100` can get `h100_80g`.
fn put_models(client: &Client, jobs: &mut [Job]) -> Result<()> {
    let request = |job: &Job| {
        let request = GpuRequest::parse(job.request.gpus_text()).ok()?;
        (!request.models.is_empty() && request.share().is_none()).then_some(request)
    };
    let first = |job: &Job| job.placement.first().and_then(|placed| placed.uuids.first().cloned());
    let is_meant = |job: &Job| first(job).is_some() && request(job).is_some();
    if !jobs.iter().any(is_meant) {
        return Ok(());
    }
    let gpus = client.gpus()?.items;
    for job in jobs {
        let Some((request, uuid)) = request(job).zip(first(job)) else { continue };
        if let Some(gpu) = gpus.iter().find(|gpu| gpu.uuid == uuid) {
            let model = gres_type(&gpu.model_short);
            job.request.gpus = Some(format!("{model}:{}", request.n_devices()));
        }
    }
    Ok(())
}

/// All values of a flag, as written.
fn all_of(args: &ParsedArgs, long: &str) -> Vec<String> {
    args.flags
        .iter()
        .filter(|given| given.flag.long == long)
        .map(|given| given.value.clone())
        .collect()
}

fn is_state(written: &str) -> bool {
    STATES.iter().any(|state| state.eq_ignore_ascii_case(written))
}
