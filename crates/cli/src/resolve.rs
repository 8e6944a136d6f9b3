//! Finds the ids of referenced jobs with few requests: ids need none, and all references that need
//! a list share one.

use std::collections::{BTreeMap, BTreeSet};

use gpool_client::{Client, JobsQuery};
use gpool_model::JobId;
use gpool_model::job::JobState;
use gpool_wire::{Job, Time};

use crate::errors;
use crate::failure::{Failure, Result};
use crate::reference::Reference;
use crate::render::words;

/// Rows of one page.
pub const PAGE: u32 = 10_000;

/// The jobs that a range, a name or `all` may refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobScope {
    Living,
    /// Jobs in one of these states that have not ended; others are skipped.
    In(&'static [JobState]),
    /// All jobs, also those that have ended.
    Ever,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResolvedJobs {
    /// Their ids in the order given, without repetitions.
    pub ids: Vec<String>,
    /// How many of them are known to belong to other users.
    pub n_of_others: usize,
    /// Jobs of a range or of `all` in other states.
    pub passed_over: BTreeMap<String, JobState>,
    /// Jobs that were referenced one by one.
    pub named: BTreeSet<String>,
    /// References to no job, or to several.
    pub refused: Vec<Failure>,
}

/// Reads all pages of a list of jobs.
pub fn every_job(client: &Client, query: &JobsQuery) -> Result<Vec<Job>> {
    each_job(client, query).collect()
}

/// Reads a list of jobs one by one, with at most one page in memory.
pub fn each_job<'c>(
    client: &'c Client,
    query: &JobsQuery,
) -> impl Iterator<Item = Result<Job>> + use<'c> {
    let query = JobsQuery { limit: Some(PAGE), ..query.clone() };
    client.every_job(query).map(|job| job.map_err(Failure::from))
}

/// Reads elements of an array in some states, from an index on, up to a limit.
pub fn elements(
    client: &Client,
    array: &str,
    states: &str,
    from: u32,
    most: usize,
) -> Result<Vec<Job>> {
    let mut elements = Vec::new();
    each_element(client, array, states, from, most, |job| elements.push(job))?;
    Ok(elements)
}

/// Reads elements one by one, with at most one page in memory.
fn each_element(
    client: &Client,
    array: &str,
    states: &str,
    mut from: u32,
    most: usize,
    mut each: impl FnMut(Job),
) -> Result<()> {
    let mut n_left = most;
    while n_left > 0 {
        let limit = u32::try_from(n_left).unwrap_or(PAGE).min(PAGE);
        let page = client.elements(array, states, from, limit)?;
        n_left = n_left.saturating_sub(page.items.len());
        page.items.into_iter().for_each(&mut each);
        match page.next_cursor.and_then(|cursor| cursor.parse().ok()) {
            Some(next) => from = next,
            None => break,
        }
    }
    Ok(())
}

/// Finds all referenced jobs.
///
/// # Errors
/// There is no such job, several jobs have a name, or the server can't be asked.
pub fn jobs<'r>(
    client: &Client,
    references: impl Iterator<Item = &'r Reference>,
    user: Option<&str>,
    me: &str,
    scope: JobScope,
) -> Result<ResolvedJobs> {
    let mut found = each(client, references, user, me, scope)?;
    match found.refused.is_empty() {
        true => Ok(found),
        false => Err(found.refused.swap_remove(0)),
    }
}

/// Finds the referenced jobs one by one: a reference that is refused does not affect the others.
pub fn each<'r>(
    client: &Client,
    references: impl Iterator<Item = &'r Reference>,
    user: Option<&str>,
    me: &str,
    scope: JobScope,
) -> Result<ResolvedJobs> {
    let passed_over = BTreeMap::new();
    let mut finder = Finder { client, user, me, scope, living: None, mine: None, passed_over };
    let mut found = ResolvedJobs::default();
    let mut seen = BTreeSet::new();
    for reference in references {
        let ids = match finder.find(reference) {
            Ok(ids) => ids,
            Err(failure) if failure.is_about_one() => {
                found.refused.push(failure);
                continue;
            }
            Err(failure) => return Err(failure),
        };
        for (id, owner) in ids {
            if !reference.is_several() {
                found.named.insert(id.clone());
            }
            if seen.insert(id.clone()) {
                found.n_of_others += usize::from(owner.is_some_and(|owner| owner != me));
                found.ids.push(id);
            }
        }
    }
    found.passed_over = finder.passed_over;
    // A job that is also referenced alone is found in any state.
    found.passed_over.retain(|id, _| !seen.contains(id));
    Ok(found)
}

