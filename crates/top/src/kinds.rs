//! The lists: jobs, GPUs of a cluster, GPUs of this machine and its processes.

use std::cmp::Ordering;

use gpool_cli::render::bar::bar;
use gpool_cli::render::gpus::{GPUS, GpuRow, device_state};
use gpool_cli::render::jobs::JOBS;
use gpool_cli::render::list::{Column, Noun, natural};
use gpool_cli::render::table::Cell;
use gpool_cli::render::words::{NOTHING, places, state};
use gpool_model::{Bytes, Millis};
use gpool_wire::{Gpu, Job, Time};

use crate::data::Process;
use crate::list::{ListSpec, Sort};

pub static JOBS_LIST: ListSpec<Job> = ListSpec {
    title: "Queue",
    columns: JOBS.columns,
    column_ranks: &[
        ("id", 0),
        ("name", 1),
        ("user", 2),
        ("project", 6),
        ("gpus", 3),
        ("state", 0),
        ("time", 4),
        ("starts", 3),
        ("reason", 0),
    ],
    alike: &["project"],
    name: |job| job.id.clone(),
    text: |job| {
        let (state, places) = (state(job.state.as_str()), places(&job.placement));
        let gpus = job.request.gpus_words();
        [&*job.id, &job.name, &job.user, &job.project, &gpus, &state, &places].join(" ")
    },
    sorts: &[
        Sort { letter: 'n', name: "ID", compare: |_, _| Ordering::Equal },
        Sort { letter: 'u', name: "user", compare: |a, b| a.user.cmp(&b.user) },
        Sort { letter: 'j', name: "project", compare: |a, b| a.project.cmp(&b.project) },
        Sort { letter: 's', name: "state", compare: |a, b| a.state.as_str().cmp(b.state.as_str()) },
        Sort {
            letter: 'g',
            name: "GPUs",
            compare: |a, b| natural(b.request.gpus_text(), a.request.gpus_text()),
        },
        Sort {
            letter: 't',
            name: "run time",
            compare: |a, b| later(a.run.started_at, b.run.started_at),
        },
        Sort {
            letter: 'w',
            name: "waiting time",
            compare: |a, b| b.wait.waited_s.total_cmp(&a.wait.waited_s),
        },
        Sort {
            letter: 'p',
            name: "priority",
            compare: |a, b| b.request.priority_number().cmp(&a.request.priority_number()),
        },
    ],
};

pub static GPUS_LIST: ListSpec<GpuRow> = ListSpec {
    title: "GPUs",
    columns: GPUS.columns,
    column_ranks: &[
        ("node", 4),
        ("gpu", 0),
        ("model", 5),
        ("state", 1),
        ("util", 0),
        ("mem", 0),
        ("temp", 8),
        ("power", 7),
        ("job", 0),
        ("user", 2),
        ("project", 9),
        ("free_in", 6),
    ],
    alike: &["node"],
    name: |row| row.gpu.uuid.clone(),
    text: |row| gpu_text(&row.gpu),
    sorts: &[
        Sort { letter: 'n', name: "index", compare: |_, _| Ordering::Equal },
        Sort { letter: 'u', name: "user", compare: |a, b| a.gpu.user.cmp(&b.gpu.user) },
        Sort {
            letter: 's',
            name: "state",
            compare: |a, b| device_state(a.gpu.state).cmp(device_state(b.gpu.state)),
        },
        Sort { letter: 'g', name: "memory", compare: |a, b| by_memory(&a.gpu, &b.gpu) },
        Sort { letter: 't', name: "utilization", compare: |a, b| by_use(&a.gpu, &b.gpu) },
    ],
};

