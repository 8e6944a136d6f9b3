//! The Overview: free GPUs, idle GPUs, waiting jobs.

mod glance;

use std::collections::BTreeMap;

use askama::Template;
use gpool_model::device::DeviceState;
use gpool_wire::budget::BudgetRow;
use gpool_wire::cost::CostRow;
use gpool_wire::usage::{GpuHistory, UsageHistory, UsageRow};
use gpool_wire::{Gpu, Job, Node, Reservation, Status, Time};

use crate::course::{Chart, of_cluster};
use crate::frame::Frame;
use crate::gantt::Gantt;
use crate::heat::Heat;
use crate::jobs::JobTable;
use crate::nodes::{Gpus, is_reserved};
use crate::ranges::RANGES;
use crate::render;
use crate::sort::Order;
use crate::text::{encoded, state, style};

use glance::{GlanceAnswer, answers};

/// More devices than this are not in the table.
const GPUS_MAX: usize = 64;

#[derive(Debug, Clone, Copy)]
pub struct Overview<'a> {
    pub frame: Frame<'a>,
    pub status: &'a Status,
    /// All devices, by node and index.
    pub gpus: &'a [Gpu],
    /// The first jobs that run.
    pub running: &'a [Job],
    /// The first jobs that wait, in the order of the queue.
    pub waiting: &'a [Job],
    /// The jobs of the signed-in user that have not ended.
    pub own: &'a [Job],
    /// Jobs that failed in the last 24 hours, the last one first.
    pub failed: &'a [Job],
    /// GPU time by user in the last 7 days.
    pub users: &'a [UsageRow],
    /// The cost of this month.
    pub cost: &'a [CostRow],
    /// The budgets of this month.
    pub budgets: &'a [BudgetRow],
    /// Active and planned reservations, by start.
    pub reservations: &'a [Reservation],
    pub nodes: &'a [Node],
    /// The GPUs of the cluster in the shown range.
    pub course: &'a UsageHistory,
    /// The utilization of the devices in the shown range.
    pub history: &'a GpuHistory,
    /// The shown range, one of [`RANGES`].
    pub range: &'a str,
    /// The order of the table of devices.
    pub order: Order<'a>,
    pub now: Time,
}

/// The number of devices by state, and of jobs, for the tiles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub n_gpus: u64,
    pub free: u64,
    /// The styles, numbers and names of the other states that devices have.
    pub others: Vec<(&'static str, u64, &'static str)>,
    pub n_waiting: u64,
    pub n_running: u64,
}

impl Counts {
    pub fn of(gpus: &[Gpu], jobs: &BTreeMap<String, u64>) -> Self {
        let n_in = |state| gpus.iter().filter(|gpu| gpu.state == state).count() as u64;
        let n_reserved = gpus.iter().filter(|gpu| is_reserved(gpu)).count() as u64;
        let other = |known| {
            let n = n_in(known);
            let is_usual = matches!(known, DeviceState::Busy | DeviceState::HeldIdle);
            (n > 0 || is_usual).then(|| (style(known), n, state(known)))
        };
        let reserved = (n_reserved > 0).then_some(("soft", n_reserved, "reserved"));
        let sum = |states: &[&str]| states.iter().filter_map(|state| jobs.get(*state)).sum();
        Self {
            n_gpus: gpus.len() as u64,
            free: n_in(DeviceState::Free) - n_reserved,
            others: OTHERS.into_iter().filter_map(other).chain(reserved).collect(),
            n_waiting: sum(&["pending", "waiting", "held"]),
            n_running: sum(&["starting", "running", "stopping", "paused"]),
        }
    }
}

/// The states of devices that are not free.
const OTHERS: [DeviceState; 9] = [
    DeviceState::Busy,
    DeviceState::HeldIdle,
    DeviceState::Divided,
    DeviceState::Unmanaged,
    DeviceState::Unhealthy,
    DeviceState::Lost,
    DeviceState::Unknown,
    DeviceState::Drained,
    DeviceState::NotAllowed,
];

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage<'a> {
    frame: Frame<'a>,
    counts: Counts,
    answers: Vec<GlanceAnswer>,
    own: Option<JobTable>,
    /// All jobs of the user.
    own_page: String,
    trends: Vec<Chart>,
    fault: &'a str,
    plan: Gantt,
    heat: Heat,
    ranges: [(&'static str, bool); RANGES.len()],
    gpus: Gpus,
    n_hidden: usize,
    waiting: JobTable,
    running: JobTable,
    now: String,
    as_of: String,
}

/// The lists of all waiting and of all running jobs.
const WAITING: &str = "/queue?state=pending%2Cwaiting%2Cheld";
const RUNNING: &str = "/queue?state=starting%2Crunning%2Cpaused%2Cstopping";

impl Overview<'_> {
    #[must_use]
    pub fn page(&self) -> String {
        let now = self.now;
        let counts = Counts::of(self.gpus, &self.status.jobs);
        let page = format!("/?range={}", self.range);
        let own = format!("/queue?user={}", encoded(self.frame.user));
        let page = OverviewPage {
            frame: self.frame,
            answers: answers(self, counts.n_waiting),
            counts,
            own: (!self.own.is_empty()).then(|| JobTable::new(self.own, now, "", &own)),
            own_page: format!("{own}&state=all"),
            trends: of_cluster(self.course),
            fault: self.status.store_fault.as_deref().unwrap_or_default(),
            plan: Gantt::new(&[], self.waiting, now),
            heat: Heat::new(self.history),
            ranges: RANGES.map(|(range, _)| (range, range == self.range)),
            gpus: Gpus::new(self.gpus.iter().collect(), GPUS_MAX, now, (self.order, &page)),
            n_hidden: self.gpus.len().saturating_sub(GPUS_MAX),
            waiting: JobTable::new(
                self.waiting,
                now,
                "No job waits: a new job can start at once.",
                WAITING,
            ),
            running: JobTable::running(
                self.running,
                now,
                "No job runs. Submit one with the button above, or with: gpool submit",
                RUNNING,
            ),
            as_of: now.short(),
            now: now.to_string(),
        };
        render(&page)
    }
}
