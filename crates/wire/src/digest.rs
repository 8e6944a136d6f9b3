//! The summary of the use of GPUs by a project or user over a week, as data and as text.

use gpool_model::escape::is_unprintable;
use gpool_model::payer_news::{BudgetReached, WastefulJob};
use gpool_model::{Money, payer_news};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::{Time, gpu_hours, seconds, span_of};

/// A summary of the use of GPUs by a project, with the projects below it, or a user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Digest {
    /// `project` or `user`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Start of the range.
    pub from: Time,
    /// End of the range.
    pub to: Time,
    /// Allocated GPUs times hours.
    pub gpu_hours: f64,
    /// GPU hours with running kernels. `null` if not measured.
    pub busy_gpu_hours: Option<f64>,
    /// Measured GPU hours that were allocated without running kernels. `null` if not measured.
    pub idle_gpu_hours: Option<f64>,
    /// Cost of the range. `null` without prices.
    pub cost: Option<f64>,
    /// The currency. `null` without prices.
    pub currency: Option<String>,
    /// The budget and the cost of the present month. `null` without a budget.
    pub month: Option<MonthBudget>,
    /// Number of jobs that ended in the range; an array is one job.
    pub n_ended: u64,
    /// How many of them failed, were lost, or reached their time limit.
    pub n_failed: u64,
    /// Median time from submission to start, in seconds. `null` if none of them started.
    pub median_wait_s: Option<f64>,
    /// Longest time from submission to start, in seconds. `null` if none of them started.
    pub longest_wait_s: Option<f64>,
    /// The jobs with the most unused GPU time, up to three.
    pub jobs: Vec<DigestJob>,
}

/// A budget, and the cost of the month.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MonthBudget {
    /// Start of the month, in UTC.
    pub since: Time,
    /// The currency.
    pub currency: String,
    /// The budget.
    pub budget: f64,
    /// The cost of the month up to now.
    pub spent: f64,
}

impl From<&gpool_model::budget::MonthSpending> for MonthBudget {
    fn from(it: &gpool_model::budget::MonthSpending) -> Self {
        Self {
            since: it.month.into(),
            currency: it.currency.to_string(),
            budget: units(it.budget),
            spent: units(it.spent),
        }
    }
}

impl MonthBudget {
    fn text(&self) -> String {
        let Self { currency, budget, spent, .. } = self;
        format!("{spent:.2} of {budget:.2} {currency}")
    }
}

/// A job with unused GPU time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DigestJob {
    /// ID of the job.
    pub id: String,
    /// Name of the job. `null` in the digest of a project, since names of jobs are private.
    pub name: Option<String>,
    /// User that owns the job.
    pub user: String,
    /// GPUs times hours that it held.
    pub gpu_hours: f64,
    /// GPU hours without running kernels.
    pub idle_gpu_hours: f64,
    /// The unused part of its request, for people.
    pub unused: Vec<String>,
    /// Flags of a request that would have been enough.
    pub enough: Vec<String>,
}

impl From<&WastefulJob> for DigestJob {
    fn from(it: &WastefulJob) -> Self {
        let texts = |all: &[std::sync::Arc<str>]| all.iter().map(ToString::to_string).collect();
        Self {
            id: it.job.to_string(),
            name: it.name.as_deref().map(str::to_owned),
            user: it.user.to_string(),
            gpu_hours: gpu_hours(it.held),
            idle_gpu_hours: gpu_hours(it.idle),
            unused: texts(&it.unused),
            enough: texts(&it.enough),
        }
    }
}

impl From<&payer_news::Digest> for Digest {
    fn from(it: &payer_news::Digest) -> Self {
        Self {
            kind: it.payer.kind().to_owned(),
            name: it.payer.name().to_owned(),
            from: it.from.into(),
            to: it.to.into(),
            gpu_hours: gpu_hours(it.allocated),
            busy_gpu_hours: it.busy.map(gpu_hours),
            idle_gpu_hours: it.idle.map(gpu_hours),
            cost: it.cost.map(units),
            currency: it.cost.map(|_| it.currency.to_string()),
            month: it.month.as_ref().map(MonthBudget::from),
            n_ended: it.n_ended,
            n_failed: it.n_failed,
            median_wait_s: it.waits.map(|waits| seconds(waits.median)),
            longest_wait_s: it.waits.map(|waits| seconds(waits.longest)),
            jobs: it.wasteful.iter().map(DigestJob::from).collect(),
        }
    }
}

