//! What users do meanwhile: several clients of two users submit jobs of all kinds, each under a
//! key and until somebody takes it, and cancel, hold, release, signal and extend some. Every job
//! writes down that it starts and that it ends; of some ends an endpoint is told.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use gpool_client::{Client, Error};
use gpool_model::job::JobState;
use gpool_wire::{ExtendJobs, JobCreate, Problem, Status, Written, catalogue};
use rustix::process::{Gid, Uid};

use super::history::{Asked, Extended, Want};
use super::numbers::Numbers;
use crate::harness::{Cluster, is_root, until, until_so};

const N_CLIENTS: u64 = 3;
/// More jobs than this are not kept waiting.
const LIVING_MOST: u64 = 24;
const N_BULK: u64 = 6;
/// A user that every system has.
const NOBODY: u32 = 65534;
/// It would not end by itself.
const FOR_EVER: &str = "sleep 100000";

/// Clients that go on until they are told to stop.
pub struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Done>>,
}

/// What clients were told.
#[derive(Default)]
pub struct Done {
    pub asked: Vec<Asked>,
    pub extended: Vec<Extended>,
}

impl Load {
    /// Starts them; the devices of the cluster are asked for up to `n_gpus` at once, and `endpoint`
    /// is told of some ends.
    pub fn start(cluster: &Cluster, n_gpus: usize, endpoint: &str, numbers: &mut Numbers) -> Self {
        open_to_all(&cluster.path("locks"), true);
        open_to_all(&cluster.path("trace"), false);
        let stop = Arc::new(AtomicBool::new(false));
        let start = |index: u64| {
            let user = User {
                client: cluster.client().with_retries(Duration::ZERO),
                numbers: Numbers::new(numbers.next()),
                index,
                n_asked: 0,
                n_gpus,
                trace: cluster.path("trace"),
                locks: cluster.path("locks"),
                endpoint: endpoint.to_owned(),
                may_tell: index > 0 || !is_root(),
                done: Done::default(),
                to_cancel: Vec::new(),
                stop: Arc::clone(&stop),
            };
            std::thread::spawn(move || user.work())
        };
        Self { clients: (0..N_CLIENTS).map(start).collect(), stop }
    }

    /// Lets them finish what they are at, and gives what they were told.
    pub fn stop(self) -> Done {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = Done::default();
        for client in self.clients {
            let done = client.join().unwrap();
            all.asked.extend(done.asked);
            all.extended.extend(done.extended);
        }
        all
    }
}

fn open_to_all(path: &Path, is_folder: bool) {
    match is_folder {
        true => std::fs::create_dir(path).unwrap(),
        false => std::fs::write(path, "").unwrap(),
    }
    let mode = std::os::unix::fs::PermissionsExt::from_mode(if is_folder { 0o777 } else { 0o666 });
    std::fs::set_permissions(path, mode).unwrap();
}

struct User {
    client: Client,
    numbers: Numbers,
    index: u64,
    n_asked: u64,
    n_gpus: usize,
    trace: PathBuf,
    locks: PathBuf,
    endpoint: String,
    /// Whether it is an admin, who may name an address inside the machine.
    may_tell: bool,
    done: Done,
    /// Cancelled some time after they were submitted.
    to_cancel: Vec<String>,
    stop: Arc<AtomicBool>,
}

impl User {
    fn work(mut self) -> Done {
        if self.index == 0 && is_root() {
            become_nobody();
        }
        while !self.stop.load(Ordering::SeqCst) {
            match self.numbers.below(100) {
                0..=29 => self.plain(1),
                30..=47 => self.plain(0),
                48..=52 => self.plain(self.n_gpus),
                53..=60 => self.cancelled(),
                61..=68 => self.cancelled_or_not(),
                69..=74 => self.held_at_first(),
                75..=79 => self.held_later(),
                80..=83 => self.limited(),
                84..=90 => self.after(),
                91..=93 => self.bulk(),
                94..=96 => self.extended(),
                _ => self.signalled(),
            }
            self.pause();
        }
        self.cancel_those_before();
        self.done
    }

    /// Sometimes cancels those from before, and waits while there are many.
    fn pause(&mut self) {
        let many = |status: &Status| status.jobs.values().sum::<u64>() >= LIVING_MOST;
        let is_full = self.ask(Client::status).is_ok_and(|status| many(&status));
        if is_full || self.numbers.below(4) == 0 {
            self.cancel_those_before();
        }
        until_so("jobs end", || {
            let is_full = self.ask(Client::status).is_ok_and(|status| many(&status));
            !is_full || self.stop.load(Ordering::SeqCst)
        });
    }

    fn cancel_those_before(&mut self) {
        for id in std::mem::take(&mut self.to_cancel) {
            self.cancel(&id);
        }
    }

