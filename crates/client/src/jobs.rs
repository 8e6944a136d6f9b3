//! Jobs: one method for each route.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;

use gpool_wire::array::Retried;
use gpool_wire::job_metrics::{ElementMetrics, JobMetrics};
use gpool_wire::why::Forecast;
use gpool_wire::{
    BulkAnswer, Document, IDEMPOTENCY_KEY, Job, JobChanged, JobCreate, JobEvent, JobPatch,
    JobScript, JobVerb, List, Report, Time, Totals, Why, verb,
};

use crate::call::{Call, Client, escaped, of_job};
use crate::error::Error;
use crate::logs::{LogQuery, Logs};

/// The jobs to list; a `None` field does not filter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobsQuery {
    /// States, separated by commas; `all` for every state. `None`: jobs that have not ended.
    pub state: Option<String>,
    /// Jobs of this user.
    pub user: Option<String>,
    /// Jobs of this project.
    pub project: Option<String>,
    /// Jobs with this name.
    pub name: Option<String>,
    /// Jobs of groups with this name.
    pub group: Option<String>,
    /// Whether to list only the first job of each group.
    pub fold_groups: bool,
    /// Jobs that ended at this time or later.
    pub ended_since: Option<Time>,
    /// Jobs that ended before this time.
    pub ended_until: Option<Time>,
    /// Most jobs on a page.
    pub limit: Option<u32>,
    /// The start of the page: `next_cursor` of the page before.
    pub cursor: Option<String>,
    /// Whether to list array elements in transitional states too.
    pub elements: bool,
}

/// All jobs of a query, see [`Client::every_job`].
#[derive(Debug)]
pub struct EveryJob<'c> {
    client: &'c Client,
    query: JobsQuery,
    page: std::vec::IntoIter<Job>,
    is_last: bool,
    /// Jobs that were listed as not ended: one that ends before the pages of ended jobs are read is
    /// on those too.
    living: HashSet<String>,
}

