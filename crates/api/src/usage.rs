//! GPU time over a range.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use futures_util::future::join_all;
use gpool_history::{
    ChartLine, DeviceSeries, Dimension, Point, ReportQuery, ReportRow, Span, Step,
};
use gpool_model::{DeviceUuid, Millis, NodeName, Refusal, Timestamp};
use gpool_protocol::recent::DevicePoint;
use gpool_wire::usage::{GpuHistory, GpuHistoryParams, GpuPoints, UsageParams, UsageRow};
use gpool_wire::{Document, Gpu, List, Time};

use super::asker::Asks;
use super::cluster::all_gpus;
use super::extract::{ApiError, Params, job_id};
use super::{found, tenure};
use crate::api::Api;
use gpool_insight::usage::grid::{Grid, time_of};
use gpool_insight::usage::minute_of;
use gpool_insight::usage::tenure::{Tenure, within};
use gpool_server::clock::now;
use gpool_server::handle::CoreHandle;

/// The range of reports without a start.
pub(super) const WEEK: Millis = Millis::from_hours(24 * 7);
/// The range of utilization without a start.
const DAY: Millis = Millis::from_hours(24);
/// The largest age of the power in a sample.
const POWER_AGE: Millis = Millis::from_secs(6);
/// Points without a limit, and the most.
const POINTS: u32 = 120;
const POINTS_MAX: u32 = 2000;
/// The series of devices. The first two are the default.
const SERIES: [(&str, DeviceSeries); 4] = [
    ("utilization", DeviceSeries::Utilization),
    ("allocated", DeviceSeries::Allocated),
    ("memory_used", DeviceSeries::MemoryUsed),
    ("power", DeviceSeries::Power),
];
/// Groups without a limit.
const GROUPS: u32 = 1000;
/// The properties that split the time.
const PROPERTIES: [(&str, Dimension); 7] = [
    ("project", Dimension::Project),
    ("user", Dimension::User),
    ("model", Dimension::Model),
    ("kind", Dimension::Kind),
    ("node", Dimension::Node),
    ("pool", Dimension::Pool),
    ("job", Dimension::Job),
];

/// Returns allocated, busy and useful GPU time, by project, user, model, kind, node,
/// pool or job.
#[utoipa::path(
    get, path = "/usage", operation_id = "usage_list", params(UsageParams),
    responses(
        (status = 200, description = "By time, then most GPU time first", body = List<UsageRow>),
        (status = 400, description = "A parameter is not valid", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn usage(
    State(api): State<Api>,
    Asks(asker): Asks,
    Params(params): Params<UsageParams>,
) -> Result<Json<List<UsageRow>>, ApiError> {
    let ask = UsageQuery::read(&params)?;
    let handle = api.handle.clone();
    let read = move || {
        let only = ask.only();
        let rows = handle.shared.insight.usage.report(&ask.report(&only))?;
        Ok(rows.into_iter().map(|it| row(&ask.by, it)).collect())
    };
    let rows = api.handle.run_slow(asker.caller.owner.uid, read).await?;
    Ok(Json(List::new(rows)))
}

/// The parameters of a report of GPU time, read.
pub(super) struct UsageQuery {
    span: Span,
    step: Option<Step>,
    pub by: Vec<Dimension>,
    only: Vec<(Dimension, String)>,
    n_groups: usize,
}

impl UsageQuery {
    /// Reads the parameters.
    pub fn read(params: &UsageParams) -> Result<Self, Refusal> {
        let until = params.until.map_or_else(now, |time| time.0);
        let since = params.since.map_or_else(|| before(until, WEEK), |time| time.0);
        Ok(Self {
            span: Span { from: minute_of(since), to: minute_of(until).after(1) },
            step: step(params.step.as_deref())?,
            by: properties(params.by.as_deref().unwrap_or_default())?,
            only: filters(params.only.as_deref().unwrap_or_default())?,
            n_groups: usize::try_from(params.limit.unwrap_or(GROUPS)).unwrap_or(usize::MAX),
        })
    }

    /// The filters, for [`UsageQuery::report`].
    pub fn only(&self) -> Vec<(Dimension, &str)> {
        self.only.iter().map(|(property, name)| (*property, name.as_str())).collect()
    }

    pub fn report<'a>(&'a self, only: &'a [(Dimension, &'a str)]) -> ReportQuery<'a> {
        let Self { span, step, by, n_groups, .. } = self;
        ReportQuery { span: *span, step: *step, by, only, n_groups: *n_groups }
    }
}

