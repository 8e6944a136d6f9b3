//! Devices as a list and as a page: `gpool gpus`.

use std::collections::BTreeMap;

use gpool_model::device::DeviceState;
use gpool_model::{Bytes, Millis};
use gpool_wire::gpu::{GpuGuest, GpuIdle, GpuLoan, GpuPartOf};
use gpool_wire::reservation::ReservedHere;
use gpool_wire::{Gpu, GpuShare};
use serde::Serialize;

use super::bar::bar;
use super::list::{Column, Noun};
use super::nodes::reserved;
use super::page::Page;
use super::style::Style;
use super::table::Cell;
use super::view::View;
use super::words::{self, NOTHING, indexes};

/// A row of the list: one device, or several neighbours in the same quiet state.
#[derive(Debug, Clone, Serialize)]
pub struct GpuRow {
    /// The first of these devices.
    #[serde(flatten)]
    pub gpu: Gpu,
    /// The indexes of all these devices.
    #[serde(skip)]
    pub indexes: Vec<u32>,
    /// Run time that its job has left, if the job has a time limit.
    #[serde(skip)]
    pub job_left: Option<Millis>,
}

pub const GPUS: Noun<GpuRow> = Noun {
    columns: COLUMNS,
    table: &["node", "gpu", "model", "state", "util", "mem", "job", "user", "project", "free_in"],
    wide: &[
        "node", "gpu", "model", "state", "util", "mem", "temp", "power", "job", "user", "project",
        "free_in", "enforced", "numa", "bus", "uuid", "why",
    ],
    name: |row| format!("{}:{}", row.gpu.node, row.gpu.index),
    keys: gpool_wire::keys::keys::<Gpu>,
};

const COLUMNS: &[Column<GpuRow>] = &[
    Column { name: "node", head: "NODE", cell: |row, _| Cell::new(&row.gpu.node) },
    Column { name: "gpu", head: "GPU", cell: |row, _| Cell::new(&indexes(&row.indexes)) },
    Column { name: "model", head: "MODEL", cell: |row, _| Cell::new(&row.gpu.model_short) },
    Column { name: "state", head: "STATE", cell: |row, _| state(&row.gpu) },
    Column { name: "util", head: "UTIL", cell: |row, _| utilization(&row.gpu) },
    Column { name: "mem", head: "MEM GiB", cell: |row, _| memory(&row.gpu) },
    Column {
        name: "temp",
        head: "TEMP",
        cell: |row, _| optional(row.gpu.temperature_c.map(|t| format!("{t} °C"))),
    },
    Column {
        name: "power",
        head: "POWER",
        cell: |row, _| optional(row.gpu.power_w.map(|w| format!("{w:.0} W"))),
    },
    Column { name: "job", head: "JOB", cell: |row, _| held(&row.gpu, jobs(&row.gpu).as_deref()) },
    Column { name: "user", head: "USER", cell: |row, view| user(&row.gpu, view) },
    Column {
        name: "project",
        head: "PROJECT",
        cell: |row, _| {
            held(
                &row.gpu,
                each(&row.gpu, |share| share.project.clone(), row.gpu.project.as_ref()).as_deref(),
            )
        },
    },
    Column { name: "free_in", head: "FREE IN", cell: |row, _| Cell::new(&free_in(row)) },
    Column {
        name: "enforced",
        head: "ENFORCED",
        cell: |row, _| {
            let levels = &row.gpu.enforcement;
            Cell::new(&format!("{}, shares {}", levels.whole, levels.share))
        },
    },
    Column {
        name: "numa",
        head: "NUMA",
        cell: |row, _| optional(row.gpu.numa.map(|n| n.to_string())),
    },
    Column { name: "bus", head: "BUS", cell: |row, _| Cell::new(&row.gpu.pci_bus) },
    Column { name: "uuid", head: "UUID", cell: |row, _| Cell::new(&row.gpu.uuid) },
    Column { name: "why", head: "WHY", cell: |row, _| Cell::new(&why(&row.gpu)) },
];

fn optional(text: Option<impl AsRef<str>>) -> Cell {
    text.map_or_else(|| Cell::new(NOTHING), |text| Cell::new(text.as_ref()))
}