    fn plain(&mut self, n_gpus: usize) {
        let code = self.code();
        let wait = self.numbers.below(4) * 10;
        let job = self.job(&format!("sleep 0.0{wait:02}; (exit {code})"), n_gpus);
        self.submit(&job, Want::Exit(vec![code]), n_gpus, true);
    }

    fn cancelled(&mut self) {
        let n_gpus = self.zero_or_one();
        let job = self.job(FOR_EVER, n_gpus);
        let id = self.submit(&job, Want::Cancelled, n_gpus, false);
        match self.numbers.below(3) {
            0 => self.cancel(&id),
            1 => {
                // Just when it is about to start; what would hold its device for ever goes first.
                self.cancel_those_before();
                let state = || self.ask(|client| client.job(&id)).unwrap().state;
                until_so("the job is placed", || state() != JobState::Pending);
                self.cancel(&id);
            }
            _ => self.to_cancel.push(id),
        }
    }

    fn cancelled_or_not(&mut self) {
        let (code, n_gpus) = (self.code(), self.zero_or_one());
        let job = self.job(&format!("(exit {code})"), n_gpus);
        let id = self.submit(&job, Want::CancelledOr(code), n_gpus, false);
        self.cancel(&id);
    }

    fn held_at_first(&mut self) {
        let code = self.code();
        let job = JobCreate { hold: true, ..self.job(&format!("(exit {code})"), 1) };
        let id = self.submit(&job, Want::Exit(vec![code]), 1, false);
        self.ask(|client| client.release(std::slice::from_ref(&id), None)).ok();
    }

    fn held_later(&mut self) {
        let code = self.code();
        let job = self.job(&format!("(exit {code})"), 1);
        let id = self.submit(&job, Want::Exit(vec![code]), 1, false);
        // It may have started, or ended; then there is nothing to hold and to release.
        self.ask(|client| client.hold(std::slice::from_ref(&id))).ok();
        self.ask(|client| client.release(std::slice::from_ref(&id), None)).ok();
    }

    fn limited(&mut self) {
        let n_gpus = self.zero_or_one();
        let (time, grace) = (Some(Written::Decimal(0.3)), Some(Written::from(1)));
        let job = JobCreate { time, grace, ..self.job(FOR_EVER, n_gpus) };
        self.submit(&job, Want::TimedOut, n_gpus, false);
    }

    fn after(&mut self) {
        let Some(before) = self.done.asked.last().map(|asked| asked.id) else { return };
        let code = self.code();
        let after = vec![before.to_string()];
        let job = JobCreate { after, ..self.job(&format!("(exit {code})"), 0) };
        let key = self.key();
        match self.ask(|client| client.submit(&job, Some(&key))) {
            Ok(taken) => self.note(&taken.id, &job, Want::After(before, code), 0, false),
            // It has ended already, and not well.
            Err(problem) => assert_eq!(problem.code, catalogue::DEPENDENCY_NEVER_MET.to_string()),
        }
    }

    fn bulk(&mut self) {
        let code = self.code();
        let jobs: Vec<JobCreate> =
            (0..N_BULK).map(|_| self.job(&format!("(exit {code})"), 0)).collect();
        let line = |job: &JobCreate| serde_json::to_string(job).unwrap() + "\n";
        let (lines, key) = (jobs.iter().map(line).collect::<String>(), self.key());
        let answer = self.ask(|client| client.submit_many(&mut lines.as_bytes(), Some(&key)));
        let answer = answer.unwrap_or_else(|problem| panic!("{problem:?}"));
        assert_eq!(answer.n_jobs, N_BULK);
        for (id, job) in answer.ids().zip(&jobs) {
            self.note(&id, job, Want::Exit(vec![code]), 0, false);
        }
    }

    fn signalled(&mut self) {
        let line = "trap 'go=1' USR1; while [ -z \"$go\" ]; do sleep 0.02; done; (exit 9)";
        let job = self.job(line, 0);
        // It may be told before it listens.
        let id = self.submit(&job, Want::Exit(vec![9, 138]), 0, false);
        until_so("the job has heard it", || {
            self.ask(|client| client.signal(std::slice::from_ref(&id), "USR1")).ok();
            self.ask(|client| client.job(&id)).unwrap().state.is_end()
        });
    }

