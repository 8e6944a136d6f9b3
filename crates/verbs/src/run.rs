//! `gpool run`: submits a job and attaches to it: its output appears here, and its exit code
//! becomes the exit code of this command. The first Ctrl-C detaches, a second one soon after
//! cancels the job; TERM, HUP and QUIT cancel it.

use std::io::{IsTerminal as _, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use clap::Args;
use gpool_cli::act::cancel_living;
use gpool_cli::args::job_flags::JobFlags;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::follow;
use gpool_cli::hand_in::{dry_run, hand_in, note_terms, say, waits};
use gpool_cli::labelled::{self, Labelled};
use gpool_cli::render::json;
use gpool_cli::render::words;
use gpool_cli::request::{self, Request};
use gpool_cli::script::Script;
use gpool_cli::session::Session;
use gpool_cli::terminal::{no_terminal, window};
use gpool_client::{Client, LogQuery, LogStream};
use gpool_model::Compat;
use gpool_model::job::JobState;
use gpool_sys::proc;
use gpool_wire::Job;
use gpool_wire::field::heading;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::attach::{self, KeysFlag};
use super::download;
use crate::console::{DetachKeys, Leaving, Stayed};
use crate::outcome::exit_of_job;
use crate::render::job::headline;

/// Time within which a second Ctrl-C cancels the job.
const TWICE_WITHIN: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Args)]
#[command(
    args_override_self = true,
    after_help = "The exit code is the job's own: 128+n if signal n ended it, 124 at its time \
    limit, 137 out of memory, 125 if it could not be started. 2 to 7: refused, nothing ran. \
    Ctrl-C once detaches (exit code 130), twice cancels the job. TERM, HUP and QUIT cancel it. \
    The job does not get standard input; --stdin FILE gives it a file to read."
)]
pub struct RunArgs {
    #[command(flatten)]
    flags: JobFlags,
    /// Print the ID of the job, and do not wait for it
    #[arg(long, help_heading = heading::SUBMISSION)]
    detach: bool,
    /// Run the job on a terminal, shown here
    #[arg(long, help_heading = heading::STREAMS)]
    pty: bool,
    #[command(flatten, next_help_heading = heading::STREAMS)]
    keys: KeysFlag,
    /// Check the job without submitting it
    #[arg(long, help_heading = heading::SUBMISSION)]
    dry_run: bool,
    /// Command and its arguments. One quoted line runs in a shell. A script with # GPOOL, # GFLOW
    /// or #SBATCH lines is submitted as by submit, unless -- precedes it
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    #[arg(help_heading = None::<&'static str>)]
    words: Vec<String>,
}

/// Runs the verb. `is_command` says whether `--` precedes the words.
pub fn run(args: RunArgs, is_command: bool, session: &Session) -> Result {
    if session.global.json && !args.detach && !args.dry_run {
        let what = "run has no --json: standard output is that of the job";
        return Err(Failure::new(errors::USAGE, what)
            .tip("gpool submit --json -- COMMAND")
            .tip("gpool run --detach --json -- COMMAND"));
    }
    let script = if is_command { None } else { Script::with_directives(&args.words[0])? };
    let mut request = match script {
        Some(script) => request::of_script(args.flags, &script, &args.words[1..])?,
        None => request::of_command(args.flags, &args.words)?,
    };
    if request.job.array.is_some() || request.job.has_values() {
        let what = "run follows one job, and this is an array";
        return Err(Failure::new(errors::USAGE, what)
            .tip("gpool submit … -- COMMAND; gpool wait @")
            .tip("gpool logs -f 1842.3   (follows one element)"));
    }
    if args.pty {
        let here = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        if !here && !args.detach && !args.dry_run {
            return Err(no_terminal("--pty").tip("gpool run --pty --detach -- COMMAND"));
        }
        request.job.pty = Some(window());
    }
    let client = session.client()?;
    request.resolve(&client, session)?;
    if args.pty && !args.detach && !args.dry_run {
        return on_terminal(&client, session, &request, &args.keys.detach_keys);
    }
    say(&request, session);
    if args.dry_run {
        return dry_run(&client, &request.job, session);
    }
    // Before the submission, Ctrl-C ends this program; afterwards it detaches or cancels the job.
    let job = hand_in(&client, &request)?;
    note_terms(&job, session);
    if args.detach {
        session.screen.data(&match session.global.json {
            true => json::one(&job),
            false => format!("{}\n", job.id),
        })?;
        return Ok(Exit::OK);
    }
    let is_place_known = !job.placement.is_empty();
    let client = session.patient(client);
    Attached { client, session, job, is_place_known }.stay()
}