impl Iterator for EveryJob<'_> {
    type Item = Result<Job, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(job) = self.page.next() {
                if !job.state.is_end() {
                    self.living.insert(job.id.clone());
                } else if self.living.contains(&job.id) {
                    continue;
                }
                return Some(Ok(job));
            }
            if self.is_last {
                return None;
            }
            match self.client.jobs(&self.query) {
                Ok(page) => {
                    self.page = page.items.into_iter();
                    self.is_last = page.next_cursor.is_none();
                    self.query.cursor = page.next_cursor;
                }
                Err(error) => {
                    self.is_last = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Makes a unique key for a create request, so that it can be repeated.
#[must_use]
pub fn new_key() -> String {
    // The standard library seeds each `RandomState` from the system's randomness.
    let word = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", word(), word())
}

impl Client {
    /// A page of jobs: living jobs in the order of their IDs, then ended ones, the newest first. A
    /// page has at most 8 MiB, so it may end before `limit`, with the cursor of the next page.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn jobs(&self, query: &JobsQuery) -> Result<List<Job>, Error> {
        let call = narrowed(Call::get("/jobs"), query)
            .query_if("limit", query.limit)
            .query_if("cursor", query.cursor.as_ref())
            .query_if("elements", query.elements.then_some(true))
            .query_if("fold_groups", query.fold_groups.then_some(true));
        self.ask(&call)
    }

    /// All jobs of a query, from its cursor on, each once. It reads page by page, so only one page
    /// is in memory. `limit` is the size of a page.
    #[must_use]
    pub fn every_job(&self, query: JobsQuery) -> EveryJob<'_> {
        let page = Vec::new().into_iter();
        EveryJob { client: self, query, page, is_last: false, living: HashSet::new() }
    }

    /// One job, living or ended.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn job(&self, id: &str) -> Result<Job, Error> {
        self.ask::<Document<_>>(&Call::get(&of_job(id, ""))).map(|answer| answer.body)
    }

    /// Totals over the ended jobs of a query.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn totals(&self, query: &JobsQuery) -> Result<Totals, Error> {
        let call = narrowed(Call::get("/history/totals"), query);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// The resources that a job used, compared with its request.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn report(&self, id: &str) -> Result<Report, Error> {
        self.ask::<Document<_>>(&Call::get(&of_job(id, "/report"))).map(|answer| answer.body)
    }

    /// The last values of the metrics that the elements of an array report.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn element_metrics(&self, array: &str) -> Result<Vec<ElementMetrics>, Error> {
        let list: List<ElementMetrics> =
            self.ask(&Call::get(&of_job(array, "/elements/metrics")))?;
        Ok(list.items)
    }

    /// A job over time: its use of GPUs and hosts, and the metrics that it reports.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn job_metrics(
        &self,
        id: &str,
        since: Option<Time>,
        points: Option<u32>,
    ) -> Result<JobMetrics, Error> {
        let call = Call::get(&of_job(id, "/metrics")).query_if("since", since);
        let call = call.query_if("points", points);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// The events of a job.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn life(&self, id: &str) -> Result<List<JobEvent>, Error> {
        self.ask(&Call::get(&of_job(id, "/events")))
    }

    /// The script of a job, as it was submitted.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn script(&self, id: &str) -> Result<JobScript, Error> {
        self.ask(&Call::get(&of_job(id, "/script")))
    }

    /// When a job will likely start, without changes that would let it start sooner.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn why_briefly(&self, id: &str) -> Result<Why, Error> {
        let call = Call::get(&of_job(id, "/why")).query("alternatives", &false);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// Why a job waits.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn why(&self, id: &str) -> Result<Why, Error> {
        self.ask::<Document<_>>(&Call::get(&of_job(id, "/why"))).map(|answer| answer.body)
    }

    /// Submits a job. With a key the request is retried after a lost connection, and the job is
    /// never submitted twice.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn submit(&self, job: &JobCreate, key: Option<&str>) -> Result<Job, Error> {
        let call = with_key(Call::post("/jobs").json(job), key);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// Forecasts a job as if it were submitted now.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn forecast(&self, job: &JobCreate) -> Result<Forecast, Error> {
        let mut call = Call::post("/jobs").json(job).query("dry_run", &true);
        call.repeatable = true;
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// Submits many jobs, one JSON line each, in one transaction.
    ///
    /// # Errors
    /// [`Error::Problem`] names the first invalid line; nothing was submitted. See [`Error`].
    pub fn submit_many(
        &self,
        lines: &mut dyn Read,
        key: Option<&str>,
    ) -> Result<BulkAnswer, Error> {
        let call = with_key(bulk(), key);
        self.upload::<Document<_>>(&call, lines).map(|answer| answer.body)
    }

    /// Forecasts many jobs as if they were submitted now.
    ///
    /// # Errors
    /// See [`Client::submit_many`].
    pub fn forecast_many(&self, lines: &mut dyn Read) -> Result<List<Forecast>, Error> {
        self.upload(&bulk().query("dry_run", &true), lines)
    }

    /// Applies a verb to jobs, all or none.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn act(&self, verb: JobVerb, ids: &[String]) -> Result<List<JobChanged>, Error> {
        let body = verb::body(verb, ids.to_vec());
        self.ask(&Call::post(&format!("/jobs/{}", verb.name())).json(&body))
    }

    /// Cancels jobs, all or none.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn cancel(&self, ids: &[String]) -> Result<List<JobChanged>, Error> {
        self.act(JobVerb::Cancel, ids)
    }

    /// Elements of an array in some states (`all`, or names with commas), from an index on.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn elements(
        &self,
        array: &str,
        state: &str,
        from: u32,
        limit: u32,
    ) -> Result<List<Job>, Error> {
        let call = Call::get(&of_job(array, "/elements"))
            .query("state", &state)
            .query("from", &from)
            .query("limit", &limit);
        self.ask(&call)
    }

    /// Runs an ended job again, or the elements of an array that did not succeed. The request is
    /// retried after a lost connection, and the job is never submitted twice.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn retry(&self, id: &str) -> Result<Retried, Error> {
        let call = with_key(Call::post(&of_job(id, "/retry")), Some(&new_key()));
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// The same, but the job is held, so that it can be changed before it starts.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn retry_held(&self, id: &str) -> Result<Retried, Error> {
        let call = Call::post(&of_job(id, "/retry")).query("hold", &true);
        let call = with_key(call, Some(&new_key()));
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// Changes a job; with a version, only if the job still has it.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn edit(&self, id: &str, patch: &JobPatch, version: Option<u64>) -> Result<Job, Error> {
        let call = Call::patch(&of_job(id, "")).json(patch);
        let call = match version {
            Some(version) => call.header("if-match", &format!("\"{version}\"")),
            None => call,
        };
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// The raw output of a job; with `follow`, until the job has ended and everything is read. A
    /// followed stream resumes by itself after a lost connection.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn logs(&self, id: &str, query: &LogQuery) -> Result<Logs, Error> {
        Logs::open(self.clone(), id, query.clone())
    }
}

fn narrowed(call: Call, query: &JobsQuery) -> Call {
    call.query_if("state", query.state.as_ref())
        .query_if("user", query.user.as_ref())
        .query_if("project", query.project.as_ref())
        .query_if("name", query.name.as_ref())
        .query_if("group", query.group.as_ref())
        .query_if("ended_since", query.ended_since)
        .query_if("ended_until", query.ended_until)
}

fn bulk() -> Call {
    Call::post("/jobs/bulk").header("content-type", &"application/jsonl")
}

fn with_key(call: Call, key: Option<&str>) -> Call {
    let Some(key) = key else { return call };
    let mut call = call.header(IDEMPOTENCY_KEY, &escaped(key));
    call.repeatable = true;
    call
}
