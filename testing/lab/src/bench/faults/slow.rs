//! Deliberately slow clients: connections that never finish a request, bodies of one byte per
//! second, watchers that never read, and a job that writes one endless line. It compares answer
//! times of other clients with and without them.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpool_cli::failure::{Failure, Result};
use gpool_wire::JobCreate;

use super::crowd::become_user;
use super::rig::{Rig, Stop, shell};
use super::{Options, Outcome};
use crate::bench::failed;
use crate::bench::figure::{Figure, Ranked};
use crate::bench::process::memory_of;

/// User ids without an account: enough of them to stay below the limit of connections per user.
const FIRST_UID: u32 = 1_900_000_000;
const N_USERS: usize = 10;

/// The number of slow clients of each kind.
struct Attack {
    half_open: usize,
    bodies: usize,
    watchers: usize,
}

/// Measures answer times without slow clients, with them, and beside a job that writes endlessly.
pub fn measure(options: &Options, stop: &Stop) -> Result<Outcome> {
    raise_open_files();
    let is_root = rustix::process::geteuid().is_root();
    // One user may have 256 connections, and the measuring client needs some.
    let attack = match is_root {
        true => Attack { half_open: 1000, bodies: 100, watchers: 50 },
        false => Attack { half_open: 100, bodies: 50, watchers: 20 },
    };
    let n_asked = options.amount(4000, 1000);
    let rig = Rig::up("none", stop)?;
    let held = JobCreate { hold: true, ..shell("true") };
    for _ in 0..100 {
        rig.submit(&held)?;
    }
    let n_events = options.amount(20_000, 5000);
    // A first unmeasured run warms up the server and fills its buffer of events.
    events(&rig, n_events)?;
    ask(&rig, n_asked)?;
    let idle = ask(&rig, n_asked)?;
    let memory_before = memory_of(rig.server_pid());
    let over = AtomicBool::new(false);
    let (attacked, memory, n_connected) = std::thread::scope(|scope| -> Result<_> {
        let slow = begin(&rig, &attack, is_root)?;
        let n_connected = slow.len();
        scope.spawn(|| dribble(slow, &over));
        let measured = events(&rig, n_events).and_then(|()| ask(&rig, n_asked));
        let memory = memory_of(rig.server_pid());
        over.store(true, Ordering::Relaxed);
        Ok((measured?, memory, n_connected))
    })?;
    let (beside, line, n_bytes) = endless_line(&rig, options, n_asked)?;
    let memory_line = memory_of(rig.server_pid());
    rig.end()?;
    let ms = |name, what, value| Figure::new(name, what, value, "ms");
    let ratio = |name, what, value| Figure::new(name, what, value, "×").below(2.0);
    let grown = |now: u64| now.saturating_sub(memory_before) as f64 / 1e6;
    let (idle, attacked) = (idle.percentile(99), attacked.percentile(99));
    let (beside, line) = (beside.percentile(99), line.percentile(99));
    let figures = vec![
        ms("slow_idle_ms", "API p99 without slow clients", idle),
        ms("slow_attacked_ms", "API p99 with them", attacked),
        ratio("slow_ratio", "with to without", attacked / idle),
        ms("slow_busy_ms", "API p99 beside a job that writes to /dev/null", beside),
        ms("slow_line_ms", "API p99 beside a job that writes one line", line),
        ratio("slow_line_ratio", "one line to /dev/null", line / beside),
        Figure::new("slow_memory_mb", "memory growth with them connected", grown(memory), "MB")
            .below(64.0),
        Figure::new(
            "slow_line_memory_mb",
            "memory growth after all of them",
            grown(memory_line),
            "MB",
        )
        .below(64.0),
    ];
    let did = format!(
        "{n_connected} connections: {} requests never finished, {} bodies of 1 byte/s, {} watchers \
         that never read {n_events} events; a line of {} MB",
        attack.half_open,
        attack.bodies,
        attack.watchers,
        n_bytes / 1_000_000
    );
    Ok(Outcome::Done { did, figures })
}

/// A thousand connections exceed the default limit of a process.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // If this fails, fewer clients connect, which the report shows.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Measures answer times, each on a new connection like those of the command line.
fn ask(rig: &Rig, n_asked: u32) -> Result<Ranked> {
    let socket = rig.socket();
    let once = || -> std::io::Result<f64> {
        let began = Instant::now();
        let mut stream = UnixStream::connect(&socket)?;
        let request =
            "GET /api/v1/jobs?limit=20 HTTP/1.1\r\nhost: gpool\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        match answer.starts_with(b"HTTP/1.1 200") {
            true => Ok(began.elapsed().as_secs_f64() * 1000.0),
            false => Err(std::io::Error::other(String::from_utf8_lossy(&answer).into_owned())),
        }
    };
    let mut measured = Vec::new();
    for _ in 0..n_asked {
        rig.stop.check()?;
        measured.push(once().map_err(|error| failed(format!("not answered: {error}")))?);
    }
    Ok(Ranked::of(measured))
}

