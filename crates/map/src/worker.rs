//! `gpool map-worker`: a worker of a map. It runs the user's program, writes items to its standard
//! input, and tells the driver what the program says of them. After a lost connection it
//! repeats the answers that are not recorded.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use clap::Args;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;
use gpool_client::Client;
use gpool_wire::{ForwardToJob, catalogue};
use serde_json::Value;

use crate::ledger::ItemNumber;
use crate::message::{Answer, FromWorker, Item, ToWorker};
use crate::plan::AnswerForm;

/// The name of the verb.
pub const VERB: &str = "map-worker";
/// Time between two attempts to reach the driver.
const PAUSE: Duration = Duration::from_millis(500);
/// Starts of the program in a row without an item, after which the worker gives up.
const EMPTY_STARTS_MAX: u32 = 3;

#[derive(Debug, Clone, Args)]
pub struct WorkerArgs {
    /// Job of the driver
    #[arg(long, value_name = "JOB")]
    driver: String,
    /// Socket of the driver
    #[arg(long, value_name = "PATH")]
    socket: String,
    /// Items that the program can have at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    ahead: usize,
    /// How the program answers
    #[arg(long, value_enum, value_name = "FORM", default_value = "json")]
    answer: AnswerForm,
    /// Program of the user
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

enum Event {
    /// From the driver, on this connection.
    Message(u64, ToWorker),
    Disconnected(u64),
    /// A line of the program.
    Line(String),
    /// The standard output of the program has ended.
    Closed,
}

/// Runs the worker until the map is finished.
///
/// # Errors
/// The program can't be started, or ends again and again before it has an item.
pub fn run(args: &WorkerArgs, session: &Session) -> Result {
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let name = format!("{}#{}", var("GPOOL_JOB_ID"), var("GPOOL_ATTEMPT"));
    let (events, received) = mpsc::channel();
    let mut worker = Worker {
        args,
        name,
        events,
        connection: None,
        n_connections: 0,
        program: None,
        in_flight: Vec::new(),
        unrecorded: Vec::new(),
        n_empty_starts: 0,
    };
    worker.start()?;
    worker.work(&session.client()?, &received)
}

/// The user's program.
struct Program {
    child: Child,
    /// Lines to write; closed to end the program.
    lines: Option<Sender<String>>,
}

struct Worker<'a> {
    args: &'a WorkerArgs,
    name: String,
    events: Sender<Event>,
    /// The connection to the driver, if there is one, with its number.
    connection: Option<(u64, UnixStream)>,
    n_connections: u64,
    program: Option<Program>,
    /// Items that the program has, oldest first.
    in_flight: Vec<Item>,
    /// What the driver has not confirmed.
    unrecorded: Vec<FromWorker>,
    n_empty_starts: u32,
}

