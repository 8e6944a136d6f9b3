//! The data of a cluster, through the API.

use std::io::Read as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use gpool_cli::exit::Exit;
use gpool_cli::failure::Failure;
use gpool_cli::render::clock::{self, Clock};
use gpool_cli::render::view::View;
use gpool_cli::render::words::{count, state};
use gpool_client::{Client, Error, JobsQuery, LogQuery, LogStream};
use gpool_model::job::JobState;
use gpool_model::{JobVerb, Millis, Timestamp};
use gpool_top::data::News;
use gpool_top::history::MOST;
use gpool_top::input::TopCommand;
use gpool_wire::usage::GpuHistoryParams;
use gpool_wire::{Job, Time};

use super::screen::{Looked, Wish};
use gpool_verbs::render::why::page;

const JOBS_MAX: usize = 10_000;
/// Lines of output that are read.
const LINES: u64 = 200;
/// Most bytes of these lines that are read and kept: a line may be long.
const BYTES_MAX: u64 = 1 << 22;
/// Bytes of output that are kept.
const TAIL_BYTES: usize = 1 << 16;
/// The longest time before the first reading: agents have an hour in full.
const PAST_MAX: Millis = Millis::from_mins(59);
/// Values of each series of that time, over all GPUs.
const VALUES_MAX: usize = 1 << 16;
/// With fewer values for each GPU, that time is not read.
const POINTS_MIN: usize = 30;
/// Shortest time between two readings of all jobs.
const PAUSE: Duration = Duration::from_millis(200);
/// Time after which jobs are read again without an event.
const STALE: Duration = Duration::from_secs(15);
/// Time after which an explanation is read again.
const WHY_STALE: Duration = Duration::from_secs(10);

/// Reads the data of a cluster.
pub struct Feed {
    client: Client,
    clock: Clock,
    me: String,
    tell: Sender<News>,
    looked: Option<Looked>,
    /// When the jobs were last read completely, and how long that took.
    jobs_read: Option<(Instant, Duration)>,
    have_changed: bool,
    why_read: Option<Instant>,
    /// The distance of readings; `None` once the time before the first one was read.
    past: Option<Millis>,
}

impl Feed {
    /// A feed that tells its news to the view.
    pub fn new(client: Client, clock: Clock, me: String, tell: Sender<News>) -> Self {
        Self {
            client,
            clock,
            me,
            tell,
            looked: None,
            jobs_read: None,
            have_changed: true,
            why_read: None,
            past: None,
        }
    }