/// Submits a job with its own terminal, and shows the terminal here once the job runs.
pub fn on_terminal(
    client: &Client,
    session: &Session,
    request: &Request,
    keys: &DetachKeys,
) -> Result {
    say(request, session);
    let job = hand_in(client, request)?;
    let is_place_known = !job.placement.is_empty();
    let patient = session.patient(client.clone());
    let mut attached = Attached { client: patient, session, job, is_place_known };
    if let Some(exit) = attached.until_started()? {
        return Ok(exit);
    }
    let id = &attached.job.id;
    let stayed = attach::stay(client, session, (id, None), (keys, false))?;
    if let Stayed::Disconnected(Leaving::Signal(signal)) = stayed {
        // A closed window leaves the job, so that the user can come back; srun ends it.
        let is_slurms =
            attached.job.request.compat.iter().any(|compat| compat == Compat::Slurm.as_str());
        if signal != SIGHUP || is_slurms {
            attached.cancel()?;
        }
    }
    attach::finish(&attached.client, session, stayed, (id, false))
}

/// An event while attached to a job.
enum Happening {
    Interrupted,
    /// TERM, HUP or QUIT: the job ends with this program.
    Ended(i32),
    Changed(Box<Job>),
    /// One of its two output streams has ended or can't be read.
    StreamEnded(Result<()>),
    /// The server stays away, or there is no such job.
    Lost(Failure),
}

struct Attached<'s> {
    client: Client,
    session: &'s Session,
    job: Job,
    /// Whether the nodes of the job were printed.
    is_place_known: bool,
}

