//! Shows a job's terminal through restarts of the server, until the job has ended or the user
//! leaves.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::safe::TerminalOutput;
use gpool_cli::screen::Screen;
use gpool_cli::session::{LISTEN_RETRIES, Session};
use gpool_cli::terminal::raw::{self, Raw};
use gpool_cli::terminal::window;
use gpool_client::{Client, Error, JobStream, Vigil};
use gpool_wire::frame::{Frame, Frames};
use gpool_wire::{AttachJob, Job, Window, catalogue};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;

use super::keys::DetachMatcher;
use super::{DetachKeys, Leaving, Outgoing};

/// Pause between two attempts to reach a job.
const PAUSE: Duration = Duration::from_millis(50);

/// How the connection with a job's terminal ended.
#[derive(Debug)]
pub enum Stayed {
    Ended {
        /// The job, with its final state.
        job: Box<Job>,
        /// Whether this terminal showed any of its output.
        has_output: bool,
    },
    /// The user left; the job goes on.
    Disconnected(Leaving),
}

/// Shows the terminal of a job's task on this one until the job has ended or the user leaves. The
/// job may still wait. With `is_plain`, control characters are made visible.
///
/// # Errors
/// This is not a terminal, the job can't be attached to, or the server stays away.
pub fn stay(
    client: &Client,
    session: &Session,
    (id, rank): (&str, Option<u32>),
    (keys, is_plain): (&DetachKeys, bool),
) -> Result<Stayed> {
    let outgoing = Outgoing::default();
    let raw = Raw::enter().map_err(|error| {
        let what = format!("can't use standard input as a terminal: {error}");
        Failure::new(errors::NO_TERMINAL_HERE, what)
    })?;
    hear_signals(outgoing.clone())?;
    hear_keys(outgoing.clone(), keys);
    let screen = session.screen.clone();
    let client = session.patient_saying(client.clone(), move |text| say(&screen, text));
    let stay = Stay { client, session, id, rank, outgoing, is_plain };
    let stayed = stay.until_ended();
    if matches!(stayed, Ok(Stayed::Disconnected(_)) | Err(_)) {
        raw::plain();
    }
    drop(raw);
    if let Ok(Stayed::Disconnected(_)) = stayed {
        // The output may have ended in the middle of a line.
        session.screen.note("");
    }
    stayed
}

struct Stay<'s> {
    client: Client,
    session: &'s Session,
    id: &'s str,
    rank: Option<u32>,
    outgoing: Outgoing,
    /// Whether control characters are made visible.
    is_plain: bool,
}

impl Stay<'_> {
    fn until_ended(&self) -> Result<Stayed> {
        let mut has_output = false;
        let mut lost_at: Option<Instant> = None;
        let mut is_said = false;
        loop {
            if let Some(leaving) = self.outgoing.leaving() {
                return Ok(Stayed::Disconnected(leaving));
            }
            let window = window();
            let attach = AttachJob { window: Some(window), rank: self.rank };
            match self.client.attach(self.id, &attach) {
                Ok(line) => {
                    has_output = true;
                    (lost_at, is_said) = (None, false);
                    self.show(line, window)?;
                }
                Err(error) if error.is_away() => {
                    let since = lost_at.get_or_insert_with(Instant::now);
                    if since.elapsed() > LISTEN_RETRIES {
                        return Err(error.into());
                    }
                    if since.elapsed() > Duration::from_secs(1) && !is_said {
                        is_said = true;
                        self.say("no server answers; the job continues. Waiting for the server");
                    }
                    std::thread::sleep(PAUSE);
                    continue;
                }
                // The job ends or begins another attempt; its state below says which.
                Err(Error::Problem(problem)) if is_between(&problem.code) => {}
                Err(error) => return Err(error.into()),
            }
            if let Some(leaving) = self.outgoing.leaving() {
                return Ok(Stayed::Disconnected(leaving));
            }
            match self.client.job(self.id) {
                Ok(job) if job.state.is_end() => {
                    return Ok(Stayed::Ended { job: Box::new(job), has_output });
                }
                Ok(_) => {}
                Err(error) if error.is_away() => {}
                Err(error) => return Err(error.into()),
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Shows the output of a stream until it ends. `window` is the size that the server knows.
    fn show(&self, line: JobStream, window: Window) -> Result<()> {
        let JobStream { stream, early, vigil } = line;
        let stream = Arc::new(stream);
        self.outgoing.set(Some(Arc::clone(&stream)), Some(window));
        // The window size may have changed meanwhile.
        self.outgoing.say_size();
        let shown = self.show_all(&vigil, &stream, &early);
        self.outgoing.set(None, None);
        shown
    }

    /// Prints a message between the output of the job.
    fn say(&self, text: &str) {
        say(&self.session.screen, text);
    }

    fn show_all(&self, vigil: &Vigil, stream: &UnixStream, early: &[u8]) -> Result<()> {
        let mut frames = Frames::default();
        frames.push(early);
        let mut out = TerminalOutput::new(std::io::stdout().lock(), self.is_plain);
        let mut buffer = vec![0; 64 * 1024];
        loop {
            while let Ok(Some(frame)) = frames.next_frame() {
                if let Frame::Output(bytes) = frame {
                    out.write_all(&bytes)
                        .map_err(|error| gpool_cli::screen::not_written(&error))?;
                }
            }
            out.flush().map_err(|error| gpool_cli::screen::not_written(&error))?;
            match vigil.read(stream, &mut buffer, None) {
                Ok(0) => return Ok(()),
                Ok(n_read) => frames.push(&buffer[..n_read]),
                // The server has gone; the job goes on.
                Err(_) => return Ok(()),
            }
        }
    }
}

/// Prints a message on a raw terminal.
pub fn say(screen: &Screen, text: &str) {
    // Ctrl-C goes to the program on the terminal, so the hint is removed.
    let text = text.strip_prefix("note: ").unwrap_or(text).trim_end_matches(", Ctrl-C leaves");
    screen.note(&format!("\r\n[gpool: {text}]\r"));
}

fn is_between(code: &str) -> bool {
    [catalogue::WRONG_STATE, catalogue::ALREADY_ENDED].iter().any(|it| it.to_string() == code)
}

/// Sends typed input, and leaves on the detach keys.
fn hear_keys(outgoing: Outgoing, keys: &DetachKeys) {
    let mut watch = DetachMatcher::new(keys);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        loop {
            match std::io::stdin().lock().read(&mut buffer) {
                // The terminal has gone.
                Ok(0) => return outgoing.leave(Leaving::Signal(SIGHUP)),
                Ok(n_read) => {
                    let (typed, leaves) = watch.take(&buffer[..n_read]);
                    if !typed.is_empty() {
                        // The program gets a new window size before the input, whichever thread
                        // notices it first.
                        outgoing.say_size();
                        outgoing.say(&Frame::Input(typed));
                    }
                    if leaves {
                        return outgoing.leave(Leaving::Detached);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return outgoing.leave(Leaving::Signal(SIGHUP)),
            }
        }
    });
}

/// Sends new window sizes, and leaves on signals that end a program.
fn hear_signals(outgoing: Outgoing) -> Result<()> {
    let heard = [SIGWINCH, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM];
    let mut signals = Signals::new(heard)
        .map_err(|error| Failure::new(errors::INTERNAL, format!("can't catch signals: {error}")))?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            match signal {
                SIGWINCH => outgoing.say_size(),
                SIGCONT => {
                    raw::again();
                    outgoing.say(&Frame::Resize(window().into()));
                }
                signal => outgoing.leave(Leaving::Signal(signal)),
            }
        }
    });
    Ok(())
}