    /// Reads at the interval and as the view wishes, until the view ends.
    pub fn serve(mut self, every: Millis, asked: &Receiver<Wish>) {
        self.past = Some(every);
        let every = Duration::from_millis(every.get());
        loop {
            if self.read().is_err() {
                return;
            }
            let mut due = Instant::now() + every;
            loop {
                match asked.recv_timeout(due.saturating_duration_since(Instant::now())) {
                    Ok(Wish::Ask(ask)) => {
                        if self.act(ask).is_err() {
                            return;
                        }
                        break;
                    }
                    Ok(Wish::Look(looked)) => {
                        self.looked = looked;
                        self.why_read = None;
                        if self.read_looked().is_err() {
                            return;
                        }
                    }
                    Ok(Wish::Changed) => {
                        self.have_changed = true;
                        due = due.min(Instant::now() + self.pause());
                    }
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        }
    }

    /// The time to wait before jobs are read again, so that a large queue does not keep the server
    /// busy.
    fn pause(&self) -> Duration {
        self.jobs_read.map_or(PAUSE, |(_, took)| PAUSE.max(took.saturating_mul(4)))
    }

    /// Reads everything that is due.
    fn read(&mut self) -> Result<(), ViewClosed> {
        let cluster = self.client.status().and_then(|status| Ok((status, self.client.gpus()?)));
        match cluster {
            Ok((status, gpus)) => {
                let n_gpus = gpus.items.len();
                self.say(News::Cluster(Box::new(status), gpus.items))?;
                self.read_past(n_gpus)?;
            }
            Err(error) => return self.say(away(error)),
        }
        let is_due = match self.jobs_read {
            None => true,
            Some((at, _)) if self.have_changed => at.elapsed() >= self.pause(),
            Some((at, _)) => at.elapsed() >= STALE,
        };
        if is_due {
            let began = Instant::now();
            self.have_changed = false;
            match self.jobs() {
                Ok((jobs, total)) => self.say(News::Jobs(jobs, total))?,
                Err(error) => return self.say(away(error)),
            }
            self.jobs_read = Some((Instant::now(), began.elapsed()));
        }
        self.read_looked()
    }

    /// Reads the use of GPUs before the first reading, so that charts begin with it.
    fn read_past(&mut self, n_gpus: usize) -> Result<(), ViewClosed> {
        let Some(every) = self.past.take() else { return Ok(()) };
        let n_points = (VALUES_MAX / n_gpus.max(1)).min(MOST);
        if n_points < POINTS_MIN {
            return Ok(());
        }
        let span = every.get().saturating_mul(MOST as u64).min(PAST_MAX.get());
        let asked = GpuHistoryParams {
            since: Some(Time(Timestamp::new(clock::now().0.get().saturating_sub(span)))),
            points: u32::try_from(n_points).ok(),
            series: Some("utilization,memory_used".to_owned()),
            ..GpuHistoryParams::default()
        };
        match self.client.gpu_history(&asked) {
            Ok(past) => self.say(News::Past(Box::new(past))),
            // The charts begin with the first reading then.
            Err(_) => Ok(()),
        }
    }

    fn jobs(&self) -> Result<(Vec<Job>, Option<u64>), Error> {
        let mut query = JobsQuery { limit: Some(1000), ..JobsQuery::default() };
        let (mut jobs, mut total) = (Vec::new(), None);
        loop {
            let page = self.client.jobs(&query)?;
            jobs.extend(page.items);
            total = total.or(page.total);
            query.cursor = page.next_cursor;
            if query.cursor.is_none() || jobs.len() >= JOBS_MAX {
                return Ok((jobs, total));
            }
        }
    }

    /// Reads the explanation and the output of the job that the view shows.
    fn read_looked(&mut self) -> Result<(), ViewClosed> {
        let Some(Looked { id, state }) = self.looked.clone() else { return Ok(()) };
        if self.why_read.is_none_or(|at| at.elapsed() >= WHY_STALE) {
            self.why_read = Some(Instant::now());
            if let Ok(why) = self.client.why_briefly(&id) {
                let view = View { clock: &self.clock, now: clock::now(), me: &self.me };
                self.say(News::Why { job: id.clone(), text: page(&why, &view) })?;
            }
        }
        let has_output = !matches!(state, JobState::Held | JobState::Waiting | JobState::Pending);
        if has_output && let Some(text) = self.output(&id) {
            self.say(News::Log { job: id, text })?;
        }
        Ok(())
    }

    /// The end of a job's output; `None` if there is none, as for an array.
    fn output(&self, id: &str) -> Option<String> {
        let query = LogQuery { stream: LogStream::Both, tail: Some(LINES), ..LogQuery::default() };
        let mut bytes = Vec::new();
        let logs = self.client.logs(id, &query).ok()?;
        logs.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
        let from = bytes.len().saturating_sub(TAIL_BYTES);
        Some(String::from_utf8_lossy(&bytes[from..]).into_owned())
    }

    fn act(&mut self, ask: TopCommand) -> Result<(), ViewClosed> {
        self.jobs_read = None;
        match ask {
            TopCommand::Act { verb, jobs } => {
                let said = self.apply(verb, &jobs);
                self.say(News::Message(said))
            }
            TopCommand::Refresh | TopCommand::Quit | TopCommand::Signal { .. } => Ok(()),
        }
    }

    /// Applies a verb and describes the result. The server checks the rights.
    fn apply(&self, verb: JobVerb, jobs: &[String]) -> String {
        match self.client.act(verb, jobs) {
            Ok(changed) => match changed.items.as_slice() {
                [job] => format!("job {}: {}", job.id, state(job.state.as_str())),
                all => format!("{}: {}", verb.name(), count(all.len() as u64, "job")),
            },
            Err(error) => format!("can't {}: {}", verb.name(), Failure::from(error).what()),
        }
    }

    fn say(&self, news: News) -> Result<(), ViewClosed> {
        self.tell.send(news).map_err(|_| ViewClosed)
    }
}

struct ViewClosed;

fn away(error: Error) -> News {
    let failure = Failure::from(error);
    News::Away(match failure.exit() == Exit::UNREACHABLE {
        true => "no server answers; running jobs continue".to_owned(),
        false => failure.what().to_owned(),
    })
}