/// An open connection, and whether a byte of its body is sent from time to time.
type Slow = (UnixStream, bool);

/// Opens all slow connections, as several users if possible.
fn begin(rig: &Rig, attack: &Attack, is_root: bool) -> Result<Vec<Slow>> {
    let requests = std::iter::empty()
        .chain(std::iter::repeat_n(("GET /api/v1/jo", false), attack.half_open))
        .chain(std::iter::repeat_n((SLOW_BODY, true), attack.bodies))
        .chain(std::iter::repeat_n((WATCH, false), attack.watchers));
    let requests: Vec<_> = requests.collect();
    let socket = rig.socket();
    let mut all = Vec::new();
    for (n, part) in requests.chunks(requests.len().div_ceil(N_USERS)).enumerate() {
        let uid = u32::try_from(n).ok().filter(|_| is_root).map(|n| FIRST_UID + n);
        let open = || -> Result<Vec<Slow>> {
            become_user(uid)?;
            let connect = |(request, dribbles): &(&str, bool)| connect(&socket, request, *dribbles);
            part.iter().map(connect).collect()
        };
        let opened = std::thread::scope(|scope| scope.spawn(open).join());
        all.extend(opened.unwrap_or_else(|_| Err(failed("a slow client panicked")))?);
    }
    Ok(all)
}

const SLOW_BODY: &str = "POST /api/v1/jobs HTTP/1.1\r\nhost: gpool\r\n\
     content-type: application/json\r\ncontent-length: 10000\r\n\r\n{";
const WATCH: &str =
    "GET /api/v1/events HTTP/1.1\r\nhost: gpool\r\naccept: text/event-stream\r\n\r\n";

fn connect(socket: &Path, request: &str, dribbles: bool) -> Result<Slow> {
    let connected = UnixStream::connect(socket).and_then(|mut stream| {
        stream.write_all(request.as_bytes())?;
        Ok((stream, dribbles))
    });
    connected.map_err(|error| failed(format!("a slow client can't connect: {error}")))
}

/// Sends one byte of each body per second until the end; the server may close a connection earlier.
fn dribble(mut slow: Vec<Slow>, over: &AtomicBool) {
    let mut next = Instant::now();
    while !over.load(Ordering::Relaxed) {
        if Instant::now() >= next {
            next += Duration::from_secs(1);
            for (stream, _) in slow.iter_mut().filter(|(_, dribbles)| *dribbles) {
                drop(stream.write_all(b" "));
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Makes events for the watchers.
fn events(rig: &Rig, n_events: u32) -> Result<()> {
    let lines =
        "{\"command\":[\"true\"],\"hold\":true,\"directory\":\"/\"}\n".repeat(n_events as usize);
    let mut lines = std::io::Cursor::new(lines.into_bytes());
    let key = gpool_client::new_key();
    let answer = rig.client().submit_many(&mut lines, Some(&key)).map_err(Failure::from)?;
    // Cancelled again, so that the measured requests have the same answer as before.
    let first: u64 = answer.first.parse().map_err(|_| failed("an ID is not a number"))?;
    let ids: Vec<String> = (first..first + answer.n_jobs).map(|id| id.to_string()).collect();
    for part in ids.chunks(1000) {
        rig.client().cancel(part).map_err(Failure::from)?;
    }
    Ok(())
}

/// Measures answer times beside a job that writes to /dev/null, and beside one that writes a line
/// of `n_bytes` bytes to its output: both keep a core busy.
fn endless_line(rig: &Rig, options: &Options, n_asked: u32) -> Result<(Ranked, Ranked, u64)> {
    let n_bytes = u64::from(options.amount(1_000_000_000, 100_000_000));
    let write =
        |to: &str| format!("while :; do tr '\\0' x < /dev/zero | head -c {n_bytes}; done{to}");
    let nowhere = rig.submit(&shell(&write(" > /dev/null")))?;
    until_it_runs(rig, &nowhere)?;
    let beside = ask(rig, n_asked)?;
    rig.client().cancel(std::slice::from_ref(&nowhere)).map_err(Failure::from)?;
    rig.ended(&nowhere)?;
    let line = format!("tr '\\0' x < /dev/zero | head -c {n_bytes}");
    let writes = rig.submit(&shell(&line))?;
    until_it_runs(rig, &writes)?;
    let line = ask(rig, n_asked)?;
    rig.ended(&writes)?;
    Ok((beside, line, n_bytes))
}

fn until_it_runs(rig: &Rig, id: &str) -> Result<f64> {
    rig.stop.until_so("the job runs", || !rig.processes_of(id).is_empty())
}
