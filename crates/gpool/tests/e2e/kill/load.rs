//! The load: several clients of two users submit jobs of all kinds, each with a key and repeated
//! until it is accepted, and cancel, hold, release, signal and extend some. Every job notes its
//! start and its end; some ends are notified to an endpoint.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use gpool_client::{Client, Error};
use gpool_model::SignalTo;
use gpool_model::job::JobState;
use gpool_model::{JobVerb, LimitChange, Millis};
use gpool_wire::{JobCreate, Problem, Quantity, Status, catalogue};
use rustix::process::{Gid, Uid};

use super::history::{Asked, Extended, Want};
use super::numbers::Numbers;
use crate::harness::{Cluster, is_root, until, until_so};

const N_CLIENTS: u64 = 3;
/// The most jobs that live at the same time.
const LIVING_MOST: u64 = 24;
const N_BULK: u64 = 6;
/// A user that every system has.
const NOBODY: u32 = 65534;
/// A job that would not end by itself.
const FOR_EVER: &str = "sleep 100000";

/// Clients that work until they are stopped.
pub struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Done>>,
}

/// The answers to the clients.
#[derive(Default)]
pub struct Done {
    pub asked: Vec<Asked>,
    pub extended: Vec<Extended>,
}

impl Load {
    /// Starts the clients. Jobs ask for up to `n_gpus` devices, and an endpoint gets messages of
    /// some ends.
    pub fn start(
        cluster: &Cluster,
        n_gpus: usize,
        endpoint: Option<&str>,
        numbers: &mut Numbers,
    ) -> Self {
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
                endpoint: endpoint.filter(|_| index > 0 || !is_root()).map(str::to_owned),
                done: Done::default(),
                to_cancel: Vec::new(),
                stop: Arc::clone(&stop),
            };
            std::thread::spawn(move || user.work())
        };
        Self { clients: (0..N_CLIENTS).map(start).collect(), stop }
    }

    /// Lets the clients finish their present work, and returns the answers to them.
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
    /// Gets messages, if the user is an admin: others may not name addresses inside the machine.
    endpoint: Option<String>,
    done: Done,
    /// Jobs that are cancelled some time after their submission.
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

    /// Sometimes cancels earlier jobs, and waits while there are many.
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
                // Just before its start; jobs that would hold its device forever are cancelled
                // first.
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
        self.ask(|client| client.act(JobVerb::Release { at: None }, std::slice::from_ref(&id)))
            .ok();
    }

    fn held_later(&mut self) {
        let code = self.code();
        let job = self.job(&format!("(exit {code})"), 1);
        let id = self.submit(&job, Want::Exit(vec![code]), 1, false);
        // It may have started or ended; then hold and release do nothing.
        self.ask(|client| client.act(JobVerb::Hold, std::slice::from_ref(&id))).ok();
        self.ask(|client| client.act(JobVerb::Release { at: None }, std::slice::from_ref(&id)))
            .ok();
    }

    fn limited(&mut self) {
        let n_gpus = self.zero_or_one();
        let (time, grace) = (Some(Quantity::Decimal(0.3)), Some(Quantity::from(1)));
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
            // The other job has ended already, and failed.
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
        // The signal may arrive before the trap is set.
        let id = self.submit(&job, Want::Exit(vec![9, 138]), 0, false);
        until_so("the job has got the signal", || {
            self.ask(|client| {
                client.act(
                    JobVerb::Signal { signal: 10, to: SignalTo::Job },
                    std::slice::from_ref(&id),
                )
            })
            .ok();
            self.ask(|client| client.job(&id)).unwrap().state.is_end()
        });
    }

    /// A job that is extended several times once it is placed; a file makes it end.
    fn extended(&mut self) {
        const BEFORE_S: u64 = 3600;
        let code = self.code();
        let go = self.locks.join(format!("go-{}-{}", self.index, self.n_asked + 1));
        let line = format!("until [ -e {} ]; do sleep 0.02; done; (exit {code})", go.display());
        let time = Some(Quantity::from(BEFORE_S));
        let job = JobCreate { time, ..self.job(&line, 0) };
        let id = self.submit(&job, Want::Exit(vec![code]), 0, false);
        let state = || self.ask(|client| client.job(&id)).unwrap().state;
        until_so("the job is placed", || state() != JobState::Pending);
        let change = LimitChange::Longer { by: Millis::from_secs(60) };
        let (mut n_told, n_tried) = (0, Cell::new(0));
        for _ in 0..=self.numbers.below(3) {
            let told = self.ask(|client| {
                n_tried.set(n_tried.get() + 1);
                client.act(JobVerb::Extend { change }, std::slice::from_ref(&id))
            });
            // Its shepherd may have been killed.
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

    /// A job that runs `line` between noting its start and its end.
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
        // A unique environment, so that a file is written.
        if self.numbers.below(3) == 0 {
            job.environment.insert("NUMBER".to_owned(), number.to_string());
        }
        if self.numbers.below(4) == 0 {
            job.notify = self.endpoint.iter().map(|url| format!("end@{url}")).collect();
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

    /// Submits until the job is accepted, like a client that must not give up.
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
        // It may have ended: by itself, or by a cancel with a lost answer.
        self.ask(|client| client.cancel(std::slice::from_ref(id))).ok();
    }

    /// Repeats a request until a server that is not stopping answers.
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

/// Changes the user of this thread only, permanently.
fn become_nobody() {
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    rustix::thread::set_thread_groups(&[]).unwrap();
    rustix::thread::set_thread_res_gid(group, group, group).unwrap();
    rustix::thread::set_thread_res_uid(user, user, user).unwrap();
}
