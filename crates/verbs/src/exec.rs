//! `gpool exec`: runs another program in a running job.

use std::collections::BTreeMap;
use std::io::{ErrorKind, IsTerminal as _, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use clap::Args;
use gpool_cli::caller::Variable;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::reference::Reference;
use gpool_cli::render::safe::TerminalOutput;
use gpool_cli::resolve;
use gpool_cli::screen::not_written;
use gpool_cli::session::Session;
use gpool_cli::terminal::raw::Raw;
use gpool_cli::terminal::{no_terminal, window};
use gpool_client::Vigil;
use gpool_wire::ExecInJob;
use gpool_wire::frame::{Frame, Frames};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;

use super::attach::OF_OTHERS;
use crate::console::{self, Outgoing};

#[derive(Debug, Clone, Args)]
#[command(
    after_help = "The program runs as the job's user, within the job's limits. It ends with the \
    job or with this command. On a terminal it gets its own terminal; otherwise it uses standard \
    input, output and error of this command. The exit code is the program's own; 125 if it could \
    not be started."
)]
pub struct ExecArgs {
    /// Job to run in, e.g. 1842, a name or @ (your newest)
    #[arg(value_name = "JOB")]
    job: Reference,
    /// Rank of the task, for a job with several tasks
    #[arg(long, value_name = "RANK")]
    rank: Option<u32>,
    /// Give the program a terminal (default: if input and output are one)
    #[arg(long, conflicts_with = "no_pty")]
    pty: bool,
    /// Give the program pipes, even on a terminal
    #[arg(long)]
    no_pty: bool,
    /// Give the program no standard input
    #[arg(long, conflicts_with = "pty")]
    no_stdin: bool,
    /// Do not filter control characters in the output of another user's job
    #[arg(long)]
    raw: bool,
    /// Working folder of the program (default: the job's)
    #[arg(long, value_name = "FOLDER")]
    cwd: Option<String>,
    /// Environment variable to add, e.g. SEED=1; without a value, the caller's
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    env: Vec<Variable>,
    /// Program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    words: Vec<String>,
}

/// Runs the verb.
///
/// # Errors
/// The job does not run, the program can't be started, or the connection is lost.
pub fn run(args: ExecArgs, session: &Session) -> Result {
    let on_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if args.pty && !on_terminal {
        return Err(no_terminal("--pty"));
    }
    let pty = on_terminal && !args.no_pty && !args.no_stdin;
    let mut environment = BTreeMap::new();
    if pty && let Ok(term) = std::env::var("TERM") {
        environment.insert("TERM".to_owned(), term);
    }
    for variable in &args.env {
        let own = || std::env::var(&variable.name).ok();
        if let Some(value) = variable.value.clone().or_else(own) {
            environment.insert(variable.name.clone(), value);
        }
    }
    let client = session.client()?;
    let (id, _) = resolve::one(&client, &args.job, session.me())?;
    let directory = match args.cwd.as_deref() {
        None => None,
        named => gpool_cli::caller::directory(named)?,
    };
    let window = pty.then(window);
    let (command, rank) = (args.words, args.rank);
    let exec = ExecInJob { command, pty: window, directory, environment, rank };
    // Control characters do no harm in a file or a pipe.
    let is_of_other = !args.raw
        && (std::io::stdout().is_terminal() || std::io::stderr().is_terminal())
        && client.job(&id)?.user != session.me();
    if is_of_other {
        session.screen.note(&format!("note: {OF_OTHERS}"));
    }
    let line = client.exec(&id, &exec)?;
    // The program has started: from here on, an unreachable server is waited for.
    let screen = session.screen.clone();
    let client = session.patient_saying(client, move |text| match pty {
        true => console::say(&screen, text),
        false => screen.note(text),
    });
    let raw = if pty { Raw::enter().ok() } else { None };
    let outgoing = Outgoing::default();
    let stream = Arc::new(line.stream);
    outgoing.set(Some(Arc::clone(&stream)), window);
    hear_signals(outgoing.clone(), pty)?;
    if pty {
        // The window size may have changed meanwhile.
        outgoing.say_size();
    }
    if args.no_stdin {
        outgoing.say(&Frame::InputEnd);
    } else {
        hear_input(outgoing, pty);
    }
    let ended = copy(&client.vigil(), &stream, &line.early, is_of_other);
    drop(raw);
    match ended? {
        ProgramEnd::Exit(code) => Ok(Exit(u8::try_from(code.rem_euclid(256)).unwrap_or(u8::MAX))),
        ProgramEnd::NotStarted(why) => {
            Err(Failure::new(errors::EXEC_NOT_STARTED, format!("it could not be started: {why}"))
                .exit_with(Exit::JOB_NOT_STARTED))
        }
        ProgramEnd::Lost => {
            Err(Failure::new(errors::CONNECTION_LOST, "lost the connection to the job")
                .why("the job or the server has ended, and with it the program")
                .tip(format!("gpool show {id}")))
        }
    }
}

