//! Digests of projects and users: their use of GPUs over a week, from the history of utilization
//! and the archive of jobs. The state machine sends each once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_control::project_tree;
use gpool_history::{Dimension, ReportQuery, Span, Totals};
use gpool_model::budget::Payer;
use gpool_model::payer_news::{Digest, Waits, WastefulJob};
use gpool_model::record::EndedJob;
use gpool_model::{
    Command, GpuTime, JobId, MilliGpu, Millis, Outcome, Phase, Policy, ProjectName, Refusal,
    Timestamp,
};
use gpool_store::{ArchiveFilter, Reader};
use gpool_wire::show::JobFacts;
use gpool_wire::{Job, Time};
use gpool_world::JobRow;
use jiff::ToSpan as _;
use jiff::tz::TimeZone;

use crate::budgets::{self, Projects, money};
use crate::fault::internal;
use crate::handle::{CoreHandle, server_itself};
use crate::view::View;
use gpool_insight::usage::cost::{self, Priced};
use gpool_insight::usage::wasted::{self, Wasted, largest};
use gpool_insight::usage::{UsageHistory, minute_of};
use gpool_journal::codec;

/// The length of the range of a digest.
const WEEK: Millis = Millis::from_hours(24 * 7);
/// The hour of a Monday at which a week ends, in the time zone of the server.
const HOUR: i8 = 8;
/// Ended jobs that are read at once, and the bytes of their records.
const PAGE: u32 = 1_000;
const PAGE_BYTES: usize = 4 << 20;
/// Ended jobs that are read for one digest, newest first.
const READ_MAX: u64 = 200_000;

/// Reports the last week of each project and user with a subscription that did not get it yet.
///
/// # Errors
/// The history or the archive cannot be read, or the server is stopping.
pub async fn report(handle: &CoreHandle, now: Timestamp, zone: &TimeZone) -> Result<(), Refusal> {
    let Some(to) = week_end(now, zone) else { return Ok(()) };
    let look = move |view: &View<'_>| -> Vec<Payer> {
        let waits = view.world.subscriptions().values().filter(|it| it.awaits_digest(to));
        waits.map(|it| it.payer.clone()).collect()
    };
    let mut all = Vec::new();
    for payer in handle.query(look).await? {
        all.push(of(handle, payer, to).await?);
    }
    if !all.is_empty() {
        handle.command(server_itself(handle), Command::ReportDigests { all }).await?;
    }
    Ok(())
}

/// Returns the last Monday 08:00 up to a time.
#[must_use]
pub fn week_end(now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let millis = i64::try_from(now.get()).ok()?;
    let local = jiff::Timestamp::from_millisecond(millis).ok()?.to_zoned(zone.clone());
    let monday = i64::from(local.weekday().to_monday_zero_offset());
    let end_of = |days: i64| {
        let day = local.date().checked_sub(days.days()).ok()?;
        let end = day.at(HOUR, 0, 0, 0).to_zoned(zone.clone()).ok()?;
        u64::try_from(end.timestamp().as_millisecond()).ok().map(Timestamp::new)
    };
    end_of(monday).filter(|end| *end <= now).or_else(|| end_of(monday + 7))
}

/// Returns the digest of the week up to a time.
///
/// # Errors
/// The history or the archive cannot be read, or the server is stopping.
pub async fn of(handle: &CoreHandle, payer: Payer, to: Timestamp) -> Result<Digest, Refusal> {
    let look = |view: &View<'_>| {
        let runs = view.world.jobs().values().filter(|it| !it.job.phase.allocations().is_empty());
        let running: Vec<Arc<JobRow>> = runs.cloned().collect();
        (view.world.policy().clone(), view.world.projects().clone(), running, view.now)
    };
    let (policy, projects, running, now) = handle.query(look).await?;
    let uid = server_itself(handle).owner.uid;
    let handle_there = handle.clone();
    let read = move || {
        let from = Timestamp::new(to.get().saturating_sub(WEEK.get()));
        let books = Books { policy, projects, payer };
        let mut digest = books.spent(&handle_there.shared.insight.usage, (from, to))?;
        let reader = handle_there.open_reader()?;
        let mut jobs = books.ended(&reader, (from, to))?;
        jobs.run(&handle_there.shared.insight.usage, &books, &running, now)?;
        jobs.add_to(&mut digest, now);
        Ok(digest)
    };
    handle.run_slow(uid, read).await
}

