//! A full-screen view of a queue simulation while it runs: slowed down to be readable, and
//! controlled by keys.

pub mod pace;
mod shown;
pub mod view;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpool_cli::failure::Result;
use gpool_cli::session::Session;
use gpool_cli::terminal::full::FullScreen;
use gpool_cli::terminal::keys::{ViewKey, keys};
use gpool_model::{MilliGpu, Millis, Timestamp};
use gpool_trace::Layout;
use gpool_trace::scene::Scene;

use self::pace::Pace;
pub use self::pace::Speed;
pub use self::shown::{Shown, needs_terminal};
use self::view::View;
use crate::render::cluster_grid::{Grid, Owners};
use crate::simulate::progress::{Extent, FRAME, Progress, words};

/// Interval of redraws while paused, so that a resized window is noticed.
const PAUSED: Duration = Duration::from_millis(250);

/// The simulation to watch.
#[derive(Debug, Clone)]
pub struct Watched {
    /// The time range of the trace.
    pub extent: Extent,
    /// The cluster.
    pub layout: Layout,
    /// Number of policies.
    pub n_policies: usize,
    /// The initial speed; `None` makes it take about a minute.
    pub speed: Option<Speed>,
}

/// The flags that end the simulation.
#[derive(Debug, Clone)]
pub struct Ending {
    /// Whether no more jobs arrive.
    pub stop: Arc<AtomicBool>,
    /// Whether the terminal is restored, so that a signal may end this program at once.
    pub is_left: Arc<AtomicBool>,
}

/// The view of a running simulation.
pub struct Watch<'s> {
    session: &'s Session,
    watched: Watched,
    ending: Ending,
    /// `None` once the user has left.
    full: Option<FullScreen>,
    pace: Pace,
    progress: Progress,
    policy: String,
    /// Average waits under the completed policies, in milliseconds.
    before: Vec<(String, f64)>,
    owners: Owners,
    waited: Waited,
    began: Instant,
    /// Time of the next redraw.
    draws_at: Duration,
    /// Time spent waiting for the display.
    idle: Duration,
}

/// Waits of ended jobs.
#[derive(Debug, Clone, Copy, Default)]
struct Waited {
    sum: Millis,
    n: usize,
}

impl Waited {
    /// Adds the jobs that have ended since.
    fn and(&mut self, scene: &dyn Scene) {
        for job in scene.ended().get(self.n..).unwrap_or_default() {
            self.sum = self.sum.saturating_add(job.wait());
            self.n += 1;
        }
    }

    fn average(self) -> f64 {
        self.sum.get() as f64 / self.n.max(1) as f64
    }
}

impl<'s> Watch<'s> {
    /// Starts the full-screen view.
    ///
    /// # Errors
    /// There is no suitable terminal.
    pub fn start(session: &'s Session, watched: Watched, ending: Ending) -> Result<Self> {
        let full = FullScreen::enter(&ending.is_left)?;
        let extent = watched.extent;
        let n = u64::try_from(watched.n_policies).unwrap_or(u64::MAX);
        let span = Millis::new(extent.until.since(extent.first).get().saturating_mul(n));
        Ok(Self {
            session,
            ending,
            full: Some(full),
            pace: Pace::new(watched.speed.unwrap_or_else(|| Speed::of_whole(span))),
            progress: Progress::new(watched.n_policies),
            watched,
            policy: String::new(),
            before: Vec::new(),
            owners: Owners::default(),
            waited: Waited::default(),
            began: Instant::now(),
            draws_at: Duration::ZERO,
            idle: Duration::ZERO,
        })
    }

    /// Starts a policy.
    pub fn begin(&mut self, policy: &str) {
        policy.clone_into(&mut self.policy);
        self.waited = Waited::default();
        self.pace.go_from(self.watched.extent.first, self.began.elapsed());
    }

    /// Shows the cluster until the next event.
    pub fn look(&mut self, scene: &dyn Scene, until: Timestamp, n_come: u64) {
        while self.full.is_some() {
            let at = self.began.elapsed();
            if self.draws_at <= at {
                self.draw(scene, self.pace.now(until, at), n_come);
                let drawn_at = self.began.elapsed();
                // If drawing is slow, half of the time is left for the simulation.
                self.draws_at = drawn_at + FRAME.max(drawn_at.saturating_sub(at));
                self.heed(until, Duration::ZERO);
                continue;
            }
            let Some(wait) = self.pace.wait(until, at) else { return };
            let frame = if self.pace.is_paused() { PAUSED } else { self.draws_at - at };
            self.heed(until, wait.min(frame));
            self.idle += self.began.elapsed().saturating_sub(at);
        }
    }