enum ProgramEnd {
    Exit(i32),
    NotStarted(String),
    Lost,
}

/// Writes the frames of the stream to standard output and standard error.
fn copy(vigil: &Vigil, line: &UnixStream, early: &[u8], is_of_other: bool) -> Result<ProgramEnd> {
    let mut frames = Frames::default();
    frames.push(early);
    let mut not_started = None;
    let mut buffer = vec![0; 64 * 1024];
    let (out, errors) = (std::io::stdout().lock(), std::io::stderr().lock());
    let is_plain = |is_terminal: bool| is_terminal && is_of_other;
    let is_plain = (is_plain(out.is_terminal()), is_plain(errors.is_terminal()));
    let (mut out, mut errors) =
        (TerminalOutput::new(out, is_plain.0), TerminalOutput::new(errors, is_plain.1));
    loop {
        while let Ok(Some(frame)) = frames.next_frame() {
            match frame {
                Frame::Output(bytes) => out
                    .write_all(&bytes)
                    .and_then(|()| out.flush())
                    .map_err(|error| not_written(&error))?,
                // An error of standard error can't be reported.
                Frame::Errors(bytes) => drop(errors.write_all(&bytes)),
                Frame::NotStarted(why) => not_started = Some(why),
                Frame::Exit(code) => {
                    return Ok(not_started.map_or(ProgramEnd::Exit(code), ProgramEnd::NotStarted));
                }
                _ => {}
            }
        }
        match vigil.read(line, &mut buffer, None) {
            Ok(n_read @ 1..) => frames.push(&buffer[..n_read]),
            Ok(_) | Err(_) => return Ok(ProgramEnd::Lost),
        }
    }
}

/// Sends the standard input of this command.
fn hear_input(outgoing: Outgoing, pty: bool) {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 32 * 1024];
        loop {
            match std::io::stdin().lock().read(&mut buffer) {
                Ok(n_read @ 1..) => {
                    if pty {
                        outgoing.say_size();
                    }
                    outgoing.say(&Frame::Input(buffer[..n_read].to_vec()));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => return outgoing.say(&Frame::InputEnd),
            }
        }
    });
}

/// Forwards signals. On a terminal the keys of signals arrive as input; there a signal ends this
/// command, and with it the program.
fn hear_signals(outgoing: Outgoing, pty: bool) -> Result<()> {
    let mut signals = Signals::new([SIGWINCH, SIGHUP, SIGINT, SIGQUIT, SIGTERM])
        .map_err(|error| Failure::new(errors::INTERNAL, format!("can't catch signals: {error}")))?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            match signal {
                SIGWINCH if pty => outgoing.say_size(),
                SIGWINCH => {}
                signal => {
                    outgoing.say(&Frame::Signal(signal));
                    if pty {
                        outgoing.leave(crate::console::Leaving::Signal(signal));
                    }
                }
            }
        }
    });
    Ok(())
}