fn state(gpu: &Gpu) -> Cell {
    let word = device_state(gpu.state);
    let kept: Vec<&str> = active(gpu).map(|it| it.name.as_str()).collect();
    let closed = (!gpu.allowed && gpu.state != DeviceState::NotAllowed).then_some(NOT_ALLOWED);
    let notes: Vec<&str> = closed.into_iter().chain(kept).collect();
    let text = match notes.as_slice() {
        [] => word.to_owned(),
        notes => format!("{word} ({})", notes.join(", ")),
    };
    Cell::new(&text).styled(Style::of_device(gpu.state))
}

/// The word for a device that is excluded from new jobs.
const NOT_ALLOWED: &str = "not allowed";

/// The reservations that hold the device now.
fn active(gpu: &Gpu) -> impl Iterator<Item = &ReservedHere> {
    gpu.reservations.iter().filter(|it| it.active)
}

/// Whether the list hides the device's utilization, so that neighbours look alike.
fn is_quiet(gpu: &Gpu) -> bool {
    matches!(
        gpu.state,
        DeviceState::Free | DeviceState::NotAllowed | DeviceState::Drained | DeviceState::Divided
    ) && gpu.guests.is_empty()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to a per cent"
)]
fn utilization(gpu: &Gpu) -> Cell {
    match gpu.utilization.filter(|_| !is_quiet(gpu)) {
        Some(part) => {
            let percent = (part * 100.0).round().clamp(0.0, 100.0) as u64;
            let figure = format!("{percent:>2}%");
            Cell::barred(&bar(percent, 100, 6), &figure)
        }
        None => Cell::default(),
    }
}

fn memory(gpu: &Gpu) -> Cell {
    let total = gpu.memory_total;
    match gpu.memory_used.filter(|_| !is_quiet(gpu)) {
        Some(used) => {
            let figure = format!("{:>5}/{}", gib(used), total.div_ceil(1 << 30));
            Cell::barred(&bar(used, total, 6), &figure)
        }
        None => Cell::default(),
    }
}