/// Finds the single referenced job, and the attempt if one is named.
///
/// # Errors
/// There is no such job, or there are several.
pub fn one(client: &Client, reference: &Reference, me: &str) -> Result<(String, Option<u32>)> {
    if let Reference::Id { job, attempt } = reference {
        return Ok((job.to_string(), *attempt));
    }
    let found = jobs(client, std::iter::once(reference), None, me, JobScope::Ever)?;
    match found.ids.as_slice() {
        [id] => Ok((id.clone(), None)),
        ids => Err(Failure::new(
            errors::USAGE,
            format!("{reference} is {} jobs; give one job", ids.len()),
        )),
    }
}

/// The fields of a listed job that resolving needs.
#[derive(Debug, Clone)]
struct Listed {
    id: String,
    user: String,
    state: JobState,
    ended_at: Option<Time>,
    index: Option<u32>,
}

impl From<Job> for Listed {
    fn from(job: Job) -> Self {
        let index = job.element.map(|element| element.index);
        Self { id: job.id, user: job.user, state: job.state, ended_at: job.run.ended_at, index }
    }
}

struct Finder<'c> {
    client: &'c Client,
    user: Option<&'c str>,
    me: &'c str,
    scope: JobScope,
    living: Option<Vec<Listed>>,
    mine: Option<Vec<Listed>>,
    passed_over: BTreeMap<String, JobState>,
}

type Owned = (String, Option<String>);