/// The data that all parts of a digest need.
struct Books {
    policy: Policy,
    projects: Projects,
    payer: Payer,
}

impl Books {
    /// Whether a job with this user and project counts.
    fn has(&self, user: &str, project: &ProjectName) -> bool {
        match &self.payer {
            Payer::User(name) => **name == *user,
            Payer::Project(name) => self.is_below(project, name),
        }
    }

    /// Whether a project is another one, or below it.
    fn is_below(&self, project: &ProjectName, top: &ProjectName) -> bool {
        let found = self.projects.get(project);
        found.is_some_and(|it| {
            project_tree::upwards(&self.projects, it).any(|above| above.name == *top)
        })
    }

    /// GPU time and cost of a range, without jobs. Processes that gpool did not start count for
    /// nothing, as for budgets.
    fn spent(
        &self,
        store: &UsageHistory,
        (from, to): (Timestamp, Timestamp),
    ) -> Result<Digest, Refusal> {
        let by = match self.payer {
            Payer::Project(_) => Dimension::Project,
            Payer::User(_) => Dimension::User,
        };
        // At a full hour, the next hour does not count.
        let last = minute_of(Timestamp::new(to.get().saturating_sub(1)));
        let span = Span { from: minute_of(from), to: last.after(1) };
        let report = ReportQuery { span, step: None, by: &[by], only: &[], n_groups: usize::MAX };
        let (mut totals, mut cost) = (Totals::default(), 0.0);
        for Priced { row, currency, sum } in cost::report(store, &self.policy, &report)? {
            let Some(name) = row.names.and_then(|names| names.into_iter().next()) else { continue };
            let is_ours = match &self.payer {
                Payer::User(user) => **user == *name,
                Payer::Project(top) => self.is_below(&ProjectName::new(name), top),
            };
            if row.is_outside || !is_ours {
                continue;
            }
            totals += row.totals;
            if currency == self.policy.prices.currency {
                cost += sum.all();
            }
        }
        let has_prices = !self.policy.prices.is_none();
        let months = budgets::spending(store, &self.policy, &self.projects)?;
        let is_measured = totals.busy_of_ms > 0;
        let idle_ms = totals.busy_of_ms.saturating_sub(totals.busy_ms);
        Ok(Digest {
            payer: self.payer.clone(),
            from,
            to,
            allocated: gpu_time(totals.allocated_ms),
            busy: is_measured.then(|| gpu_time(totals.busy_ms)),
            idle: is_measured.then(|| gpu_time(idle_ms)),
            cost: has_prices.then(|| money(cost)),
            currency: Arc::from(self.policy.prices.currency.as_str()),
            month: months.into_iter().find(|it| it.payer == self.payer),
            n_ended: 0,
            n_failed: 0,
            waits: None,
            wasteful: Vec::new(),
        })
    }

    /// The jobs that ended in a range.
    fn ended(&self, reader: &Reader, (from, to): (Timestamp, Timestamp)) -> Result<Jobs, Refusal> {
        let mut jobs = Jobs::default();
        let (user, projects) = match &self.payer {
            Payer::User(name) => (Some(name.to_string()), Vec::new()),
            Payer::Project(_) => {
                let names = self.projects.keys().filter(|name| self.has("", name));
                (None, names.map(ToString::to_string).collect::<Vec<_>>())
            }
        };
        // No project would mean all: it was deleted just now.
        if user.is_none() && projects.is_empty() {
            return Ok(jobs);
        }
        jobs.shows_names = user.is_some();
        let mut filter = ArchiveFilter {
            user,
            projects,
            since: Some(from),
            until: Some(to),
            limit: PAGE,
            bytes_max: Some(PAGE_BYTES),
            ..ArchiveFilter::default()
        };
        loop {
            let rows = reader.archive(&filter).map_err(internal)?;
            let Some(last) = rows.last().filter(|_| jobs.n_ended < READ_MAX) else {
                return Ok(jobs);
            };
            filter.before = Some(last.job);
            for row in &rows {
                jobs.add(codec::decode_ended(row).map_err(internal)?);
            }
            jobs.keep_largest();
        }
    }
}