/// Returns the utilization of devices over time; for a job, of its devices while it had them alone.
#[utoipa::path(
    get, path = "/gpus/history", operation_id = "gpus_history", params(GpuHistoryParams),
    responses(
        (status = 200, description = "Means by device and time", body = Document<GpuHistory>),
        (status = 400, description = "A parameter is not valid", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such job", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn gpu_history(
    State(api): State<Api>,
    Asks(asker): Asks,
    Params(params): Params<GpuHistoryParams>,
) -> Result<Json<Document<GpuHistory>>, ApiError> {
    let uid = asker.caller.owner.uid;
    let tenure = match &params.job {
        Some(job) => {
            let found = found::find(&api, job_id(job)?).await?;
            Some(tenure::of(&api, asker.caller.owner.uid, &found, now()).await?)
        }
        None => None,
    };
    let run = tenure.as_ref().map(|it| it.range().unwrap_or((now(), now())));
    let until = params.until.map_or_else(|| run.map_or_else(now, |it| it.1), |time| time.0);
    let usual = || run.map_or_else(|| before(until, DAY), |it| it.0);
    let since = params.since.map_or_else(usual, |time| time.0);
    // The first and the last point of a job begin and end with it.
    let (since, until) = run.map_or((since, until), |it| (since.max(it.0), until.min(it.1)));
    let grid = Grid::fitting(since, until, n_points(params.points), now());
    let series = series(params.series.as_deref())?;
    let mut gpus = all_gpus(&api, uid).await?;
    if let Some(asked) = &params.gpus {
        gpus.retain(|gpu| asked.split(',').any(|uuid| uuid.trim() == gpu.uuid));
    }
    let handle = api.handle.clone();
    let recent = recent(&handle, &gpus, &grid).await;
    let read = move || {
        let drawing = Drawing { handle: &handle, grid, series: &series, recent };
        let mut drawn = match &tenure {
            None => drawing.all(&gpus)?,
            Some(tenure) => drawing.of_job(&gpus, tenure)?,
        };
        drawn.sort_by(|one, other| (&one.node, one.index).cmp(&(&other.node, other.index)));
        Ok(GpuHistory { start: Time(grid.start), step_s: grid.step_s, gpus: drawn })
    };
    Ok(Json(Document::new(api.handle.run_slow(uid, read).await?)))
}

/// The charts of devices on one grid.
struct Drawing<'a> {
    handle: &'a CoreHandle,
    grid: Grid,
    series: &'a [DeviceSeries],
    /// The samples of each device, by UUID, if the points are close enough to need them.
    recent: BTreeMap<String, Vec<DevicePoint>>,
}

