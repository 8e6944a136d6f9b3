//! Measures how reads of one user slow down another user: many connections of one user repeatedly
//! list a long queue, or ask why its last job waits, while the other user submits.

use std::net::Shutdown;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use gpool_cli::failure::{Failure, Result};

use super::faults::become_user;
use super::figure::{Figure, Ranked};
use super::load::{Ask, Connection};
use super::pending::{hold_all, lines, until};
use super::{Options, failed};

/// Connections of the reading user; one user may have 256.
const READERS: u32 = 240;
/// A user id without an account.
const READER_UID: u32 = 1_900_000_000;
/// The code of the answer to a connection too many.
const TOO_MANY: &str = "GP0109";
/// Limit for the slowdown of the other user's submissions.
const RATIO_MAX: f64 = 10.0;

/// Fills the queue, and times submissions alone and beside each kind of read.
///
/// # Errors
/// The server refuses something, or a connection is lost.
pub fn measure(options: &Options) -> Result<Vec<Figure>> {
    let cluster = super::cluster(&options.devices)?;
    hold_all(&cluster)?;
    let lines = lines(options.pending);
    let mut lines = std::io::Cursor::new(lines.into_bytes());
    let answer = cluster.client().submit_many(&mut lines, None).map_err(Failure::from)?;
    let first: u64 = answer.first.parse().map_err(|_| failed("an ID is not a number"))?;
    let last = first + answer.n_jobs - 1;
    let socket = cluster.socket();
    let n = options.starts;
    // The first submissions warm up the memory of the server.
    submissions(socket, n.div_ceil(10))?;
    let alone = submissions(socket, n)?;
    let beside_lists = beside(socket, Ask::List, n)?;
    let beside_whys = beside(socket, Ask::Why(last), n)?;
    cluster.end()?;
    let users = match rustix::process::geteuid().is_root() {
        true => "another user",
        false => "the same user (only root can be others)",
    };
    let with = format!("{READERS} connections of {users}, {} pending", options.pending);
    let figure = |name, what: String, of: &Ranked, percent| {
        Figure::new(name, what, of.percentile(percent), "ms")
    };
    let ratio = |name, what: &str, of: &Ranked| {
        let ratio = of.percentile(99) / alone.percentile(99);
        Figure::new(name, format!("p99 beside {what}, divided by p99 alone"), ratio, "×")
            .below(RATIO_MAX)
    };
    Ok(vec![
        figure("crowd_alone_p50_ms", "a durable submission alone, p50".to_owned(), &alone, 50),
        figure("crowd_alone_p99_ms", "a durable submission alone, p99".to_owned(), &alone, 99),
        figure("crowd_lists_p50_ms", format!("beside lists on {with}, p50"), &beside_lists, 50),
        figure("crowd_lists_p99_ms", "beside lists, p99".to_owned(), &beside_lists, 99),
        ratio("crowd_lists_ratio", "lists", &beside_lists),
        figure("crowd_whys_p50_ms", "beside why of the last job, p50".to_owned(), &beside_whys, 50),
        figure("crowd_whys_p99_ms", "beside why of the last job, p99".to_owned(), &beside_whys, 99),
        ratio("crowd_whys_ratio", "why", &beside_whys),
    ])
}

/// Times consecutive submissions, in milliseconds.
///
/// # Errors
/// The server refuses one, or the connection is lost.
pub fn submissions(socket: &Path, n: u32) -> Result<Ranked> {
    let run = gpool_client::new_key();
    let lost = |error| failed(format!("a submission: {error}"));
    let mut connection = Connection::open(socket).map_err(lost)?;
    let mut once = |nth| -> Result<f64> {
        let began = Instant::now();
        connection.ask(Ask::Submit, &run, nth).map_err(lost)?;
        Ok(began.elapsed().as_secs_f64() * 1000.0)
    };
    Ok(Ranked::of((0..n).map(&mut once).collect::<Result<_>>()?))
}

/// Times them while another user sends requests on many connections without a pause.
fn beside(socket: &Path, ask: Ask, n: u32) -> Result<Ranked> {
    let uid = rustix::process::geteuid().is_root().then_some(READER_UID);
    let is_over = AtomicBool::new(false);
    let lines = Mutex::new(Vec::new());
    let all_lines = || lines.lock().unwrap_or_else(PoisonError::into_inner);
    let read = || -> Result<()> {
        become_user(uid)?;
        let lost = |error| failed(format!("a read: {error}"));
        let mut connection = Connection::open(socket).map_err(lost)?;
        all_lines().push(connection.line().map_err(lost)?);
        loop {
            let answer = connection.ask(ask, "", 0);
            // The connections are already closed, so this thread does not wait for an answer.
            if is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            match answer {
                // The server has not yet closed all connections of the measurement before.
                Err(error) if error.to_string().contains(TOO_MANY) => {
                    connection = Connection::open(socket).map_err(lost)?;
                    all_lines().push(connection.line().map_err(lost)?);
                }
                answer => drop(answer.map_err(lost)?),
            }
        }
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read)).collect();
        let are_open = || (all_lines().len() >= READERS as usize).then_some(());
        let measured = until("the readers did not connect in time", are_open);
        let measured = measured.and_then(|()| submissions(socket, n));
        is_over.store(true, Ordering::Relaxed);
        for line in all_lines().iter() {
            // A connection that the server closed is fine too.
            drop(line.shutdown(Shutdown::Both));
        }
        for reader in readers {
            reader.join().unwrap_or_else(|_| Err(failed("a reader panicked")))?;
        }
        measured
    })
}
