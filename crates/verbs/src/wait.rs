//! `gpool wait`: waits until jobs have ended; its exit code is the largest of theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use clap::Args;
use gpool_cli::act::Each;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::json;
use gpool_cli::render::safe::safe;
use gpool_cli::render::words::{count, state};
use gpool_cli::resolve::{self, JobScope, each_job};
use gpool_cli::session::Session;
use gpool_client::{Client, Events, JobsQuery};
use gpool_model::{Millis, parse};
use gpool_wire::{Event, EventKind};
use serde_json::json;

use crate::outcome::{exit_of, exit_of_job};

#[derive(Debug, Clone, Args)]
pub struct WaitArgs {
    #[command(flatten)]
    jobs: Jobs,
    /// Time limit for waiting, then exit code 8 (default: none), e.g. 2h
    #[arg(long, value_name = "TIME", value_parser = parse::span)]
    timeout: Option<Millis>,
}

/// Runs the verb.
///
/// # Errors
/// There is no such job, or the jobs have not ended in time. A missing job does not keep it from
/// waiting for the others.
pub fn run(args: &WaitArgs, session: &Session) -> Result {
    let timeout = args.timeout.map(|span| Duration::from_millis(span.get()));
    let client = session.listener()?.with_timeout(timeout);
    let user = args.jobs.user.as_deref();
    // Subscribes before the first request, so that no end is missed.
    let events = listen(client.events(None)?);
    let mut found =
        resolve::each(&client, args.jobs.references(), user, session.me(), JobScope::Ever)?;
    let mut waiting = JobWait {
        client: &client,
        session,
        open: found.ids.iter().cloned().collect(),
        exits: BTreeMap::new(),
        each: Each::of(&mut found),
    };
    waiting.look(timeout)?;
    if !waiting.open.is_empty() {
        // Reported now, since waiting for the others may take long.
        for failure in &waiting.each.refused {
            session.screen.warn(failure.what());
        }
    }
    waiting.until_ended(&events, timeout)?;
    if session.global.json {
        let items: Vec<_> = found
            .ids
            .iter()
            .map(|id| json!({"id": id, "exit": waiting.exits.get(id).map(|exit| exit.0)}))
            .collect();
        session.screen.data(&json::list(&items))?;
    }
    let exit = waiting.exits.values().copied().max_by_key(|exit| exit.0).unwrap_or(Exit::OK);
    waiting.each.end("wait for", exit).map_err(|failure| {
        let largest = failure.exit().0.max(exit.0);
        failure.exit_with(Exit(largest))
    })
}

type EventResult = std::result::Result<Event, gpool_client::Error>;

/// Reads events on another thread, so that a wait for one can time out.
pub fn listen(events: Events) -> Receiver<EventResult> {
    let (heard, listener) = channel();
    std::thread::spawn(move || {
        for event in events {
            // The receiver is gone only when the program ends.
            if heard.send(event).is_err() {
                return;
            }
        }
    });
    listener
}

struct JobWait<'s> {
    client: &'s Client,
    session: &'s Session,
    open: BTreeSet<String>,
    exits: BTreeMap<String, Exit>,
    each: Each,
}

impl JobWait<'_> {
    /// Asks the server which of the jobs have ended, at most for the remaining time.
    fn look(&mut self, left: Option<Duration>) -> Result<()> {
        let client = self.client.clone().with_timeout(left);
        let living: BTreeSet<String> = match self.open.len() {
            // A few jobs are requested one by one; for many, one list is cheaper.
            0..=8 => self.open.clone(),
            _ => {
                let living = each_job(&client, &JobsQuery::default());
                living.map(|job| job.map(|job| job.id)).collect::<Result<_>>()?
            }
        };
        let is_few = self.open.len() <= 8;
        for id in self.open.clone() {
            if is_few || !living.contains(&id) {
                let Some(job) = self.each.take(client.job(&id).map_err(Failure::from))? else {
                    self.open.remove(&id);
                    continue;
                };
                if let Some(exit) = exit_of_job(&job) {
                    self.ended(&id, exit, job.state.as_str());
                }
            }
        }
        Ok(())
    }

    fn ended(&mut self, id: &str, exit: Exit, word: &str) {
        if self.open.remove(id) {
            self.exits.insert(id.to_owned(), exit);
            self.session.screen.note(&format!("job {} {}", safe(id), state(word)));
        }
    }

    fn until_ended(
        &mut self,
        events: &Receiver<EventResult>,
        timeout: Option<Duration>,
    ) -> Result<()> {
        let began = Instant::now();
        while !self.open.is_empty() {
            let left = match timeout {
                Some(timeout) => timeout.saturating_sub(began.elapsed()),
                // In pieces: a channel has no wait that is both endless and timed.
                None => Duration::from_secs(3600),
            };
            let event = match events.recv_timeout(left) {
                Ok(Ok(event)) => event,
                Ok(Err(error)) => return Err(error.into()),
                Err(RecvTimeoutError::Timeout) if timeout.is_none() => continue,
                Err(RecvTimeoutError::Timeout) => return Err(self.too_late()),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::new(
                        errors::CONNECTION_LOST,
                        "lost the connection to the server",
                    ));
                }
            };
            if let EventKind::JobState { job, state, exit_code } = &event.kind
                && let Some(exit) = exit_of(*state, *exit_code)
            {
                self.ended(job, exit, state.as_str());
            }
            let may_have_ended = |id: &String| match &event.kind {
                EventKind::JobState { job, .. } => job != id && event.kind.may_concern(id),
                kind => kind.may_concern(id),
            };
            if self.open.iter().any(may_have_ended) {
                self.look(timeout.map(|limit| limit.saturating_sub(began.elapsed())))?;
            }
        }
        Ok(())
    }

    fn too_late(&self) -> Failure {
        let n_open = u64::try_from(self.open.len()).unwrap_or(u64::MAX);
        let ids: Vec<&str> = self.open.iter().take(10).map(String::as_str).collect();
        Failure::new(errors::NEVER_ENDED, format!("{} did not end in time", count(n_open, "job")))
            .why(format!("still there: {}", ids.join(", ")))
            .tip(format!("gpool why {}", ids.first().copied().unwrap_or("@")))
    }
}