impl Drawing<'_> {
    fn all(&self, gpus: &[Gpu]) -> Result<Vec<GpuPoints>, Refusal> {
        let gpus: Vec<&Gpu> = gpus.iter().collect();
        let lines = self.lines(&gpus, self.grid.span)?;
        let lines = lines.into_iter().map(|line| line.points).collect::<Vec<_>>();
        let gpus = gpus.iter().enumerate();
        Ok(gpus.map(|(ix, gpu)| self.points(gpu, self.of(&lines, ix), |it| it)).collect())
    }

    /// The points of a job's devices while it had them alone.
    fn of_job(&self, gpus: &[Gpu], tenure: &Tenure) -> Result<Vec<GpuPoints>, Refusal> {
        let mut drawn = Vec::new();
        for (time, devices) in &tenure.held {
            let is_held = |gpu: &&Gpu| devices.iter().any(|it| it.as_str() == gpu.uuid);
            let gpus: Vec<&Gpu> = gpus.iter().filter(is_held).collect();
            let whole = tenure.whole(*time, self.grid.step);
            let lines = self.lines(&gpus, whole)?;
            let on_grid = |line: ChartLine| Tenure::on_grid(&self.grid, whole, &line.points);
            let lines = lines.into_iter().map(on_grid).collect::<Vec<_>>();
            let own = |samples: Vec<(Timestamp, DevicePoint)>| {
                let mut own = within(samples, *time);
                // The agent reads the power more rarely: the first samples repeat an older one.
                let first = time.0.after(POWER_AGE);
                own.iter_mut().filter(|(at, _)| *at < first).for_each(|(_, it)| it.power = None);
                own
            };
            let gpus = gpus.iter().enumerate();
            drawn.extend(gpus.map(|(ix, gpu)| self.points(gpu, self.of(&lines, ix), own)));
        }
        Ok(drawn)
    }

    /// The stored lines of devices: for each device all series.
    fn lines(&self, gpus: &[&Gpu], span: Span) -> Result<Vec<ChartLine>, Refusal> {
        let devices: Vec<&str> = gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
        let chart = self.handle.shared.insight.usage.devices(
            &devices,
            self.series,
            span,
            self.grid.step,
        )?;
        Ok(chart.map(|it| it.lines).unwrap_or_default())
    }

    /// The lines of the device at a position.
    fn of<'l>(&self, lines: &'l [Vec<Option<Point>>], ix: usize) -> &'l [Vec<Option<Point>>] {
        let from = ix * self.series.len();
        lines.get(from..from + self.series.len()).unwrap_or_default()
    }

    fn points(
        &self,
        gpu: &Gpu,
        lines: &[Vec<Option<Point>>],
        own: impl Fn(Vec<(Timestamp, DevicePoint)>) -> Vec<(Timestamp, DevicePoint)>,
    ) -> GpuPoints {
        let recent = self.recent.get(&gpu.uuid).into_iter().flatten().map(|it| (it.at, *it));
        let recent = own(recent.collect());
        let means = |wanted: DeviceSeries, samples: Vec<(Timestamp, f64)>| {
            let Some(at) = self.series.iter().position(|it| *it == wanted) else {
                return Vec::new();
            };
            let minutes = lines.get(at).map(Vec::as_slice).unwrap_or_default();
            self.grid.means(minutes, &samples)
        };
        GpuPoints {
            node: gpu.node.clone(),
            index: gpu.index,
            uuid: gpu.uuid.clone(),
            utilization: means(DeviceSeries::Utilization, of(&recent, |it| it.utilization)),
            allocated: means(DeviceSeries::Allocated, Vec::new()),
            memory_used: means(DeviceSeries::MemoryUsed, of(&recent, |it| it.memory_used)),
            power: means(DeviceSeries::Power, of(&recent, |it| it.power)),
        }
    }
}

/// The largest number of points of a chart.
pub(super) fn n_points(asked: Option<u32>) -> usize {
    usize::try_from(asked.unwrap_or(POINTS).clamp(1, POINTS_MAX)).unwrap_or(1)
}

/// The samples of devices by UUID, if the points are close enough to need them.
async fn recent(
    handle: &CoreHandle,
    gpus: &[Gpu],
    grid: &Grid,
) -> BTreeMap<String, Vec<DevicePoint>> {
    let gpus = gpus.iter().filter(|_| grid.is_fine());
    let points = gpus.filter_map(|gpu| {
        let agent = handle.agent(&NodeName::new(&*gpu.node))?;
        let uuid = DeviceUuid::new(&*gpu.uuid);
        Some(async move { (gpu.uuid.clone(), agent.points(uuid, grid.start).await) })
    });
    join_all(points).await.into_iter().collect()
}

fn of(
    points: &[(Timestamp, DevicePoint)],
    value: impl Fn(&DevicePoint) -> Option<f64>,
) -> Vec<(Timestamp, f64)> {
    points.iter().filter_map(|(at, point)| Some((*at, value(point)?))).collect()
}

