//! The detail pane: the selected job, GPU or process.

use std::borrow::Cow;

use gpool_cli::render::eta;
use gpool_cli::render::life::ran;
use gpool_cli::render::safe::safe;
use gpool_cli::render::style::Style as Tone;
use gpool_cli::render::view::View;
use gpool_cli::render::words::{NOTHING, limit, places, state};
use gpool_model::job::JobState;
use gpool_model::{Bytes, Millis};
use gpool_wire::gpu::GpuProcess;
use gpool_wire::{Gpu, Job};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use crate::chart;
use crate::history::{History, Series};
use crate::kinds::percent;
use crate::output;
use crate::picture::{draw_text, style};
use crate::state::{Lists, Pane, Shows, Top};

/// Width from which charts and text are beside each other.
const WIDE: u16 = 60;

/// The title and the contents of the pane.
pub(crate) struct Detail {
    pub(crate) title: String,
    charts: Option<(Series, Series)>,
    text: Vec<String>,
    /// Whether the end of the text is the most important part.
    is_output: bool,
}

impl Top {
    pub(crate) fn detail(&self, view: &View<'_>) -> Detail {
        match &self.lists {
            Lists::Cluster { gpus, jobs } if self.list == Pane::Gpus => match gpus.selected() {
                Some(row) => self.of_gpu(&row.gpu, jobs.rows(), view),
                None => Detail::of("No GPU", Vec::new()),
            },
            Lists::Cluster { gpus, jobs } => match jobs.selected() {
                Some(job) => {
                    let gpus: Vec<&Gpu> = gpus.rows().iter().map(|row| &row.gpu).collect();
                    self.of_job(job, &gpus, view)
                }
                None => Detail::of("No job", Vec::new()),
            },
            Lists::Machine { gpus, .. } if self.list == Pane::Gpus && gpus.selected().is_some() => {
                match gpus.selected() {
                    Some(gpu) => self.of_gpu(gpu, &[], view),
                    None => Detail::of("No GPU", Vec::new()),
                }
            }
            Lists::Machine { .. } => self.of_machine(),
        }
    }

    fn of_job(&self, job: &Job, gpus: &[&Gpu], view: &View<'_>) -> Detail {
        let mine = |of: &Option<(String, String)>| match of {
            Some((id, text)) if *id == job.id => Some(text.clone()),
            _ => None,
        };
        let waits = matches!(job.state, JobState::Held | JobState::Waiting | JobState::Pending);
        let shows = match self.shows {
            Shows::Overview if waits => Shows::Why,
            Shows::Overview if job.request.gpus_text() == "0" => Shows::Log,
            shows => shows,
        };
        let charts = || Some(self.history.of_job(job, gpus, self.setup.every, view.now));
        let (charts, text, is_output) = match shows {
            Shows::Chart => (charts(), Vec::new(), false),
            Shows::Overview => {
                let log = mine(&self.log).map(|log| output::lines(&log));
                (charts(), log.unwrap_or_default(), true)
            }
            Shows::Log => {
                let log = mine(&self.log).map(|log| output::lines(&log));
                let none = || vec!["there is no output yet".to_owned()];
                (None, log.filter(|log| !log.is_empty()).unwrap_or_else(none), true)
            }
            Shows::Why => {
                let why = mine(&self.why).unwrap_or_else(|| "reading…".to_owned());
                (None, why.lines().map(str::to_owned).collect(), false)
            }
        };
        Detail { title: self.title_of(job, view), charts, text, is_output }
    }

    fn title_of(&self, job: &Job, view: &View<'_>) -> String {
        let mut parts = vec![
            format!("Job {} {}", job.id, safe(&job.name)),
            view.user(&job.user).to_owned(),
            state(job.state.as_str()),
        ];
        let time = ran(job, view).map(|ran| ran.to_string());
        let limit = limit(job).map(|limit| format!(" / {limit}")).unwrap_or_default();
        parts.extend(time.map(|time| format!("{time}{limit}")));
        let starts = eta::starts(job, view);
        if starts != NOTHING {
            parts.push(format!("starts {starts}"));
        }
        let places = places(&job.placement);
        if !places.is_empty() {
            parts.push(places);
        }
        let shows = match self.shows {
            Shows::Overview => "overview",
            Shows::Chart => "chart",
            Shows::Log => "output",
            Shows::Why => "why",
        };
        format!("{} · < {shows} >", parts.join(" · "))
    }