/// GPUs of this machine, with their processes.
pub const MACHINE_GPUS: Noun<Gpu> = Noun {
    columns: &[
        Column { name: "gpu", head: "GPU", cell: |gpu, _| Cell::new(&gpu.index.to_string()) },
        Column { name: "model", head: "MODEL", cell: |gpu, _| Cell::new(&gpu.model_short) },
        Column {
            name: "util",
            head: "UTIL",
            cell: |gpu, _| barred(gpu.utilization, |_, percent| format!("{percent:>3}%")),
        },
        Column {
            name: "mem",
            head: "MEM GiB",
            cell: |gpu, _| {
                let part = gpu.memory_used.map(|used| ratio(used, gpu.memory_total));
                let total = gpu.memory_total.div_ceil(1 << 30);
                barred(part, |_, _| format!("{:>5}/{total}", gib(gpu.memory_used)))
            },
        },
        Column {
            name: "temp",
            head: "TEMP",
            cell: |gpu, _| optional(gpu.temperature_c.map(|t| format!("{t} °C"))),
        },
        Column {
            name: "power",
            head: "POWER",
            cell: |gpu, _| optional(gpu.power_w.map(|w| format!("{w:.0} W"))),
        },
        Column {
            name: "clock",
            head: "CLOCK",
            cell: |gpu, _| optional(gpu.detail.sm_clock_mhz.map(|mhz| format!("{mhz} MHz"))),
        },
        Column { name: "processes", head: "PROCESSES", cell: |gpu, _| Cell::new(&users(gpu)) },
    ],
    table: &["gpu", "model", "util", "mem", "temp", "power", "processes"],
    wide: &["gpu", "model", "util", "mem", "temp", "power", "clock", "processes"],
    name: |gpu| gpu.uuid.clone(),
    keys: gpool_wire::keys::keys::<Gpu>,
};

/// The same as a list of the view.
pub static MACHINE_GPUS_LIST: ListSpec<Gpu> = ListSpec {
    title: "GPUs",
    columns: MACHINE_GPUS.columns,
    column_ranks: &[
        ("gpu", 0),
        ("model", 3),
        ("util", 0),
        ("mem", 0),
        ("temp", 1),
        ("power", 2),
        ("clock", 4),
        ("processes", 0),
    ],
    alike: &[],
    name: MACHINE_GPUS.name,
    text: gpu_text,
    sorts: &[
        Sort { letter: 'n', name: "index", compare: |_, _| Ordering::Equal },
        Sort { letter: 'g', name: "memory", compare: by_memory },
        Sort { letter: 't', name: "utilization", compare: by_use },
    ],
};

pub const PROCESSES: Noun<Process> = Noun {
    columns: &[
        Column { name: "gpu", head: "GPU", cell: |it, _| Cell::new(&it.gpu.to_string()) },
        Column { name: "pid", head: "PID", cell: |it, _| Cell::new(&it.pid.to_string()) },
        Column { name: "user", head: "USER", cell: |it, _| optional(it.user.as_deref()) },
        Column {
            name: "gpu_mem",
            head: "GPU MEM",
            cell: |it, _| optional(it.gpu_memory.map(|n| format!("{} GiB", gib(Some(n))))),
        },
        Column {
            name: "gpu_use",
            head: "GPU %",
            cell: |it, _| optional(it.gpu_use.map(|part| percent(part).to_string())),
        },
        Column {
            name: "cpu",
            head: "CPU %",
            cell: |it, _| optional(it.cpu.map(|cores| percent(cores).to_string())),
        },
        Column {
            name: "mem",
            head: "MEM",
            cell: |it, _| optional(it.memory.map(|n| format!("{} GiB", gib(Some(n))))),
        },
        Column {
            name: "time",
            head: "TIME",
            cell: |it, _| {
                let span = |seconds: u64| Millis::new(seconds.saturating_mul(1000)).to_string();
                optional(it.runs_s.map(span))
            },
        },
        Column { name: "command", head: "COMMAND", cell: |it, _| Cell::new(&it.command) },
    ],
    table: &["gpu", "pid", "user", "gpu_mem", "gpu_use", "cpu", "mem", "time", "command"],
    wide: &["gpu", "pid", "user", "gpu_mem", "gpu_use", "cpu", "mem", "time", "command"],
    name: process_name,
    keys: Vec::new,
};