/// The start of a range of this length.
pub(super) fn before(until: Timestamp, span: Millis) -> Timestamp {
    Timestamp::new(until.get().saturating_sub(span.get()))
}

fn properties(text: &str) -> Result<Vec<Dimension>, Refusal> {
    let mut found = Vec::new();
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let Some((_, property)) = PROPERTIES.into_iter().find(|(known, _)| *known == name) else {
            let why = "write project, user, model, kind, node, pool or job, separated by commas";
            return Err(Refusal::Invalid { field: "by".to_owned(), why: why.to_owned() });
        };
        if !found.contains(&property) {
            found.push(property);
        }
    }
    Ok(found)
}

/// The properties with their names: `kind=train,user=ana`.
fn filters(text: &str) -> Result<Vec<(Dimension, String)>, Refusal> {
    let filter = |word: &str| {
        let (property, name) = word.split_once('=').unwrap_or_default();
        let found = PROPERTIES.into_iter().find(|(known, _)| *known == property.trim());
        found.filter(|_| !name.trim().is_empty()).map(|(_, it)| (it, name.trim().to_owned()))
    };
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    let all: Option<Vec<_>> = words.map(filter).collect();
    all.ok_or_else(|| Refusal::Invalid {
        field: "only".to_owned(),
        why: "write project, user, model, kind, node, pool or job with a name, as in \
              kind=train,user=ana"
            .to_owned(),
    })
}

fn series(text: Option<&str>) -> Result<Vec<DeviceSeries>, Refusal> {
    let Some(text) = text else { return Ok(SERIES[..2].iter().map(|(_, it)| *it).collect()) };
    let known = |name: &str| {
        let found = SERIES.into_iter().find(|(known, _)| *known == name.trim());
        found.map(|(_, it)| it).ok_or_else(|| {
            let why = "write utilization, allocated, memory_used or power, separated by commas";
            Refusal::Invalid { field: "series".to_owned(), why: why.to_owned() }
        })
    };
    text.split(',').map(known).collect()
}

fn step(text: Option<&str>) -> Result<Option<Step>, Refusal> {
    match text {
        None => Ok(None),
        Some("hour") => Ok(Some(Step::HOUR)),
        Some("day") => Ok(Some(Step::DAY)),
        Some(_) => {
            let why = "write hour or day".to_owned();
            Err(Refusal::Invalid { field: "step".to_owned(), why })
        }
    }
}

pub(super) fn row(by: &[Dimension], row: ReportRow) -> UsageRow {
    let ReportRow { start, names, is_outside, totals } = row;
    let measured = |ms, of_ms: u64| (of_ms > 0).then(|| hours(ms));
    let name = |property: Dimension| {
        let place = by.iter().position(|it| *it == property)?;
        names.as_ref()?.get(place).cloned()
    };
    UsageRow {
        start: Time(time_of(start)),
        project: name(Dimension::Project),
        user: name(Dimension::User),
        model: name(Dimension::Model),
        kind: name(Dimension::Kind),
        node: name(Dimension::Node),
        pool: name(Dimension::Pool),
        job: name(Dimension::Job),
        is_rest: names.is_none(),
        is_outside,
        gpu_hours: hours(totals.allocated_ms),
        measured_gpu_hours: hours(totals.busy_of_ms),
        busy_gpu_hours: measured(totals.busy_ms, totals.busy_of_ms),
        useful_gpu_hours: measured(totals.useful_ms, totals.useful_of_ms),
        waited_gpu_hours: hours(totals.waited_ms),
        guaranteed_gpu_hours: (totals.guaranteed_ms > 0).then(|| hours(totals.guaranteed_ms)),
        // A kilowatt-hour is as many joules as an hour has milliseconds.
        energy_kwh: measured(totals.energy_j, totals.energy_of_ms),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(super) fn hours(millis: u64) -> f64 {
    millis as f64 / 3_600_000.0
}
