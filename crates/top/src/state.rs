//! The state of the view: the data that it shows, and the effects of keys.

use std::collections::BTreeMap;

use gpool_cli::render::clock::Clock;
use gpool_cli::render::gpus::{GpuRow, rows};
use gpool_cli::render::life::ran;
use gpool_cli::render::view::View;
use gpool_cli::render::words;
use gpool_model::Millis;
use gpool_wire::{Gpu, Job, Status, Time};

use crate::confirm::{self, Confirmation};
use crate::data::{MachineInfo, News, Process};
use crate::history::History;
use crate::input::{Key, TopCommand};
use crate::kinds::{GPUS_LIST, JOBS_LIST, MACHINE_GPUS_LIST, PROCESSES_LIST, ratio};
use crate::list::{Browse, List};

#[derive(Debug, Clone)]
pub struct Setup {
    /// Whether it shows this machine instead of a cluster.
    pub is_machine: bool,
    pub colors: bool,
    pub ascii: bool,
    /// The reader's user name.
    pub me: String,
    /// Writes times.
    pub clock: Clock,
    /// The time between two readings.
    pub every: Millis,
}

pub struct Top {
    pub(crate) setup: Setup,
    pub(crate) lists: Lists,
    pub(crate) pane: Pane,
    /// The list that the detail pane follows.
    pub(crate) list: Pane,
    pub(crate) shows: Shows,
    pub(crate) mode: Mode,
    pub(crate) is_zoomed: bool,
    pub(crate) status: Option<Status>,
    pub(crate) machine: Option<MachineInfo>,
    pub(crate) history: History,
    /// Number of jobs, if it is larger than that of the list.
    pub(crate) n_jobs: Option<u64>,
    /// The explanation of a job, by its ID.
    pub(crate) why: Option<(String, String)>,
    /// The output of a job, by its ID.
    pub(crate) log: Option<(String, String)>,
    /// Lines that the detail pane is scrolled by.
    pub(crate) scroll: usize,
    /// Whether it scrolls back from the end, as output does.
    pub(crate) is_at_end: bool,
    /// Why there are no new data.
    pub(crate) away: Option<String>,
    /// The result of the last action.
    pub(crate) message: Option<String>,
    /// Height of the lists and of the detail pane in the last picture, for keys that move by pages.
    pub(crate) page: usize,
}

pub(crate) enum Lists {
    Cluster { gpus: List<GpuRow>, jobs: List<Job> },
    Machine { gpus: List<Gpu>, processes: List<Process> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pane {
    Gpus,
    /// Jobs of a cluster, or processes of a machine.
    Second,
    /// The selected row.
    Detail,
}

/// The contents of the detail pane for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shows {
    /// The most useful of the others.
    Overview,
    Chart,
    Log,
    Why,
}

/// What the next key means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A command.
    Browse,
    /// Anything leaves the help.
    Help,
    /// A letter of the filter; the text is the filter before.
    Filter(String),
    /// The letter of a sort order.
    Sort,
    /// The answer to a question.
    Confirm(Confirmation),
}