impl Digest {
    /// The digest in one line: for the subject of a mail, and for a chat.
    #[must_use]
    pub fn headline(&self) -> String {
        let mut text = format!(
            "{} {} until {}: {:.1} GPU hours",
            self.kind,
            printable(&self.name),
            self.to.short(),
            self.gpu_hours
        );
        if let Some(percent) = self.busy_percent() {
            text.push_str(&format!(", {percent:.0} % busy"));
        }
        if let Some(cost) = self.cost_text() {
            text.push_str(&format!(", {cost}"));
        }
        text.push_str(&format!(", {}", self.ended_text()));
        text
    }

    /// The digest for people, in lines: as `gpool digest` prints it, and as mail has it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut busy = format!("{:.1} allocated", self.gpu_hours);
        if let (Some(hours), Some(percent)) = (self.busy_gpu_hours, self.busy_percent()) {
            busy.push_str(&format!(", {hours:.1} busy ({percent:.0} %)"));
        }
        if let Some(idle) = self.idle_gpu_hours {
            busy.push_str(&format!(", {idle:.1} held idle"));
        }
        let waits = self.median_wait_s.zip(self.longest_wait_s);
        let wait = |seconds: f64| span_of(seconds).to_string();
        let facts = [
            (self.kind.as_str(), Some(printable(&self.name))),
            ("from", Some(self.from.short())),
            ("to", Some(self.to.short())),
            ("GPU hours", Some(busy)),
            ("cost", self.cost_text()),
            ("month", self.month.as_ref().map(|it| format!("{} of the budget", it.text()))),
            ("jobs", Some(self.ended_text())),
            ("waits", waits.map(|(a, b)| format!("median {}, longest {}", wait(a), wait(b)))),
        ];
        let known = facts.into_iter().filter_map(|(label, fact)| Some((label, fact?)));
        let mut text: String = known.map(|(label, fact)| format!("{label:<10} {fact}\n")).collect();
        if !self.jobs.is_empty() {
            text.push_str("\nJobs with the most unused GPU time:\n");
        }
        for job in &self.jobs {
            let name = job.name.as_ref().map(|name| format!(" \"{}\"", printable(name)));
            text.push_str(&format!(
                "- job {}{} of {}: {:.1} of {:.1} GPU hours idle\n",
                job.id,
                name.unwrap_or_default(),
                printable(&job.user),
                job.idle_gpu_hours,
                job.gpu_hours
            ));
            job.unused.iter().for_each(|it| text.push_str(&format!("  {}\n", printable(it))));
            if !job.enough.is_empty() {
                text.push_str(&format!("  enough: {}\n", printable(&job.enough.join(" "))));
            }
        }
        text
    }

    fn busy_percent(&self) -> Option<f64> {
        let (busy, idle) = self.busy_gpu_hours.zip(self.idle_gpu_hours)?;
        (busy + idle > 0.0).then(|| 100.0 * busy / (busy + idle))
    }

    fn cost_text(&self) -> Option<String> {
        let (cost, currency) = self.cost.zip(self.currency.as_ref())?;
        Some(format!("{cost:.2} {currency}"))
    }

    fn ended_text(&self) -> String {
        let jobs = if self.n_ended == 1 { "job" } else { "jobs" };
        format!("{} {jobs} ended, {} failed", self.n_ended, self.n_failed)
    }
}

/// A step of a budget that the cost of the month reached: the `data` of a `budget.reached` message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MessageBudget {
    /// `project` or `user`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The step in percent of the budget: 80 or 100.
    pub percent: u8,
    /// The budget and the cost.
    #[serde(flatten)]
    pub month: MonthBudget,
}

impl From<&BudgetReached> for MessageBudget {
    fn from(it: &BudgetReached) -> Self {
        let payer = &it.spending.payer;
        Self {
            kind: payer.kind().to_owned(),
            name: payer.name().to_owned(),
            percent: it.step.percent(),
            month: MonthBudget::from(&it.spending),
        }
    }
}

impl MessageBudget {
    /// The news in one line: for the subject of a mail, and for a chat.
    #[must_use]
    pub fn headline(&self) -> String {
        let Self { kind, name, percent, month } = self;
        let name = printable(name);
        let month = month.text();
        match percent {
            100 => format!("{kind} {name} has used up the budget of this month: {month}"),
            _ => format!("{kind} {name} has used {percent} % of the budget of this month: {month}"),
        }
    }
}

/// Text of a user in one line.
fn printable(text: &str) -> String {
    text.chars().map(|c| if is_unprintable(c) { '?' } else { c }).collect()
}

/// An amount in units of the currency.
#[expect(clippy::cast_precision_loss, reason = "money for people")]
#[must_use]
pub fn units(money: Money) -> f64 {
    money.get() as f64 / 1e6
}