    /// Made longer once it is placed, some times; it ends when it is told to.
    fn extended(&mut self) {
        const BEFORE_S: u64 = 3600;
        let code = self.code();
        let go = self.locks.join(format!("go-{}-{}", self.index, self.n_asked + 1));
        let line = format!("until [ -e {} ]; do sleep 0.02; done; (exit {code})", go.display());
        let time = Some(Written::from(BEFORE_S));
        let job = JobCreate { time, ..self.job(&line, 0) };
        let id = self.submit(&job, Want::Exit(vec![code]), 0, false);
        let state = || self.ask(|client| client.job(&id)).unwrap().state;
        until_so("the job is placed", || state() != JobState::Pending);
        let by = Some(Written::from("+60s"));
        let change = ExtendJobs { by, jobs: vec![id.clone()], ..ExtendJobs::default() };
        let (mut n_told, n_tried) = (0, Cell::new(0));
        for _ in 0..=self.numbers.below(3) {
            let told = self.ask(|client| {
                n_tried.set(n_tried.get() + 1);
                client.extend(&change)
            });
            // It may have lost its shepherd.
            n_told += u64::from(told.is_ok());
        }
        std::fs::write(&go, "").unwrap();
        let (id, before, by) = (id.parse().unwrap(), BEFORE_S * 1000, 60_000);
        let n_tried = n_tried.get();
        self.done.extended.push(Extended { id, before, by, n_told, n_tried });
    }

    fn code(&mut self) -> i32 {
        i32::try_from(self.numbers.below(7)).unwrap()
    }

    fn zero_or_one(&mut self) -> usize {
        usize::try_from(self.numbers.below(2)).unwrap()
    }

    fn key(&self) -> String {
        format!("key-{}-{}", self.index, self.n_asked)
    }

    /// A job that does that between noting its start and its end.
    fn job(&mut self, line: &str, n_gpus: usize) -> JobCreate {
        self.n_asked += 1;
        let number = self.n_asked;
        let mut job = JobCreate {
            command: ["sh", "-c", &self.program(line)].map(str::to_owned).to_vec(),
            name: Some(format!("n{}-{number}", self.index)),
            gpus: (n_gpus > 0).then(|| n_gpus.to_string()),
            directory: Some("/".to_owned()),
            ..JobCreate::default()
        };
        // One that nobody else has, so that there is something to write down.
        if self.numbers.below(3) == 0 {
            job.environment.insert("NUMBER".to_owned(), number.to_string());
        }
        if self.may_tell && self.numbers.below(4) == 0 {
            job.notify = vec![format!("end@{}", self.endpoint)];
        }
        job
    }

    fn program(&self, line: &str) -> String {
        let (trace, locks) = (self.trace.display(), self.locks.display());
        format!(
            "umask 0; exec 7>>{trace}; read at rest </proc/uptime
            echo \"s $GPOOL_JOB_ID $GPOOL_ATTEMPT $$ $at ${{GPOOL_GPU_UUIDS:--}}\" >&7
            IFS=,; set -- $GPOOL_GPU_UUIDS; unset IFS
            lock() {{ test -z \"$1\" || flock -n $2 || echo \"x $GPOOL_JOB_ID $1\" >&7; }}
            exec 8>>\"{locks}/$1.lock\" 9>>\"{locks}/$2.lock\"; lock \"$1\" 8; lock \"$2\" 9
            echo out of $GPOOL_JOB_NAME
            {line}
            code=$?; read at rest </proc/uptime
            echo \"e $GPOOL_JOB_ID $GPOOL_ATTEMPT $at $code\" >&7
            exit $code"
        )
    }

    /// Submits until somebody takes it, as a client that must not give up would.
    fn submit(&mut self, job: &JobCreate, want: Want, n_gpus: usize, in_order: bool) -> String {
        let key = self.key();
        let taken = self.ask(|client| client.submit(job, Some(&key)));
        let id = taken.unwrap_or_else(|problem| panic!("{problem:?}")).id;
        self.note(&id, job, want, n_gpus, in_order);
        id
    }

    fn note(&mut self, id: &str, job: &JobCreate, want: Want, n_gpus: usize, in_order: bool) {
        let (id, name) = (id.parse().unwrap(), job.name.clone().unwrap());
        let is_told = !job.notify.is_empty();
        self.done.asked.push(Asked { id, name, want, n_gpus, in_order, is_told });
    }

    fn cancel(&self, id: &String) {
        // It may have ended: by itself, or by a cancel whose answer was lost.
        self.ask(|client| client.cancel(std::slice::from_ref(id))).ok();
    }

    /// Asks until there is an answer of a server that is not about to go.
    fn ask<T>(&self, call: impl Fn(&Client) -> Result<T, Error>) -> Result<T, Problem> {
        let away = [catalogue::NOT_READY, catalogue::SHUTTING_DOWN].map(|code| code.to_string());
        until("the server answers", || match call(&self.client) {
            Ok(answer) => Some(Ok(answer)),
            Err(Error::Problem(problem)) if away.contains(&problem.code) => None,
            Err(Error::Problem(problem)) => Some(Err(problem)),
            Err(_) => None,
        })
    }
}

/// This thread alone speaks as somebody else from now on.
fn become_nobody() {
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    rustix::thread::set_thread_groups(&[]).unwrap();
    rustix::thread::set_thread_res_gid(group, group, group).unwrap();
    rustix::thread::set_thread_res_uid(user, user, user).unwrap();
}