impl Top {
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let lists = match setup.is_machine {
            true => Lists::Machine {
                gpus: List::new(&MACHINE_GPUS_LIST),
                processes: List::new(&PROCESSES_LIST),
            },
            false => Lists::Cluster { gpus: List::new(&GPUS_LIST), jobs: List::new(&JOBS_LIST) },
        };
        Self {
            setup,
            lists,
            pane: Pane::Second,
            list: Pane::Second,
            shows: Shows::Overview,
            mode: Mode::Browse,
            is_zoomed: false,
            status: None,
            machine: None,
            history: History::default(),
            n_jobs: None,
            why: None,
            log: None,
            scroll: 0,
            is_at_end: false,
            away: None,
            message: None,
            page: 1,
        }
    }

    pub fn take(&mut self, news: News, now: Time) {
        if !matches!(news, News::Away(_) | News::Message(_)) {
            self.away = None;
        }
        let setup = self.setup.clone();
        let view = Self::view(&setup, now);
        match news {
            News::Cluster(status, all) => {
                self.history.add(&all);
                self.status = Some(*status);
                if let Lists::Cluster { gpus, jobs } = &mut self.lists {
                    gpus.replace(rows(all, &remaining_times(jobs.rows(), &view)), &view);
                }
            }
            News::Past(past) => {
                if let Lists::Cluster { gpus, .. } = &self.lists {
                    let gpus: Vec<&Gpu> = gpus.rows().iter().map(|row| &row.gpu).collect();
                    self.history.begin(&past, &gpus, setup.every, now);
                }
            }
            News::Jobs(all, total) => {
                self.n_jobs = total.filter(|total| usize::try_from(*total) != Ok(all.len()));
                if let Lists::Cluster { jobs, .. } = &mut self.lists {
                    jobs.replace(all, &view);
                }
            }
            News::Machine(machine, all, found) => {
                self.history.add(&all);
                let memory = ratio(machine.memory_used, machine.memory_total);
                self.history.add_one(History::MACHINE, machine.cpu, Some(memory));
                self.machine = Some(*machine);
                if let Lists::Machine { gpus, processes } = &mut self.lists {
                    gpus.replace(all, &view);
                    processes.replace(found, &view);
                }
            }
            News::Why { job, text } => self.why = Some((job, text)),
            News::Log { job, text } => self.log = Some((job, text)),
            News::Away(why) => self.away = Some(why),
            News::Message(text) => self.message = Some(text),
        }
    }

    /// The job that the view needs explanation and output of.
    #[must_use]
    pub fn wants(&self) -> Option<&Job> {
        match &self.lists {
            Lists::Cluster { gpus, jobs } => match self.list {
                Pane::Gpus => {
                    let job = gpus.selected()?.gpu.job.as_ref()?;
                    jobs.rows().iter().find(|it| it.id == *job)
                }
                Pane::Second | Pane::Detail => jobs.selected(),
            },
            Lists::Machine { .. } => None,
        }
    }

    /// Takes a key; returns the request that follows from it.
    pub fn key(&mut self, key: Key) -> Option<TopCommand> {
        if key == Key::Interrupt {
            return Some(TopCommand::Quit);
        }
        self.message = None;
        match std::mem::replace(&mut self.mode, Mode::Browse) {
            Mode::Browse => return self.command(key),
            Mode::Help => {}
            Mode::Filter(before) => self.filter(key, before),
            Mode::Sort => {
                if let Key::Char(letter) = key {
                    self.rows().sort_by(letter);
                }
            }
            Mode::Confirm(question) => match key {
                Key::Char('y' | 'Y') => {
                    self.rows().untag();
                    return Some(question.ask);
                }
                _ => self.message = Some(format!("not done: {}", question.text)),
            },
        }
        None
    }

    fn command(&mut self, key: Key) -> Option<TopCommand> {
        let page = isize::try_from(self.page.max(1)).unwrap_or(isize::MAX);
        match key {
            Key::Char('q') => return Some(TopCommand::Quit),
            Key::Char('r') => return Some(TopCommand::Refresh),
            Key::Char('?') => self.mode = Mode::Help,
            Key::Tab | Key::BackTab => self.next_pane(key == Key::Tab),
            Key::Up | Key::Char('k') => self.step(-1),
            Key::Down | Key::Char('j') => self.step(1),
            Key::PageUp => self.step(-page),
            Key::PageDown => self.step(page),
            Key::Home | Key::Char('g') => self.step(isize::MIN),
            Key::End | Key::Char('G') => self.step(isize::MAX),
            Key::Left | Key::Char('h') => self.turn(false),
            Key::Right | Key::Char('l') => self.turn(true),
            Key::Enter | Key::Char('z') => self.is_zoomed = !self.is_zoomed,
            Key::Char('/') => self.mode = Mode::Filter(self.rows().filter().to_owned()),
            Key::Char('o') => self.mode = Mode::Sort,
            Key::Char(',') => self.rows().sort_next(false),
            Key::Char('.') => self.rows().sort_next(true),
            Key::Char('!') => self.rows().reverse(),
            Key::Char(' ') => self.rows().tag(),
            Key::Escape => self.escape(),
            Key::Char(letter) => match self.question(letter) {
                Ok(question) => self.mode = question.map_or(Mode::Browse, Mode::Confirm),
                Err(why) => self.message = Some(why),
            },
            Key::Interrupt | Key::Backspace => {}
        }
        None
    }

    /// The question for a key: about tagged jobs, the selected one, or that of the selected GPU.
    fn question(&self, letter: char) -> Result<Option<Confirmation>, String> {
        match &self.lists {
            Lists::Cluster { jobs, .. } => {
                let mut chosen = jobs.tagged();
                if chosen.is_empty() {
                    chosen.extend(self.wants());
                }
                confirm::of_jobs(letter, &chosen)
            }
            Lists::Machine { processes, .. } => confirm::of_process(letter, processes.selected()),
        }
    }

    /// The list with the focus, or the one that the detail pane follows.
    pub(crate) fn rows(&mut self) -> &mut dyn Browse {
        self.list_of(self.list)
    }

    pub(crate) fn list_of(&mut self, pane: Pane) -> &mut dyn Browse {
        match (&mut self.lists, pane) {
            (Lists::Cluster { gpus, .. }, Pane::Gpus) => gpus,
            (Lists::Cluster { jobs, .. }, Pane::Second | Pane::Detail) => jobs,
            (Lists::Machine { gpus, .. }, Pane::Gpus) => gpus,
            (Lists::Machine { processes, .. }, Pane::Second | Pane::Detail) => processes,
        }
    }

    pub(crate) fn view<'a>(setup: &'a Setup, now: Time) -> View<'a> {
        View { clock: &setup.clock, now, me: &setup.me }
    }

    fn next_pane(&mut self, is_forward: bool) {
        const PANES: [Pane; 3] = [Pane::Gpus, Pane::Second, Pane::Detail];
        let at = PANES.iter().position(|pane| *pane == self.pane).unwrap_or(0);
        self.pane = PANES[(at + if is_forward { 1 } else { 2 }) % 3];
        if self.pane != Pane::Detail {
            self.list = self.pane;
            self.scroll = 0;
        }
    }

    fn step(&mut self, by: isize) {
        if self.pane == Pane::Detail {
            let by = if self.is_at_end { by.saturating_neg() } else { by };
            self.scroll = self.scroll.saturating_add_signed(by);
            return;
        }
        self.scroll = 0;
        self.rows().step(by);
    }

    /// Shows the next or previous contents of the detail pane.
    fn turn(&mut self, is_forward: bool) {
        const ALL: [Shows; 4] = [Shows::Overview, Shows::Chart, Shows::Log, Shows::Why];
        let at = ALL.iter().position(|it| *it == self.shows).unwrap_or(0);
        self.shows = ALL[(at + if is_forward { 1 } else { 3 }) % 4];
        self.scroll = 0;
    }

    fn filter(&mut self, key: Key, before: String) {
        let mut text = self.rows().filter().to_owned();
        match key {
            Key::Enter => return,
            Key::Escape => return self.rows().filter_by(before),
            Key::Char(letter) => text.push(letter),
            Key::Backspace => {
                text.pop();
            }
            Key::Up => self.rows().step(-1),
            Key::Down => self.rows().step(1),
            _ => {}
        }
        self.rows().filter_by(text);
        self.mode = Mode::Filter(before);
    }

    /// Undoes the most recent kind of narrowing.
    fn escape(&mut self) {
        if std::mem::take(&mut self.is_zoomed) || self.rows().untag() {
            return;
        }
        self.rows().filter_by(String::new());
    }
}

/// The remaining time of each running job with a time limit.
fn remaining_times(jobs: &[Job], view: &View<'_>) -> BTreeMap<String, Millis> {
    let remaining_time = |job: &Job| {
        let limit = words::limit(job)?;
        Some((job.id.clone(), limit.saturating_sub(ran(job, view)?)))
    };
    jobs.iter().filter_map(remaining_time).collect()
}