impl Worker<'_> {
    fn work(&mut self, client: &Client, received: &Receiver<Event>) -> Result {
        loop {
            if self.connection.is_none() && !self.connect(client)? {
                return self.end(received);
            }
            let Ok(event) = received.recv() else { return Ok(Exit::OK) };
            match event {
                Event::Message(number, message) if self.is_current(number) => match message {
                    ToWorker::Items(items) => items.into_iter().for_each(|item| self.give(item)),
                    ToWorker::Recorded(ids) => {
                        self.unrecorded.retain(|it| !ids_of(it).iter().all(|id| ids.contains(id)));
                    }
                    ToWorker::Finished => return self.end(received),
                },
                Event::Disconnected(number) if self.is_current(number) => self.connection = None,
                Event::Message(..) | Event::Disconnected(_) => {}
                Event::Line(line) => self.take(&line),
                Event::Closed => self.program_ended()?,
            }
        }
    }

    fn is_current(&self, number: u64) -> bool {
        self.connection.as_ref().is_some_and(|(own, _)| *own == number)
    }

    /// Connects to the driver; returns whether there is one to come.
    fn connect(&mut self, client: &Client) -> Result<bool> {
        loop {
            let to =
                ForwardToJob { socket: Some(self.args.socket.clone()), ..ForwardToJob::default() };
            if let Ok(stream) = client.forward(&self.args.driver, &to) {
                self.n_connections += 1;
                let number = self.n_connections;
                let copy = stream.stream.try_clone().map_err(|error| lost(&error))?;
                self.connection = Some((number, stream.stream));
                let events = self.events.clone();
                thread::spawn(move || receive(&stream.early, &copy, number, &events));
                self.greet();
                return Ok(true);
            }
            match client.job(&self.args.driver) {
                Ok(job) if job.state.is_end() => return Ok(false),
                _ => thread::sleep(PAUSE),
            }
        }
    }

    /// Says which items the worker still has, and repeats unrecorded answers.
    fn greet(&mut self) {
        let mut in_flight: Vec<ItemNumber> = self.in_flight.iter().map(|it| it.id).collect();
        in_flight.extend(self.unrecorded.iter().flat_map(ids_of));
        self.send(&FromWorker::Hello { worker: self.name.clone(), in_flight });
        for message in self.unrecorded.clone() {
            self.send(&message);
        }
        let n = self.args.ahead.saturating_sub(self.in_flight.len());
        self.send(&FromWorker::Want(n));
    }

    fn send(&mut self, message: &FromWorker) {
        let Some((_, stream)) = &mut self.connection else { return };
        let mut text = serde_json::to_vec(message).unwrap_or_default();
        text.push(b'\n');
        if stream.write_all(&text).is_err() {
            self.connection = None;
        }
    }

    /// Says something that the driver must record.
    fn say(&mut self, message: FromWorker) {
        self.send(&message);
        self.unrecorded.push(message);
    }

    /// Starts the program.
    fn start(&mut self) -> Result<()> {
        let (program, words) = self.args.command.split_first().unwrap_or_else(|| unreachable!());
        let mut child = Command::new(program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| {
                Failure::new(catalogue::INVALID, format!("can't start {program}: {error}"))
            })?;
        let (lines, to_write) = mpsc::channel();
        if let Some(stdin) = child.stdin.take() {
            thread::spawn(move || write_lines(stdin, &to_write));
        }
        if let Some(stdout) = child.stdout.take() {
            let events = self.events.clone();
            thread::spawn(move || {
                for line in BufReader::new(stdout).split(b'\n').map_while(io::Result::ok) {
                    let line = String::from_utf8_lossy(&line).into_owned();
                    if events.send(Event::Line(line)).is_err() {
                        return;
                    }
                }
                let _ = events.send(Event::Closed);
            });
        }
        self.n_empty_starts += 1;
        self.program = Some(Program { child, lines: Some(lines) });
        Ok(())
    }

    /// Gives an item to the program.
    fn give(&mut self, item: Item) {
        self.n_empty_starts = 0;
        let text = serde_json::to_string(&item).unwrap_or_default();
        self.in_flight.push(item);
        if let Some(lines) = self.program.as_ref().and_then(|program| program.lines.as_ref()) {
            // If the program has ended, its end is an event, too.
            let _ = lines.send(text + "\n");
        }
    }

    /// Takes a line of the program: an answer, or output.
    fn take(&mut self, line: &str) {
        let answer = match self.args.answer {
            AnswerForm::Json => Answer::read(line),
            AnswerForm::Line => {
                let text = || Value::String(line.trim_end_matches('\r').to_owned());
                self.in_flight.first().map(|it| Answer::Done(it.id, Some(text())))
            }
        };
        let (id, message) = match answer {
            None => return println!("{line}"),
            Some(Answer::Done(id, result)) => (id, FromWorker::Done { id, result }),
            Some(Answer::Failed(id, why)) => (id, FromWorker::Failed { id, why }),
        };
        let Some(at) = self.in_flight.iter().position(|it| it.id == id) else {
            return eprintln!("the program answers for item {id}, which it does not have");
        };
        self.in_flight.remove(at);
        self.say(message);
        self.send(&FromWorker::Want(1));
    }

    /// Says which items the program had when it ended, and starts it again.
    fn program_ended(&mut self) -> Result<()> {
        let why = self.reap();
        let ids: Vec<ItemNumber> = self.in_flight.drain(..).map(|it| it.id).collect();
        let n = ids.len();
        eprintln!("the program ended with {n} items in flight: {why}");
        if n > 0 {
            self.say(FromWorker::Crashed { ids, why: format!("the program ended: {why}") });
            self.send(&FromWorker::Want(n));
        }
        if self.n_empty_starts >= EMPTY_STARTS_MAX {
            let what = format!("the program ends before it has an item: {why}");
            return Err(Failure::new(catalogue::INVALID, what));
        }
        self.start()
    }

    /// Waits for the end of the program, and says how it ended.
    fn reap(&mut self) -> String {
        let Some(mut program) = self.program.take() else { return String::new() };
        drop(program.lines.take());
        match program.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// Lets the program end by the end of its input, and passes its last output on.
    fn end(&mut self, received: &Receiver<Event>) -> Result {
        if let Some(program) = &mut self.program {
            drop(program.lines.take());
            while let Ok(event) = received.recv() {
                match event {
                    Event::Line(line) if Answer::read(&line).is_none() => println!("{line}"),
                    Event::Closed => break,
                    _ => {}
                }
            }
            self.reap();
        }
        Ok(Exit::OK)
    }
}

fn lost(error: &io::Error) -> Failure {
    Failure::new(catalogue::INVALID, format!("the connection to the driver: {error}"))
}

fn ids_of(message: &FromWorker) -> Vec<ItemNumber> {
    match message {
        FromWorker::Done { id, .. } | FromWorker::Failed { id, .. } => vec![*id],
        FromWorker::Crashed { ids, .. } => ids.clone(),
        FromWorker::Hello { .. } | FromWorker::Want(_) => Vec::new(),
    }
}

/// Reads messages of the driver until the connection ends.
fn receive(early: &[u8], stream: &UnixStream, number: u64, events: &Sender<Event>) {
    let bytes = io::Read::chain(early, stream);
    for line in BufReader::new(bytes).lines().map_while(io::Result::ok) {
        let Ok(message) = serde_json::from_str(&line) else { break };
        if events.send(Event::Message(number, message)).is_err() {
            return;
        }
    }
    let _ = events.send(Event::Disconnected(number));
}

/// Writes lines to the program until there are no more, or it reads none.
fn write_lines(mut stdin: ChildStdin, lines: &Receiver<String>) {
    for line in lines {
        if stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}
