//! `gpool map-driver`: the job that leases the items of a map to its workers, and records what
//! they say. It needs no GPU. Everything that it must not lose is in the folder of the map.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;
use gpool_client::Client;
use gpool_wire::{JobCreate, catalogue};
use serde_json::Value;

use crate::container;
use crate::items::ItemReader;
use crate::ledger::{ItemNumber, Ledger, Verdict};
use crate::message::{FromWorker, Item, ToWorker};
use crate::plan::{self, Plan, WORKER};
use crate::records::{Record, RecordState, Records};

/// The name of the verb.
pub const VERB: &str = "map-driver";
/// Time between two looks at the workers, and between two reports.
const LOOK: Duration = Duration::from_secs(2);
/// Time after which a worker without a connection is looked at.
const SILENCE: Duration = Duration::from_secs(5);
/// The reports of the rate.
const RATE_REPORTS: usize = 30;

#[derive(Debug, Clone, Args)]
pub struct DriverArgs {
    /// Folder of the map
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Runs the map to its end.
///
/// # Errors
/// The folder is damaged, or the server refuses the workers.
pub fn run(args: &DriverArgs, session: &Session) -> Result {
    let invalid = |why: String| Failure::new(catalogue::INVALID, why);
    let plan = Plan::read(&args.folder).map_err(invalid)?;
    let state = State::open(&args.folder, &plan).map_err(|error| invalid(error.to_string()))?;
    let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
    let socket = plan::socket(&args.folder);
    let listener = listen(&socket).map_err(|error| invalid(error.to_string()))?;
    let client = session.client()?;
    let key = format!("{}/{WORKER}/{}", plan.name, plan.id);
    let workers = client.submit(&request(&plan, &socket)?, Some(&key))?;
    println!("{} items, workers: job {}", plan.n_items, workers.id);
    let accepting = Arc::clone(&shared);
    thread::spawn(move || accept(&listener, &accepting));
    watch(&shared, &client, &workers.id)?;
    let state = shared.lock();
    let n_set_aside = state.ledger.set_aside().len();
    println!("{} items done, {n_set_aside} set aside", state.ledger.n_done());
    drop(state);
    // Workers that have not started are not needed any more; the others end by themselves.
    cancel_unstarted(&client, &workers.id);
    match n_set_aside {
        0 => Ok(Exit::OK),
        _ => Ok(Exit(1)),
    }
}

/// The request of the workers: their program is this one, with the command of the user.
fn request(plan: &Plan, socket: &Path) -> Result<JobCreate> {
    let missing = || Failure::new(catalogue::INVALID, "a job of gpool map runs this");
    let own = std::env::var("GPOOL_JOB_ID").map_err(|_| missing())?;
    let Plan { command, options, .. } = plan;
    let mut workers = plan.workers.clone();
    let mut words = vec![plan.program.clone()];
    if workers.image.is_some() {
        let carried = container::carried(&plan.program).map_err(|error| {
            let what = format!("can't find the libraries of gpool for the container: {error}");
            Failure::new(catalogue::INVALID, what)
        })?;
        words = carried.words;
        workers.mounts.extend(carried.mounts);
    }
    words.push(crate::worker::VERB.to_owned());
    words.extend(["--driver".to_owned(), own, "--socket".to_owned(), socket.display().to_string()]);
    words.extend(["--ahead".to_owned(), options.ahead.to_string()]);
    words.extend(["--answer".to_owned(), options.answer.as_str().to_owned(), "--".to_owned()]);
    words.extend(command.iter().cloned());
    Ok(JobCreate { command: words, ..workers })
}

fn listen(socket: &Path) -> io::Result<UnixListener> {
    // Of a driver that was killed: two never run, since both are attempts of one job.
    let _ = std::fs::remove_file(socket);
    UnixListener::bind(socket)
}

/// Everything that connections share.
struct Shared {
    state: Mutex<State>,
    /// Items may have become free, or all are settled.
    changed: Condvar,
}

struct State {
    ledger: Ledger,
    records: Records,
    reader: ItemReader,
    /// Items that are leased or wait for another try.
    values: HashMap<ItemNumber, Value>,
    /// Connected workers, with the number of their connection.
    connected: BTreeMap<String, u64>,
    n_connections: u64,
    /// When a worker with leases was last connected.
    left_at: BTreeMap<String, Instant>,
    /// An error that ends the driver.
    failed: Option<String>,
}

impl State {
    fn open(folder: &Path, plan: &Plan) -> io::Result<Self> {
        let mut ledger = Ledger::new(plan.n_items, plan.tries);
        let records = Records::open(&plan::records(folder), &mut ledger)?;
        Ok(Self {
            ledger,
            records,
            reader: ItemReader::open(&plan::items(folder))?,
            values: HashMap::new(),
            connected: BTreeMap::new(),
            n_connections: 0,
            left_at: BTreeMap::new(),
            failed: None,
        })
    }

    /// The value of an item that was leased before, or is the next one.
    fn value(&mut self, id: ItemNumber) -> io::Result<Value> {
        if let Some(value) = self.values.get(&id) {
            return Ok(value.clone());
        }
        let value = self.reader.read(id)?.item;
        self.values.insert(id, value.clone());
        Ok(value)
    }