impl Attached<'_> {
    fn stay(mut self) -> Result {
        let (tell, happenings) = self.begin()?;
        let ranks = labelled::ranks(&self.job);
        for stream in [LogStream::Stdout, LogStream::Stderr] {
            for rank in &ranks {
                stream_out(self.client.clone(), &self.job, (stream, *rank), tell.clone());
            }
        }
        drop(tell);
        let n_streams = u32::try_from(2 * ranks.len()).unwrap_or(u32::MAX);
        self.until(&happenings, n_streams, &|_| false)?.ok_or_else(nobody)
    }

    /// Waits until the program runs; `None` if it has started.
    fn until_started(&mut self) -> Result<Option<Exit>> {
        let (tell, happenings) = self.begin()?;
        let n_streams = u32::from(self.job.setup_job.is_some());
        if let Some(setup) = self.job.setup_job.clone() {
            let client = self.client.clone();
            std::thread::spawn(move || {
                drop(tell.send(Happening::StreamEnded(copy_setup(&client, &setup))))
            });
        }
        self.until(&happenings, n_streams, &|job| job.run.started_at.is_some())
    }

    fn begin(&self) -> Result<(Sender<Happening>, Receiver<Happening>)> {
        let screen = &self.session.screen;
        screen.note(&headline(&self.job));
        if let Some(why) = waits(&self.job, &self.session.view()) {
            screen.note(&why);
        }
        let (tell, happenings) = channel();
        catch_signals(tell.clone())?;
        watch(self.client.clone(), self.job.id.clone(), tell.clone());
        Ok((tell, happenings))
    }

    /// Waits until all streams and the job have ended; returns `None` if `is_wanted` holds before
    /// that.
    fn until(
        &mut self,
        happenings: &Receiver<Happening>,
        mut n_streams: u32,
        is_wanted: &dyn Fn(&Job) -> bool,
    ) -> Result<Option<Exit>> {
        let mut interrupted: Option<Instant> = None;
        let mut cancelled = false;
        let mut ended_by: Option<i32> = None;
        loop {
            if is_wanted(&self.job) {
                return Ok(None);
            }
            if n_streams == 0
                && let Some(exit) = exit_of_job(&self.job)
            {
                self.say_end();
                self.fetch_results();
                return Ok(Some(ended_by.map_or(exit, exit_of_signal)));
            }
            let left = interrupted.map(|at| TWICE_WITHIN.saturating_sub(at.elapsed()));
            let happening = match happenings.recv_timeout(left.unwrap_or(TWICE_WITHIN)) {
                Ok(happening) => happening,
                Err(RecvTimeoutError::Timeout) if left.is_some() => return Ok(Some(self.detach())),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Err(nobody()),
            };
            match happening {
                Happening::Changed(job) => self.change(*job),
                Happening::StreamEnded(Ok(())) => n_streams -= 1,
                Happening::StreamEnded(Err(failure)) | Happening::Lost(failure) => {
                    // Only the connection failed; the job goes on.
                    self.say_detached();
                    return Err(failure);
                }
                // Twice means at once.
                Happening::Ended(signal) if ended_by.is_some() => {
                    return Ok(Some(exit_of_signal(signal)));
                }
                Happening::Ended(signal) => {
                    (interrupted, cancelled, ended_by) = (None, true, Some(signal));
                    self.cancel()?;
                }
                Happening::Interrupted if cancelled => return Ok(Some(self.detach())),
                Happening::Interrupted if interrupted.is_some() => {
                    (interrupted, cancelled) = (None, true);
                    self.cancel()?;
                }
                Happening::Interrupted => {
                    interrupted = Some(Instant::now());
                    self.session
                        .screen
                        .note("detaching from the job; press Ctrl-C again now to cancel it");
                }
            }
        }
    }

    fn cancel(&self) -> Result<()> {
        self.session.screen.note(&format!("cancelling job {}", self.job.id));
        cancel_living(&self.client, std::slice::from_ref(&self.job.id))
    }

    fn detach(&self) -> Exit {
        self.say_detached();
        Exit::DETACHED
    }

    fn say_detached(&self) {
        let id = &self.job.id;
        let text =
            format!("detached; job {id} continues.   gpool logs -f {id}   gpool cancel {id}");
        self.session.screen.note(&text);
    }

    fn change(&mut self, job: Job) {
        if !self.is_place_known && job.run.started_at.is_some() {
            self.is_place_known = true;
            let waited = gpool_cli::render::clock::span(job.wait.waited_s);
            let place = words::places(&job.placement);
            let text = format!(
                "started on {place} after {waited}. Ctrl-C once to detach, twice to cancel."
            );
            self.session.screen.note(&gpool_cli::render::safe::safe(&text));
        }
        // Its node lacked something, or pulls its image.
        let is_put_off =
            matches!(job.state, JobState::Held | JobState::Waiting) && job.state != self.job.state;
        if is_put_off && let Some(why) = waits(&job, &self.session.view()) {
            self.session.screen.note(&why);
        }
        self.job = job;
    }

    /// Fetches the results of a job that asks for some. The exit code stays that of the job.
    fn fetch_results(&self) {
        let has_run = self.job.run.started_at.is_some();
        if self.job.request.download.is_empty() || !has_run {
            return;
        }
        if let Err(failure) = download::after_run(&self.client, &self.job.id, self.session) {
            let id = &self.job.id;
            self.session.screen.warn(&format!("the results of job {id} were not fetched"));
            self.session.screen.fail(&failure);
        }
    }

    /// Prints the cause of the end if the exit code does not show it.
    fn say_end(&self) {
        if let (Some(why), false) =
            (&self.job.run.cause_text, self.job.state == JobState::Succeeded)
        {
            let state = words::state(self.job.state.as_str());
            // Some causes begin with the state: cancelled by root.
            let text = match why.starts_with(&*state) {
                true => format!("job {} {why}", self.job.id),
                false => format!("job {} {state}: {why}", self.job.id),
            };
            self.session.screen.note(&gpool_cli::render::safe::safe(&text));
        }
    }
}

fn nobody() -> Failure {
    Failure::new(errors::INTERNAL, "everything that listened ended")
}