/// The same as a list of the view.
pub static PROCESSES_LIST: ListSpec<Process> = ListSpec {
    title: "Processes",
    columns: PROCESSES.columns,
    column_ranks: &[
        ("gpu", 0),
        ("pid", 0),
        ("user", 1),
        ("gpu_mem", 0),
        ("gpu_use", 2),
        ("cpu", 3),
        ("mem", 4),
        ("time", 5),
        ("command", 0),
    ],
    alike: &[],
    name: process_name,
    text: |it| format!("{} {} {}", it.pid, it.user.as_deref().unwrap_or_default(), it.command),
    sorts: &[
        Sort { letter: 'n', name: "GPU", compare: |_, _| Ordering::Equal },
        Sort { letter: 'u', name: "user", compare: |a, b| a.user.cmp(&b.user) },
        Sort { letter: 'p', name: "PID", compare: |a, b| a.pid.cmp(&b.pid) },
        Sort { letter: 'g', name: "GPU memory", compare: |a, b| b.gpu_memory.cmp(&a.gpu_memory) },
        Sort { letter: 's', name: "GPU use", compare: |a, b| most(a.gpu_use, b.gpu_use) },
        Sort { letter: 'c', name: "CPU", compare: |a, b| most(a.cpu, b.cpu) },
        Sort { letter: 'm', name: "memory", compare: |a, b| b.memory.cmp(&a.memory) },
        Sort { letter: 't', name: "run time", compare: |a, b| b.runs_s.cmp(&a.runs_s) },
    ],
};

/// A part of a whole, 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "for a bar or a percentage")]
#[must_use]
pub fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
#[must_use]
pub fn percent(part: f64) -> u64 {
    (part * 100.0).round().clamp(0.0, 1e9) as u64
}

fn process_name(process: &Process) -> String {
    format!("{}.{}", process.gpu, process.pid)
}

fn barred(part: Option<f64>, figure: impl Fn(f64, u64) -> String) -> Cell {
    let Some(part) = part else { return Cell::new(NOTHING) };
    let figure = figure(part, percent(part));
    Cell::barred(&bar(percent(part), 100, 6), &figure)
}

fn optional(text: Option<impl AsRef<str>>) -> Cell {
    text.map_or_else(|| Cell::new(NOTHING), |text| Cell::new(text.as_ref()))
}

/// GiB with one decimal.
fn gib(bytes: Option<u64>) -> String {
    let tenths = u128::from(bytes.unwrap_or(0)) * 10 / (1 << 30);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// The processes of a GPU in short: `ana python 12GiB, bo python 3GiB`.
fn users(gpu: &Gpu) -> String {
    let one = |it: &gpool_wire::gpu::GpuProcess| {
        let memory = it.memory.map(|bytes| Bytes::new(bytes).to_string());
        [it.user.clone(), it.name.clone(), memory]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" ")
    };
    gpu.unmanaged.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn gpu_text(gpu: &Gpu) -> String {
    let optional = |text: &Option<String>| text.clone().unwrap_or_default();
    let (job, user, project) = (optional(&gpu.job), optional(&gpu.user), optional(&gpu.project));
    let state = device_state(gpu.state);
    format!(
        "{} {} {} {state} {job} {user} {project} {}",
        gpu.node,
        gpu.index,
        gpu.model,
        users(gpu)
    )
}

/// The earlier time first, and nothing last.
fn later(a: Option<Time>, b: Option<Time>) -> Ordering {
    a.is_none().cmp(&b.is_none()).then_with(|| a.cmp(&b))
}

/// The larger number first.
fn most(a: Option<f64>, b: Option<f64>) -> Ordering {
    b.unwrap_or(-1.0).total_cmp(&a.unwrap_or(-1.0))
}

fn by_memory(a: &Gpu, b: &Gpu) -> Ordering {
    b.memory_used.cmp(&a.memory_used)
}

fn by_use(a: &Gpu, b: &Gpu) -> Ordering {
    most(a.utilization, b.utilization)
}