impl Finder<'_> {
    fn find(&mut self, reference: &Reference) -> Result<Vec<Owned>> {
        match reference {
            Reference::Id { job, attempt: None } => Ok(vec![(job.to_string(), None)]),
            Reference::Id { job, attempt: Some(attempt) } => Err(Failure::new(
                errors::USAGE,
                format!("{job}#{attempt} is one run of a job; give the job"),
            )
            .tip(job.to_string())),
            Reference::Range { first, last, step } => self.range(*first, *last, *step),
            Reference::Elements { array, first, last, step } => {
                self.elements(*array, *first, *last, *step)
            }
            Reference::Newest { back } => self.newest(*back),
            Reference::Name(name) => self.named(name),
            Reference::Group(name) => self.group(name),
            Reference::All => self.all(),
        }
    }

    /// Finds the jobs of a range and skips ids without a job in scope: users do not know which ids
    /// exist.
    fn range(&mut self, first: u64, last: u64, step: u64) -> Result<Vec<Owned>> {
        let is_in = |job: &&Listed| {
            let number = job.id.parse::<JobId>().map_or(0, |id| id.number.0);
            (first..=last).contains(&number) && (number - first).is_multiple_of(step)
        };
        let mut jobs: Vec<Listed> = self.in_scope()?.iter().filter(is_in).cloned().collect();
        jobs.sort_by_key(|job| job.id.parse::<JobId>().ok());
        if jobs.is_empty() {
            let living = match self.scope {
                JobScope::Living | JobScope::In(_) => " that has not ended",
                JobScope::Ever => "",
            };
            let what = format!("there is no job from {first} to {last}{living}");
            return Err(no_such_job(what));
        }
        Ok(self.in_state(&jobs))
    }

    /// Finds elements and skips indexes that the array does not have, as for ids.
    fn elements(&mut self, array: u64, first: u32, last: u32, step: u32) -> Result<Vec<Owned>> {
        let states = match self.scope {
            JobScope::Living | JobScope::In(_) => "active",
            JobScope::Ever => "all",
        };
        let most = usize::try_from(last - first).map_or(usize::MAX, |n| n.saturating_add(1));
        let mut found: Vec<Listed> = Vec::new();
        let array_id = array.to_string();
        each_element(self.client, &array_id, states, first, most, |job| found.push(job.into()))?;
        found.retain(|job| {
            let is_in = |index: u32| index <= last && (index - first).is_multiple_of(step);
            job.index.is_some_and(is_in)
        });
        if found.is_empty() {
            let living = if self.scope == JobScope::Ever { "" } else { " that has not ended" };
            let what = format!("job {array} has no element from {first} to {last}{living}");
            return Err(no_such_job(what));
        }
        Ok(self.in_state(&found))
    }

    /// The jobs in a state of the scope; the others are recorded.
    fn in_state(&mut self, jobs: &[Listed]) -> Vec<Owned> {
        let JobScope::In(states) = self.scope else { return jobs.iter().map(owned).collect() };
        let (meant, others): (Vec<&Listed>, Vec<&Listed>) =
            jobs.iter().partition(|job| states.contains(&job.state));
        self.passed_over.extend(others.into_iter().map(|job| (job.id.clone(), job.state)));
        meant.into_iter().map(owned).collect()
    }

    fn newest(&mut self, back: u32) -> Result<Vec<Owned>> {
        let mine = match self.mine.take() {
            Some(mine) => mine,
            None => self.list(Some("all"), Some(self.me), None)?,
        };
        let mut numbers: Vec<JobId> = mine.iter().filter_map(|job| job.id.parse().ok()).collect();
        self.mine = Some(mine);
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        let back = usize::try_from(back).unwrap_or(usize::MAX);
        match numbers.get(back) {
            Some(id) => Ok(vec![(id.to_string(), None)]),
            None => Err(no_such_job(match (numbers.len(), back) {
                (0, _) => "you have no job".to_owned(),
                (n, _) => format!("you have {n} jobs, too few for {back} before the newest"),
            })),
        }
    }

    /// Finds the jobs of a group; those that have ended are skipped as in a range.
    fn group(&mut self, name: &str) -> Result<Vec<Owned>> {
        let state = (self.scope == JobScope::Ever).then_some("all");
        let query = JobsQuery { group: Some(name.to_owned()), ..self.query(state, self.user) };
        let mut jobs: Vec<Listed> = listed(self.client, &query)?;
        jobs.sort_by_key(|job| job.id.parse::<JobId>().ok());
        if jobs.is_empty() {
            let living = if self.scope == JobScope::Ever { "" } else { " that has not ended" };
            return Err(no_such_job(format!("group {name:?} has no job{living}")));
        }
        Ok(self.in_state(&jobs))
    }

    fn named(&mut self, name: &str) -> Result<Vec<Owned>> {
        // A job that has not ended comes first, since names are reused.
        let mut jobs = self.list(None, self.user, Some(name))?;
        if jobs.is_empty() && self.scope == JobScope::Ever {
            jobs = self.list(Some("all"), self.user, Some(name))?;
        }
        match jobs.as_slice() {
            [] if self.scope != JobScope::Ever => Err(self.only_ended(name)?),
            [] => Err(no_such_job(format!("there is no job named {name:?}"))),
            [only] => Ok(vec![owned(only)]),
            several => {
                let ids: Vec<&str> = several.iter().take(20).map(|job| job.id.as_str()).collect();
                let more = if several.len() > 20 { " …" } else { "" };
                let what = format!("{} jobs are named {name:?}", several.len());
                Err(Failure::new(errors::AMBIGUOUS, what)
                    .why(format!("they are {}{more}", ids.join(", ")))
                    .tip("give one by its ID"))
            }
        }
    }

    /// The failure for a name without a living job: whether one ended, how the last one ended, and
    /// how to refer to it.
    fn only_ended(&self, name: &str) -> Result<Failure> {
        let mut ended = self.list(Some("ended"), self.user, Some(name))?;
        ended.sort_by_key(|job| std::cmp::Reverse(job.ended_at));
        let what = format!("there is no job named {name:?} that has not ended");
        let Some(last) = ended.first() else {
            return Ok(no_such_job(format!("there is no job named {name:?}")));
        };
        let at = last.ended_at.map(|at| format!(" at {}", at.short())).unwrap_or_default();
        let more = match ended.len() {
            1 => String::new(),
            n => format!("; {} ended before", words::count(n as u64 - 1, "other")),
        };
        let end = words::state(last.state.as_str());
        let id = &last.id;
        Ok(Failure::new(gpool_wire::catalogue::NO_SUCH_JOB, what)
            .why(format!("job {id} of that name ended{at}: {end}{more}"))
            .tip(format!("gpool show {id}")))
    }

    fn all(&mut self) -> Result<Vec<Owned>> {
        let of = self.user.unwrap_or(self.me).to_owned();
        let is_meant = |job: &&Listed| of == "all" || job.user == of;
        let jobs: Vec<Listed> = match self.scope {
            JobScope::Living | JobScope::In(_) => {
                self.in_scope()?.iter().filter(is_meant).cloned().collect()
            }
            // `all` never includes ended jobs.
            JobScope::Ever => {
                self.list(None, None, None)?.into_iter().filter(|j| is_meant(&j)).collect()
            }
        };
        Ok(self.in_state(&jobs))
    }

    fn in_scope(&mut self) -> Result<&[Listed]> {
        let state = match self.scope {
            JobScope::Living | JobScope::In(_) => None,
            JobScope::Ever => Some("all"),
        };
        let living = match self.living.take() {
            Some(living) => living,
            None => self.list(state, None, None)?,
        };
        Ok(self.living.insert(living))
    }

    fn list(
        &self,
        state: Option<&str>,
        user: Option<&str>,
        name: Option<&str>,
    ) -> Result<Vec<Listed>> {
        let name = name.map(str::to_owned);
        listed(self.client, &JobsQuery { name, ..self.query(state, user) })
    }

    fn query(&self, state: Option<&str>, user: Option<&str>) -> JobsQuery {
        let user = user.filter(|user| *user != "all").map(str::to_owned);
        JobsQuery { state: state.map(str::to_owned), user, ..JobsQuery::default() }
    }
}

fn listed(client: &Client, query: &JobsQuery) -> Result<Vec<Listed>> {
    each_job(client, query).map(|job| job.map(Listed::from)).collect()
}

fn owned(job: &Listed) -> Owned {
    (job.id.clone(), Some(job.user.clone()))
}

fn no_such_job(what: String) -> Failure {
    Failure::new(gpool_wire::catalogue::NO_SUCH_JOB, what).tip("gpool queue --state all")
}