#[derive(Default)]
struct Jobs {
    n_ended: u64,
    n_failed: u64,
    waits: Vec<Millis>,
    wasted: Vec<Wasted>,
    /// Those among the wasteful jobs.
    found: BTreeMap<JobId, EndedJob>,
    /// Whether the readers of the digest may see names of jobs.
    shows_names: bool,
}

impl Jobs {
    fn add(&mut self, ended: EndedJob) {
        let Phase::Ended(end) = &ended.job.phase else { return };
        self.n_ended += 1;
        let failed = matches!(end.outcome, Outcome::Failed | Outcome::TimedOut | Outcome::Lost);
        self.n_failed += u64::from(failed);
        if let Some(started_at) = end.started_at {
            self.waits.push(started_at.since(ended.spec.submitted_at));
        }
        if let Some(wasted) = Wasted::of_ended(&ended) {
            self.wasted.push(wasted);
            self.found.insert(wasted.job, ended);
        }
    }

    /// Adds the jobs that run now.
    fn run(
        &mut self,
        store: &UsageHistory,
        books: &Books,
        rows: &[Arc<JobRow>],
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let ours = |row: &&Arc<JobRow>| books.has(&row.spec.owner.user, &row.spec.project);
        let ours: Vec<&JobRow> = rows.iter().filter(ours).map(|row| &**row).collect();
        let running = wasted::running(ours.iter().copied(), now);
        self.wasted.extend(wasted::measured(store, running)?);
        for row in ours {
            let job = EndedJob { spec: Arc::clone(&row.spec), job: row.job.clone() };
            self.found.insert(job.id(), job);
        }
        self.keep_largest();
        Ok(())
    }

    fn keep_largest(&mut self) {
        largest(&mut self.wasted, Digest::WASTEFUL_MAX);
        let kept: BTreeSet<JobId> = self.wasted.iter().map(|it| it.job).collect();
        self.found.retain(|id, _| kept.contains(id));
    }

    fn add_to(mut self, digest: &mut Digest, now: Timestamp) {
        (digest.n_ended, digest.n_failed) = (self.n_ended, self.n_failed);
        self.waits.sort_unstable();
        let middle = self.waits.get(self.waits.len() / 2).copied();
        digest.waits =
            middle.zip(self.waits.last()).map(|(median, it)| Waits { median, longest: *it });
        let wasted = self.wasted.iter().filter(|it| it.idle > 0.0);
        let job = |it: &Wasted| Some(self.wasteful(it, self.found.get(&it.job)?, now));
        digest.wasteful = wasted.filter_map(job).collect();
    }

    fn wasteful(&self, wasted: &Wasted, found: &EndedJob, now: Timestamp) -> WastefulJob {
        let (spec, job) = (&found.spec, &found.job);
        // The hints have numbers alone, so every reader may see them.
        let shown = Job::new(spec, job, now, &JobFacts::default());
        let hints = gpool_wire::Report::new(shown, Time(now)).hints;
        let enough = hints.iter().filter_map(|hint| hint.flags.as_deref().map(Arc::from));
        WastefulJob {
            job: wasted.job,
            name: self.shows_names.then(|| Arc::clone(&spec.name)),
            user: Arc::clone(&spec.owner.user),
            held: wasted.time,
            idle: idle(wasted.idle),
            unused: hints.iter().map(|hint| Arc::from(hint.text.as_str())).collect(),
            enough: enough.collect(),
        }
    }
}

/// Milliseconds of one GPU.
fn gpu_time(ms: u64) -> GpuTime {
    GpuTime::of(MilliGpu::DEVICE, Millis::new(ms))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
fn idle(time: f64) -> GpuTime {
    GpuTime::new(time.round() as u64)
}