    fn of_gpu(&self, gpu: &Gpu, jobs: &[Job], view: &View<'_>) -> Detail {
        let mut text = Vec::new();
        let process = |it: &GpuProcess| {
            let name = safe(it.name.as_deref().unwrap_or("process")).into_owned();
            let user = it.user.as_deref().map(|user| format!(" of {}", safe(user)));
            let memory = it.memory.map(|bytes| format!(", {}", Bytes::new(bytes)));
            format!(
                "{name} (pid {}){}{}",
                it.pid,
                user.unwrap_or_default(),
                memory.unwrap_or_default()
            )
        };
        let has = |job: &&Job| {
            let is_on =
                |on: &gpool_wire::PlacedOn| on.node == gpu.node && on.devices.contains(&gpu.index);
            job.placement.iter().any(is_on)
        };
        for job in jobs.iter().filter(has) {
            let user = view.user(&job.user);
            text.push(format!("job {} {} of {}", job.id, safe(&job.name), safe(user)));
        }
        let beside = if self.setup.is_machine { "" } else { "not of gpool: " };
        text.extend(gpu.unmanaged.iter().map(|it| format!("{beside}{}", process(it))));
        text.extend(gpu.strays.iter().map(|it| format!("not booked here: {}", process(it))));
        text.extend(gpu.health_why.iter().map(|why| safe(why).into_owned()));
        text.extend(
            (!gpu.allowed).then(|| "not allowed for new jobs (gpu_not_allowed)".to_owned()),
        );
        text.extend(gpu.drain.iter().map(|drain| format!("drained: {}", safe(&drain.reason))));
        let detail = &gpu.detail;
        let part =
            |name: &str, part: Option<f64>| part.map(|it| format!("{name} {}%", percent(it)));
        let units = [
            part("multiprocessors", detail.sm_active),
            part("tensor cores", detail.tensor_active),
            part("memory bandwidth", detail.dram_active),
            detail.sm_clock_mhz.map(|mhz| format!("clock {mhz} MHz")),
        ];
        let units: Vec<String> = units.into_iter().flatten().collect();
        text.extend((!units.is_empty()).then(|| units.join(", ")));
        let errors = detail.errors.in_words();
        text.extend((!errors.is_empty()).then(|| format!("errors: {}", errors.join(", "))));
        let title = format!("GPU {} · {} · {}", gpu.index, safe(&gpu.model), gpu.uuid);
        Detail { title, charts: Some(self.history.of(&gpu.uuid)), text, is_output: false }
    }

    fn of_machine(&self) -> Detail {
        let Some(machine) = &self.machine else { return Detail::of("Machine", Vec::new()) };
        let [one, five, fifteen] = machine.load;
        let text = vec![
            format!("{} CPUs, load {one:.2} {five:.2} {fifteen:.2}", machine.cpus),
            format!(
                "memory {} of {}",
                Bytes::new(machine.memory_used),
                Bytes::new(machine.memory_total)
            ),
        ];
        Detail {
            title: format!("Machine {} · CPU and memory", safe(&machine.name)),
            charts: Some(self.history.of(History::MACHINE)),
            text,
            is_output: false,
        }
    }

    /// Draws the pane below its title.
    pub(crate) fn draw_detail(&mut self, buffer: &mut Buffer, area: Rect, detail: &Detail) {
        let mut rest = area;
        if let Some((compute, memory)) = &detail.charts {
            let is_beside = area.width >= WIDE && !detail.text.is_empty();
            let width = if is_beside { (area.width / 2).min(64) } else { area.width };
            let lines =
                if is_beside || detail.text.is_empty() { area.height } else { area.height / 2 };
            let left = Rect { width: width.saturating_sub(2), height: lines, ..area };
            let of_machine = self.setup.is_machine && self.list != Pane::Gpus;
            let name = if of_machine { "CPU" } else { "utilization" };
            let upper = Rect { height: left.height.div_ceil(2), ..left };
            let lower = Rect { y: upper.bottom(), height: left.height - upper.height, ..left };
            self.draw_chart(buffer, upper, name, compute);
            self.draw_chart(buffer, lower, "memory", memory);
            rest = match is_beside {
                true => Rect { x: area.x + width, width: area.width - width, ..area },
                false => Rect { y: left.bottom(), height: area.height - lines, ..area },
            };
        }
        let height = usize::from(rest.height);
        let text = match detail.is_output {
            true => Cow::Borrowed(&detail.text),
            false => Cow::Owned(output::wrapped(&detail.text.join("\n"), usize::from(rest.width))),
        };
        let hidden = text.len().saturating_sub(height);
        self.scroll = self.scroll.min(hidden);
        self.is_at_end = detail.is_output;
        // Output scrolls back from its end.
        let first = if detail.is_output { hidden - self.scroll } else { self.scroll };
        for (line, y) in text.iter().skip(first).zip(rest.y..rest.bottom()) {
            draw_text(buffer, rest, (rest.x, y), line, style(Tone::Plain, self.setup.colors));
        }
    }

    /// Draws a chart below a line with its name, the newest value and the time range.
    fn draw_chart(&self, buffer: &mut Buffer, area: Rect, name: &str, values: &Series) {
        let now = values.last().copied().flatten();
        let now = now.map_or(NOTHING.to_owned(), |part| format!("{}%", percent(part)));
        let n = values.len().min(usize::from(area.width)).saturating_sub(1);
        let span = self.setup.every.get().saturating_mul(n as u64);
        let past = match span {
            0 => String::new(),
            span => format!("  in {}", Millis::new(span)),
        };
        let colors = self.setup.colors;
        let at = draw_text(
            buffer,
            area,
            (area.x, area.y),
            &format!("{name} {now}"),
            style(Tone::Plain, colors),
        );
        draw_text(buffer, area, (at, area.y), &past, style(Tone::Dim, colors));
        let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
        chart::draw(buffer, below, values, self.setup.ascii, style(Tone::Good, colors));
    }
}

impl Detail {
    fn of(title: &str, text: Vec<String>) -> Self {
        Self { title: title.to_owned(), charts: None, text, is_output: false }
    }
}