/// GiB with one decimal.
fn gib(bytes: u64) -> String {
    let tenths = u128::from(bytes) * 10 / (1 << 30);
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn held(gpu: &Gpu, text: Option<&str>) -> Cell {
    match text {
        Some(text) => Cell::new(text),
        None if is_quiet(gpu) => Cell::default(),
        None => Cell::new(NOTHING),
    }
}

fn user(gpu: &Gpu, view: &View<'_>) -> Cell {
    let stranger = gpu.unmanaged.iter().find_map(|process| process.user.as_deref());
    let users = gpu.user.as_deref().map(|user| view.user(user).to_owned());
    let users = each(gpu, |share| view.user(&share.user).to_owned(), users.as_ref());
    held(gpu, users.as_deref().or(stranger))
}

/// The job of a device, or the jobs that share it, each with its fraction.
fn jobs(gpu: &Gpu) -> Option<String> {
    if gpu.shares.is_empty() && gpu.guests.is_empty() {
        return gpu.job.clone();
    }
    let share = |share: &GpuShare| format!("{} ({})", share.job, share.part);
    let guest = |guest: &GpuGuest| format!("{} (guest)", guest.job);
    let all = gpu.shares.iter().map(share).chain(gpu.guests.iter().map(guest));
    Some(all.collect::<Vec<_>>().join(", "))
}

/// Joins one value of each job that shares a device, without repetitions; for a device with one
/// job, the value of that job.
fn each(gpu: &Gpu, of: impl Fn(&GpuShare) -> String, alone: Option<&String>) -> Option<String> {
    let mut all: Vec<String> = gpu.shares.iter().map(of).collect();
    all.sort_unstable();
    all.dedup();
    if all.is_empty() { alone.cloned() } else { Some(all.join(", ")) }
}

fn free_in(row: &GpuRow) -> String {
    match (row.gpu.state, row.job_left) {
        (DeviceState::Free, _) => String::new(),
        (DeviceState::Busy | DeviceState::HeldIdle, Some(left)) => format!("{left} (limit)"),
        (DeviceState::NotAllowed | DeviceState::Drained | DeviceState::Divided, _) => {
            NOTHING.to_owned()
        }
        _ => "unknown".to_owned(),
    }
}

fn why(gpu: &Gpu) -> String {
    match (&gpu.health_why, gpu.unmanaged.first()) {
        (Some(why), _) => why.clone(),
        (None, Some(process)) => {
            format!("pid {} {}", process.pid, process.name.as_deref().unwrap_or_default())
        }
        (None, None) if !gpu.allowed => "gpu_not_allowed".to_owned(),
        (None, None) => gpu.drain.as_ref().map(|it| it.reason.clone()).unwrap_or_default(),
    }
}

/// One row per device.
#[must_use]
pub fn rows(gpus: Vec<Gpu>, remaining_times: &BTreeMap<String, Millis>) -> Vec<GpuRow> {
    let row = |gpu: Gpu| GpuRow {
        indexes: vec![gpu.index],
        job_left: gpu.job.as_ref().and_then(|job| remaining_times.get(job)).copied(),
        gpu,
    };
    gpus.into_iter().map(row).collect()
}

/// The rows with equal neighbours merged that no job uses: free, not allowed, drained or divided.
#[must_use]
pub fn folded(rows: Vec<GpuRow>) -> Vec<GpuRow> {
    let mut folded: Vec<GpuRow> = Vec::with_capacity(rows.len());
    for row in rows {
        let before = folded.last_mut().filter(|before| {
            let (a, b) = (&before.gpu, &row.gpu);
            is_quiet(a)
                && is_quiet(b)
                && a.state == b.state
                && active(a).eq(active(b))
                && (&a.node, &a.model_short) == (&b.node, &b.model_short)
                && before.indexes.last().and_then(|index| index.checked_add(1)) == Some(b.index)
        });
        match before {
            Some(before) => before.indexes.push(row.gpu.index),
            None => folded.push(row),
        }
    }
    folded
}

/// The line below the list: the number of devices in each state, and the busy devices that other
/// processes also use.
#[must_use]
pub fn footer(gpus: &[GpuRow]) -> String {
    if gpus.is_empty() {
        return "no GPUs; `gpool doctor` finds the cause".to_owned();
    }
    let states = [
        DeviceState::Busy,
        DeviceState::HeldIdle,
        DeviceState::Unmanaged,
        DeviceState::NotAllowed,
        DeviceState::Drained,
        DeviceState::Divided,
        DeviceState::Unhealthy,
        DeviceState::Lost,
        DeviceState::Unknown,
        DeviceState::Free,
    ];
    let n_in = |state| gpus.iter().filter(|row| row.gpu.state == state).count();
    let part = |state| match n_in(state) {
        0 => None,
        n => Some(format!("{n} {}", device_state(state))),
    };
    let parts = states.into_iter().filter_map(part);
    let n_closed = gpus.iter().filter(|row| {
        matches!(row.gpu.state, DeviceState::Busy | DeviceState::HeldIdle) && !row.gpu.allowed
    });
    let closed = match n_closed.count() {
        0 => None,
        n => Some(format!("{n} in use and not allowed for new jobs")),
    };
    let others = gpus.iter().filter_map(|row| other_process(&row.gpu));
    let over = gpus.iter().flat_map(|row| over(&row.gpu));
    let loans = gpus.iter().flat_map(|row| loans(&row.gpu));
    parts.chain(closed).chain(others).chain(over).chain(loans).collect::<Vec<_>>().join(" · ")
}

/// The jobs that use more of a device than their limit, or do not count their memory any more.
fn over(gpu: &Gpu) -> impl Iterator<Item = String> {
    gpu.shares.iter().filter_map(|share| {
        if share.memory_over.is_none() && !share.counted {
            let job = &share.job;
            return Some(format!("job {job} damaged its memory ledger on GPU {}", gpu.index));
        }
        let (used, limit) = (Bytes::new(share.memory_over?), share.memory_limit);
        let granted = share.memory_granted.filter(|granted| *granted < limit);
        let may = match granted {
            Some(granted) => format!("it was granted {}", Bytes::new(granted)),
            None => format!("its limit is {}", Bytes::new(limit)),
        };
        Some(format!("job {} uses {used} of GPU {}, {may}", share.job, gpu.index))
    })
}

/// The jobs that use more of a device than they requested.
fn loans(gpu: &Gpu) -> impl Iterator<Item = String> {
    gpu.loans.iter().map(|loan| {
        let (job, memory) = (&loan.job, Bytes::new(loan.memory));
        let called = if loan.keep.is_some() { ", called back" } else { "" };
        format!("job {job} borrows {memory} of GPU {}{called}", gpu.index)
    })
}

/// The process that uses a device besides its job.
fn other_process(gpu: &Gpu) -> Option<String> {
    gpu.job.as_ref()?;
    let process = gpu.unmanaged.first().or(gpu.strays.first())?;
    let name = process.name.as_deref().unwrap_or("a process");
    Some(format!("GPU {} also used by {name} (pid {})", gpu.index, process.pid))
}

/// Activity of the units, temperature, power and clocks.
fn measured(gpu: &Gpu, page: &mut Page) {
    let detail = &gpu.detail;
    let part = |name: &str, part: Option<f64>| Some(format!("{name} {:.0} %", part? * 100.0));
    let active = [
        part("multiprocessors", detail.sm_active),
        part("tensor cores", detail.tensor_active),
        part("memory bandwidth", detail.dram_active),
    ];
    let degrees = |name: &str, degrees: Option<u32>| Some(format!("{name}{} °C", degrees?));
    let warm = [degrees("", gpu.temperature_c), degrees("memory ", detail.memory_temperature_c)];
    let power = [
        gpu.power_w.map(|watts| format!("{watts:.0} W")),
        detail.sm_clock_mhz.map(|mhz| format!("{mhz} MHz")),
    ];
    let seconds = |why: &str, seconds: Option<f64>| {
        seconds.filter(|seconds| *seconds > 0.0).map(|seconds| format!("{seconds:.0} s by {why}"))
    };
    let slowed = [
        seconds("its power limit", detail.power_capped_s),
        seconds("temperature", detail.thermal_capped_s),
    ];
    let mut label = |name: &str, parts: &[Option<String>]| {
        let parts: Vec<&str> = parts.iter().flatten().map(String::as_str).collect();
        page.label_if(name, Some(parts.join(", ")).as_deref().filter(|text| !text.is_empty()));
    };
    label("active", &active);
    label("temp", &warm);
    label("power", &power);
    label("slowed", &slowed);
}

/// The page with all information about a device.
#[must_use]
pub fn page(gpu: &Gpu, view: &View<'_>) -> String {
    let headline = format!("GPU {} of {} · {}", gpu.index, gpu.node, device_state(gpu.state));
    let mut page = Page::new(&headline);
    page.label("model", &format!("{} ({})", gpu.model, gpu.model_short));
    page.label("uuid", &gpu.uuid);
    let used = gpu.memory_used.map_or(String::new(), |used| format!("{} of ", Bytes::new(used)));
    page.label("memory", &format!("{used}{}", Bytes::new(gpu.memory_total)));
    let busy = gpu.utilization.map(|part| format!("{:.0} %", part * 100.0));
    page.label_if("busy", busy.as_deref());
    measured(gpu, &mut page);
    let errors = gpu.detail.errors.in_words().join(", ");
    page.label_if("errors", Some(errors.as_str()).filter(|errors| !errors.is_empty()));
    page.label_if("bus", Some(gpu.pci_bus.as_str()).filter(|bus| !bus.is_empty()));
    let numa = gpu.numa.map(|node| node.to_string());
    page.label_if("numa", numa.as_deref());
    page.labels(
        "links",
        &gpu.links.iter().map(|(to, how)| format!("{how} to {to}")).collect::<Vec<_>>(),
    );
    if let Some(mig) = &gpu.mig {
        let on = if mig.enabled { "on" } else { "off" };
        page.label(
            "mig",
            &format!("{on}, {}", words::count(mig.instances.len() as u64, "instance")),
        );
    }
    if let Some(GpuPartOf { index, compute_slices, gpus }) = &gpu.part_of {
        let slices = words::count(u64::from(*compute_slices), "compute slice");
        page.label("part of", &format!("GPU {index}: {slices} of 7, counts as {gpus} GPUs"));
    }
    let levels = &gpu.enforcement;
    page.label("enforced", &format!("{}, shares {}", levels.whole, levels.share));
    page.label_if("fault", gpu.health_why.as_deref());
    if !gpu.allowed {
        page.label("allowed", "no: gpu_not_allowed (an admin allows it: gpool gpus allow all)");
    }
    if let Some(drain) = &gpu.drain {
        let by = drain.by.map(|by| format!(" by {}", view.clock.full(by))).unwrap_or_default();
        page.label("drained", &format!("{}{by} ({})", drain.reason, view.user(&drain.who)));
    }
    let kept: Vec<String> = gpu.reservations.iter().map(|it| reserved(it, view)).collect();
    page.labels("reserved", &kept);
    if let (Some(job), Some(user), true) = (&gpu.job, &gpu.user, gpu.shares.is_empty()) {
        page.label("job", &format!("{job} ({})", view.user(user)));
    }
    page.labels("shares", &gpu.shares.iter().map(|it| share(it, view)).collect::<Vec<_>>());
    page.labels("loans", &gpu.loans.iter().map(|it| loan(it, view)).collect::<Vec<_>>());
    if gpu.guarantees_late > 0 {
        let text = format!("{} since the server started", gpu.guarantees_late);
        page.label("late", &format!("requested memory came too late: {text}"));
    }
    let guest = |it: &GpuGuest| {
        let stuck = if it.stuck { " and can't move there" } else { "" };
        format!("job {}, which booked GPU {}{stuck}", it.job, it.booked)
    };
    page.labels("guests", &gpu.guests.iter().map(guest).collect::<Vec<_>>());
    let idle = |it: &GpuIdle| format!("job {}, no use since {}", it.job, view.clock.full(it.since));
    page.labels("idle", &gpu.idle.iter().map(idle).collect::<Vec<_>>());
    if !gpu.shares.is_empty() {
        page.label("free", &format!("{} for more shares", Bytes::new(gpu.memory_for_shares)));
    }
    let strangers: Vec<String> =
        gpu.unmanaged.iter().map(|process| stranger(process, view)).collect();
    page.labels("unmanaged", &strangers);
    let strays: Vec<String> = gpu.strays.iter().map(|process| stranger(process, view)).collect();
    page.labels("strays", &strays);
    page.text()
}

fn loan(loan: &GpuLoan, view: &View<'_>) -> String {
    let (memory, age) = (Bytes::new(loan.memory), view.now.0.since(loan.since.0));
    let mut text = format!("job {}: {memory} above its request for {age}", loan.job);
    if let Some(keep) = loan.keep {
        text.push_str(&format!("; called back, it may keep {}", Bytes::new(keep)));
    }
    text
}

fn share(share: &GpuShare, view: &View<'_>) -> String {
    let (request, limit) = (Bytes::new(share.memory), Bytes::new(share.memory_limit));
    let memory = match limit > request {
        true => format!("{request} (limit {limit})"),
        false => request.to_string(),
    };
    let (job, user, part) = (&share.job, view.user(&share.user), share.part);
    let mut text = format!("job {job} ({user}): {part}, {memory}, {}", share.enforcement);
    if let Some(compute) = share.compute {
        let level = &share.compute_enforcement;
        text.push_str(&format!("; compute {:.0} % ({level})", compute * 100.0));
    }
    if let Some(used) = share.used {
        text.push_str(&format!("; now on GPU {used}"));
    }
    match (&share.stays_why, share.can_move) {
        (Some(why), _) => text.push_str(&format!("; can't move: {why}")),
        (None, true) => text.push_str("; can move"),
        (None, false) => {}
    }
    if !share.counted {
        text.push_str("; damaged its memory ledger");
    }
    if let Some(over) = share.memory_over {
        let granted = share.memory_granted.filter(|granted| *granted < share.memory_limit);
        let may = granted.map_or("its limit".to_owned(), |it| Bytes::new(it).to_string());
        text.push_str(&format!("; uses {}, more than {may}", Bytes::new(over)));
    }
    text
}

fn stranger(process: &gpool_wire::GpuProcess, view: &View<'_>) -> String {
    let mut parts = vec![match &process.name {
        Some(name) => format!("pid {} {name}", process.pid),
        None => format!("pid {}", process.pid),
    }];
    parts.extend(process.user.as_ref().map(|user| format!("user {user}")));
    parts.extend(process.memory.map(|bytes| Bytes::new(bytes).to_string()));
    parts.push(format!("seen for {}", view.now.0.since(process.seen_since.0)));
    parts.join(", ")
}

/// The word for a device's state.
#[must_use]
pub fn device_state(state: DeviceState) -> &'static str {
    match state {
        DeviceState::Free => "free",
        DeviceState::Busy => "busy",
        DeviceState::HeldIdle => "held idle",
        DeviceState::Unmanaged => "unmanaged",
        DeviceState::NotAllowed => NOT_ALLOWED,
        DeviceState::Drained => "drained",
        DeviceState::Divided => "divided",
        DeviceState::Unhealthy => "unhealthy",
        DeviceState::Lost => "lost",
        DeviceState::Unknown => "unknown",
    }
}