    /// Stores records; without that, nothing may go on.
    fn store(&mut self, records: &[Record]) -> bool {
        if let Err(error) = self.records.append(records) {
            self.failed.get_or_insert(format!("can't store what workers said: {error}"));
        }
        self.failed.is_none()
    }

    fn failure(&mut self, id: ItemNumber, verdict: Verdict, why: &str) -> Option<Record> {
        let (state, tries) = match verdict {
            Verdict::Ignored => return None,
            Verdict::Again(tries) => (RecordState::Failed, tries),
            Verdict::SetAside(tries) => (RecordState::SetAside, tries),
        };
        let is_last = state == RecordState::SetAside;
        let item = if is_last { self.values.remove(&id) } else { None };
        if is_last {
            println!("item {id} is set aside after {tries} tries: {why}");
        }
        let (why, tries) = (Some(why.to_owned()), Some(tries));
        Some(Record { why, tries, item, ..Record::new(id, state) })
    }

    /// Handles a message; returns the items that are stored now.
    fn take(&mut self, worker: &str, message: FromWorker) -> Vec<ItemNumber> {
        let (id, record) = match message {
            FromWorker::Hello { .. } | FromWorker::Want(_) => return Vec::new(),
            FromWorker::Done { id, result } => {
                let is_new = self.ledger.done(worker, id);
                self.values.remove(&id);
                let record = Record { result, ..Record::new(id, RecordState::Done) };
                (Some(id), is_new.then_some(record))
            }
            FromWorker::Failed { id, why } => {
                let verdict = self.ledger.failed(worker, id);
                (Some(id), self.failure(id, verdict, &why))
            }
            FromWorker::Crashed { ids, why } => {
                let found = self.ledger.crashed(worker, Some(&ids));
                let record = found.and_then(|(id, verdict)| self.failure(id, verdict, &why));
                return match self.store(&record.into_iter().collect::<Vec<_>>()) {
                    true => ids,
                    false => Vec::new(),
                };
            }
        };
        match self.store(&record.into_iter().collect::<Vec<_>>()) {
            true => id.into_iter().collect(),
            false => Vec::new(),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    for stream in listener.incoming().flatten() {
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // A lost connection is not an error: the worker connects again.
            let _ = serve(&stream, &shared);
        });
    }
}

/// Serves the connection of a worker.
fn serve(stream: &UnixStream, shared: &Arc<Shared>) -> io::Result<()> {
    // A worker reads at once, unless it is stuck: the others must not wait for it.
    stream.set_write_timeout(Some(SILENCE))?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let Some(first) = lines.next() else { return Ok(()) };
    let FromWorker::Hello { worker, in_flight } = serde_json::from_str(&first?)? else {
        return Ok(());
    };
    let connection = connect(shared, &worker, &in_flight);
    let n_wanted = Arc::new(Mutex::new(0));
    let sending = {
        let (shared, worker) = (Arc::clone(shared), worker.clone());
        let (n_wanted, out) = (Arc::clone(&n_wanted), stream.try_clone()?);
        thread::spawn(move || send_items(&out, &shared, &worker, connection, &n_wanted))
    };
    let result = (|| -> io::Result<()> {
        for line in lines {
            let message: FromWorker = serde_json::from_str(&line?)?;
            if let FromWorker::Want(n) = message {
                *n_wanted.lock().unwrap_or_else(PoisonError::into_inner) += n;
                shared.changed.notify_all();
                continue;
            }
            let mut state = shared.lock();
            let recorded = state.take(&worker, message);
            // Under the lock, so that two threads do not mix their lines.
            send(stream, &ToWorker::Recorded(recorded))?;
            drop(state);
            shared.changed.notify_all();
        }
        Ok(())
    })();
    let mut state = shared.lock();
    if state.connected.get(&worker) == Some(&connection) {
        state.connected.remove(&worker);
        state.left_at.insert(worker.clone(), Instant::now());
    }
    drop(state);
    shared.changed.notify_all();
    let _ = sending.join();
    result
}

/// Registers a connection. The worker keeps the items that it still has; those that got lost on the
/// way are leased again.
fn connect(shared: &Shared, worker: &str, in_flight: &[ItemNumber]) -> u64 {
    let mut state = shared.lock();
    state.n_connections += 1;
    let connection = state.n_connections;
    state.connected.insert(worker.to_owned(), connection);
    state.left_at.remove(worker);
    let leases = state.ledger.leases_of(worker).to_vec();
    let lost: Vec<_> = leases.into_iter().filter(|id| !in_flight.contains(id)).collect();
    state.ledger.returned(worker, &lost);
    for id in in_flight {
        state.ledger.claim(worker, *id);
    }
    connection
}

/// Sends items as the worker wants them, until the map or the connection ends.
fn send_items(
    out: &UnixStream,
    shared: &Shared,
    worker: &str,
    connection: u64,
    n_wanted: &Mutex<usize>,
) {
    let mut state = shared.lock();
    loop {
        if state.connected.get(worker) != Some(&connection) {
            return;
        }
        if state.ledger.is_finished() {
            let _ = send(out, &ToWorker::Finished);
            return;
        }
        let mut n = n_wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let ids = state.ledger.lease(worker, *n);
        *n = n.saturating_sub(ids.len());
        drop(n);
        if !ids.is_empty() {
            let mut items = Vec::new();
            for id in ids {
                match state.value(id) {
                    Ok(item) => items.push(Item { id, item }),
                    Err(error) => {
                        state.failed.get_or_insert(format!("can't read item {id}: {error}"));
                    }
                }
            }
            if send(out, &ToWorker::Items(items)).is_err() {
                return;
            }
            continue;
        }
        let waited = shared.changed.wait(state);
        state = waited.unwrap_or_else(PoisonError::into_inner);
    }
}

fn send(mut out: &UnixStream, message: &ToWorker) -> io::Result<()> {
    let mut text = serde_json::to_vec(message)?;
    text.push(b'\n');
    out.write_all(&text)
}

/// Watches the workers, and reports progress, until all items are settled.
fn watch(shared: &Shared, client: &Client, workers: &str) -> Result<()> {
    let mut reports: VecDeque<(Instant, u64)> = VecDeque::new();
    let mut state = shared.lock();
    let mut reported_at: Option<Instant> = None;
    loop {
        if let Some(why) = &state.failed {
            return Err(Failure::new(catalogue::INVALID, why.clone()));
        }
        let is_finished = state.ledger.is_finished();
        if is_finished || reported_at.is_none_or(|at| at.elapsed() >= LOOK) {
            reported_at = Some(Instant::now());
            report(&state, &mut reports);
            if is_finished {
                return Ok(());
            }
            let silent = silent_workers(&state);
            drop(state);
            let dead = silent.into_iter().filter(|worker| has_ended(client, worker)).collect();
            let has_workers = has_workers(client, workers);
            state = shared.lock();
            give_up(&mut state, dead);
            shared.changed.notify_all();
            if !has_workers && state.connected.is_empty() && !state.ledger.is_finished() {
                let n = state.ledger.n_items() - state.ledger.n_done();
                let what = format!("all workers have ended, and {n} items are left");
                return Err(Failure::new(catalogue::INVALID, what)
                    .tip(format!("gpool logs {workers}.0   (why a worker ended)"))
                    .tip("gpool map --resume NAME   (with new workers)"));
            }
        }
        let waited = shared.changed.wait_timeout(state, LOOK);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Prints the progress as metrics of this job.
fn report(state: &State, reports: &mut VecDeque<(Instant, u64)>) {
    let (now, n_done) = (Instant::now(), state.ledger.n_done());
    reports.push_back((now, n_done));
    if reports.len() > RATE_REPORTS {
        reports.pop_front();
    }
    let rate = reports.front().map_or(0.0, |(at, before)| {
        let passed = now.duration_since(*at).as_secs_f64();
        if passed > 0.0 { (n_done - before) as f64 / passed } else { 0.0 }
    });
    let metrics = serde_json::json!({
        "items": state.ledger.n_items(),
        "done": n_done,
        "set_aside": state.ledger.set_aside().len(),
        "workers": state.connected.len(),
        "items_per_second": rate,
    });
    println!("{}", serde_json::json!({"gpool": {"metrics": metrics}}));
}

/// Workers with leases and without a connection.
fn silent_workers(state: &State) -> Vec<String> {
    let is_silent = |worker: &&String| {
        let left_at = state.left_at.get(*worker);
        !state.connected.contains_key(*worker) && left_at.is_none_or(|at| at.elapsed() >= SILENCE)
    };
    state.ledger.workers().filter(is_silent).cloned().collect()
}

/// Whether the attempt of a worker, `18.3#1`, is over. Without an answer it is not.
fn has_ended(client: &Client, worker: &str) -> bool {
    let Some((job, attempt)) = worker.split_once('#') else { return true };
    match client.job(job) {
        Ok(job) => job.state.is_end() || job.run.attempt.to_string() != attempt,
        Err(_) => false,
    }
}

fn has_workers(client: &Client, workers: &str) -> bool {
    client.job(workers).map_or(true, |job| !job.state.is_end())
}

/// Takes the leases of workers that are dead.
fn give_up(state: &mut State, dead: BTreeSet<String>) {
    for worker in dead {
        let found = state.ledger.crashed(&worker, None);
        let record = found.and_then(|(id, verdict)| state.failure(id, verdict, "its worker died"));
        state.store(&record.into_iter().collect::<Vec<_>>());
        state.left_at.remove(&worker);
    }
}

/// Cancels the elements that wait; those that run end by themselves.
fn cancel_unstarted(client: &Client, workers: &str) {
    let Ok(page) = client.elements(workers, "held,waiting,pending", 0, 1000) else { return };
    let ids: Vec<String> = page.items.into_iter().map(|element| element.id).collect();
    if !ids.is_empty() {
        // It is only about jobs that would end at once.
        let _ = client.cancel(&ids);
    }
}