/// The exit code of a program that a signal ended.
fn exit_of_signal(signal: i32) -> Exit {
    Exit(u8::try_from(128 + signal).unwrap_or(Exit::FAILED.0))
}

/// Reports each Ctrl-C, and the signals that end this program. nohup ignores HUP, and that stays.
fn catch_signals(tell: Sender<Happening>) -> Result<()> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let all = [SIGINT, SIGTERM, SIGHUP, SIGQUIT].into_iter();
    let mut signals = Signals::new(all.filter(|signal| !proc::ignores(&status, *signal)))
        .map_err(|error| Failure::new(errors::INTERNAL, format!("can't catch Ctrl-C: {error}")))?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let happening = match signal {
                SIGINT => Happening::Interrupted,
                signal => Happening::Ended(signal),
            };
            if tell.send(happening).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Reports changes of the job until it has ended.
fn watch(client: Client, id: String, tell: Sender<Happening>) {
    std::thread::spawn(move || {
        if let Err(error) = watch_until_ended(&client, &id, &tell) {
            // The receiver is gone only when the program ends.
            let _ = tell.send(Happening::Lost(error.into()));
        }
    });
}

fn watch_until_ended(
    client: &Client,
    id: &str,
    tell: &Sender<Happening>,
) -> std::result::Result<(), gpool_client::Error> {
    // Subscribes before the first request, so that no change is missed.
    let events = client.events(None)?;
    let look = || -> std::result::Result<bool, gpool_client::Error> {
        let job = client.job(id)?;
        let has_ended = job.state.is_end();
        let is_heard = tell.send(Happening::Changed(Box::new(job))).is_ok();
        Ok(has_ended || !is_heard)
    };
    if look()? {
        return Ok(());
    }
    for event in events {
        if event?.kind.may_concern(id) && look()? {
            return Ok(());
        }
    }
    Ok(())
}

/// Copies one output stream of a task to the same stream of this program, with the rank before each
/// line if there are several tasks. The setup's output comes before the errors of the first task.
fn stream_out(
    client: Client,
    job: &Job,
    (stream, rank): (LogStream, u32),
    tell: Sender<Happening>,
) {
    let (id, setup) = (job.id.clone(), job.setup_job.clone());
    let has_own_file = match stream {
        LogStream::Stdout => job.request.stdout.is_some(),
        LogStream::Stderr => job.request.stderr.is_some(),
        LogStream::Both => job.request.stdout.is_some() && job.request.stderr.is_some(),
    };
    let is_one_of_several = labelled::n_tasks(job) > 1;
    std::thread::spawn(move || {
        let mut out: Box<dyn Write> = match stream {
            LogStream::Stdout | LogStream::Both => Box::new(std::io::stdout()),
            LogStream::Stderr => Box::new(std::io::stderr()),
        };
        let prepared = match setup.filter(|_| stream == LogStream::Stderr && rank == 0) {
            Some(setup) => copy_setup(&client, &setup),
            None => Ok(()),
        };
        let ended = prepared.and_then(|()| {
            if has_own_file {
                return Ok(());
            }
            if !is_one_of_several {
                return copy_log(&client, &id, (stream, None), &mut out);
            }
            let mut out = Labelled::new(format!("{rank}: "), out);
            copy_log(&client, &id, (stream, Some(rank)), &mut out)?;
            out.finish().map_err(|error| gpool_cli::screen::not_written(&error))
        });
        // The receiver is gone only when the program ends.
        let _ = tell.send(Happening::StreamEnded(ended));
    });
}

/// Copies all output of a setup to standard error: standard output is the job's own.
fn copy_setup(client: &Client, id: &str) -> Result<()> {
    copy_log(client, id, (LogStream::Both, None), &mut std::io::stderr())
}

fn copy_log(
    client: &Client,
    id: &str,
    (stream, rank): (LogStream, Option<u32>),
    out: &mut dyn Write,
) -> Result<()> {
    let query = LogQuery { stream, rank, follow: true, ..LogQuery::default() };
    follow::copy(client, id, &query, out)
}

impl RunArgs {
    /// The command and its arguments.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }
}