    /// Completes the policy.
    pub fn end(&mut self) {
        self.before.push((std::mem::take(&mut self.policy), self.waited.average()));
        self.progress.next(self.busy(self.began.elapsed()));
    }

    /// The time spent on the simulation itself.
    fn busy(&self, at: Duration) -> Duration {
        at.saturating_sub(self.idle)
    }

    /// Waits for keys and acts on them.
    fn heed(&mut self, until: Timestamp, timeout: Duration) {
        if self.ending.stop.load(Ordering::Relaxed) {
            return self.leave();
        }
        let Some(full) = &self.full else { return };
        let Ok(typed) = full.typed(timeout) else {
            let ending = full.ending();
            self.leave();
            if let Some(signal) = ending {
                // The terminal is restored, so this ends the program.
                let _ = signal_hook::low_level::raise(signal);
            }
            return;
        };
        for key in keys(&typed) {
            let at = self.began.elapsed();
            self.draws_at = at;
            match key {
                ViewKey::End => return self.leave(),
                ViewKey::Pause => self.pace.pause(until, at),
                ViewKey::Faster => self.pace.faster(until, at),
                ViewKey::Slower => self.pace.slower(until, at),
            }
        }
    }

    /// No more jobs arrive, and the rest of the run is not shown.
    fn leave(&mut self) {
        self.ending.stop.store(true, Ordering::Relaxed);
        self.full = None;
    }

    fn draw(&mut self, scene: &dyn Scene, now: Timestamp, n_come: u64) {
        self.waited.and(scene);
        let places = self.watched.layout.nodes.iter();
        let mut nodes: Vec<_> = places.map(|it| vec![None; it.n_gpus as usize]).collect();
        let mut waiting = BTreeMap::<u32, u64>::new();
        let mut n_running = 0;
        for job in scene.live() {
            let Some(devices) = job.devices else {
                *waiting.entry(n_devices(job.gpus)).or_default() += 1;
                continue;
            };
            n_running += 1;
            let owner = self.owners.number(job.owner);
            for (node, ix) in devices {
                let device = nodes.get_mut(*node as usize).and_then(|it| it.get_mut(*ix as usize));
                if let Some(device) = device {
                    *device = Some(owner);
                }
            }
        }
        let extent = &self.watched.extent;
        let part = extent.part(n_come, scene.n_live());
        let left = self.left(now, part);
        let screen = &self.session.screen;
        let view = View {
            policy: &format!("{}{}", self.policy, self.progress.place()),
            when: &format!("{}, {}", extent.day(now), extent.time(now)),
            grid: Grid { owners: &self.owners, nodes: &nodes, ascii: screen.ascii },
            n_running,
            waiting: &waiting,
            waited: (self.waited.sum, self.waited.n as u64),
            before: &self.before,
            progress: &words(self.progress.part(part), left),
            speed: &self.pace.speed().to_string(),
            is_paused: self.pace.is_paused(),
        };
        let Some(full) = &mut self.full else { return };
        let (columns, lines) = full.size();
        let shown = full.show(screen, &view.rows(columns, lines), columns);
        if shown.is_err() {
            self.leave();
        }
    }

    /// The remaining time: at this speed, or as long as the simulation needs.
    fn left(&self, now: Timestamp, part: f64) -> Option<Duration> {
        let Extent { first, until, .. } = self.watched.extent;
        let n_after = u32::try_from(self.progress.n_after()).unwrap_or(u32::MAX);
        let others = self.pace.takes(until.since(first)).saturating_mul(n_after);
        let shown = self.pace.takes(until.since(now)).saturating_add(others);
        let busy = self.busy(self.began.elapsed());
        let worked = self.progress.left(busy, part);
        match self.pace.speed() {
            Speed::Most => worked,
            Speed::PerSecond(_) => Some(worked.map_or(shown, |worked| worked.max(shown))),
        }
    }
}

/// Number of devices, with fractions rounded up.
fn n_devices(gpus: MilliGpu) -> u32 {
    u32::try_from(gpus.div_ceil(MilliGpu::DEVICE.get()).get()).unwrap_or(u32::MAX)
}
