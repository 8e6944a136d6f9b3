//! Follows the output of a job through restarts of the server, without loss or repetition.

use std::io::{ErrorKind, Read as _, Write};
use std::time::{Duration, Instant};

use gpool_client::{Client, Error, LogQuery};

use crate::errors;
use crate::failure::{Failure, Result};
use crate::screen::not_written;
use crate::session::LISTEN_RETRIES;

/// Pause between two attempts to reach a server that went away.
const PAUSE: Duration = Duration::from_millis(200);

/// Copies a job's output up to its current end; with `query.follow`, until the job has ended.
///
/// # Errors
/// There is no such log, the reader has gone, or the server stays away.
pub fn copy(client: &Client, id: &str, query: &LogQuery, out: &mut dyn Write) -> Result<()> {
    copy_after(client, id, query, 0, out)
}

/// Copies the output after the first `n_seen` bytes.
pub fn copy_after(
    client: &Client,
    id: &str,
    query: &LogQuery,
    mut n_seen: u64,
    out: &mut dyn Write,
) -> Result<()> {
    let mut lost_at: Option<Instant> = None;
    loop {
        let lost = match copy_once(client, id, query, &mut n_seen, out) {
            Ok(()) => return Ok(()),
            Err(Stopped::Finally(failure)) => return Err(failure),
            Err(Stopped::Lost(error)) => error,
        };
        // The position in a tail is unknown later, so only a whole log can be continued.
        let goes_on = query.follow && query.tail.is_none() && query.since.is_none();
        if !goes_on {
            return Err(Failure::from(lost));
        }
        if lost_at.get_or_insert_with(Instant::now).elapsed() > LISTEN_RETRIES {
            return Err(Failure::new(errors::CONNECTION_LOST, "the server did not come back")
                .tip(format!("gpool logs -f {id}")));
        }
        std::thread::sleep(PAUSE);
        if client.ready().is_ok() {
            lost_at = None;
        }
    }
}

enum Stopped {
    Lost(Error),
    Finally(Failure),
}

fn copy_once(
    client: &Client,
    id: &str,
    query: &LogQuery,
    n_seen: &mut u64,
    out: &mut dyn Write,
) -> std::result::Result<(), Stopped> {
    let mut logs = client.logs(id, query).map_err(|error| match error.is_away() {
        true => Stopped::Lost(error),
        false => Stopped::Finally(Failure::from(error)),
    })?;
    let mut n_to_skip = *n_seen;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let n_read = match logs.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n_read) => n_read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => match Error::of_read(error) {
                silent @ Error::Silent { .. } => return Err(Stopped::Finally(silent.into())),
                other => return Err(Stopped::Lost(Error::Lost { why: other.to_string() })),
            },
        };
        let n_skipped = usize::try_from(n_to_skip).unwrap_or(usize::MAX).min(n_read);
        n_to_skip -= n_skipped as u64;
        let new = &buffer[n_skipped..n_read];
        out.write_all(new)
            .and_then(|()| out.flush())
            .map_err(|error| Stopped::Finally(not_written(&error)))?;
        *n_seen += new.len() as u64;
    }
}
