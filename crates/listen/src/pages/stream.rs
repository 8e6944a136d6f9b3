//! The stream that tells a page to load its contents again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::unfold;
use gpool_wire::EventKind;
use tokio::sync::watch;

use super::{Page, Pages, Visit};
use crate::entrance::RightsCheck;
use gpool_api::asker::Asks;
use gpool_api::connections::Seat;
use gpool_identity::pool::RequestSource;
use gpool_identity::web::{SessionKey, Web};
use gpool_server::feed::{After, Feed};

/// How often the session of a stream is checked for its end by time.
const RECHECK: Duration = Duration::from_secs(5);
/// How often a silent stream shows that it is alive.
const ALIVE: Duration = Duration::from_secs(15);
/// Changes within this time are one message.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// Most events that are looked at for one message.
const BATCH: usize = 1024;

/// Streams a message after changes: of one job if the query has `job`, otherwise of anything. On a
/// loopback address streams count as connections of their user; over the network its address has
/// a limit.
pub(super) fn stream(pages: &Pages, visit: &Visit<'_>) -> Page {
    let by = RequestSource::User(visit.asks.0.caller.owner.uid);
    let seat = Seat::take(&pages.open, by);
    if seat.is_none() && !pages.is_remote {
        return Err(Box::new(pages.open.too_many()));
    }
    let job = visit.query.get("job").to_owned();
    let watch = PageStream {
        feed: pages.feed.clone(),
        changes: pages.feed.changes(),
        end: pages.end.clone(),
        place: pages.feed.place(),
        session: visit.session.clone(),
        asks: visit.asks.clone(),
        web: pages.web.clone(),
        endings: pages.web.sessions.endings(),
        revocations: pages.entrance.revocations(),
        rights: RightsCheck::new(pages.entrance.clone()),
        _seat: seat,
        job,
    };
    let messages = unfold(watch, async |mut watch| {
        watch.changed().await?;
        Some((Ok::<_, Infallible>(Event::default().data("changed")), watch))
    });
    Ok(Sse::new(messages).keep_alive(KeepAlive::new().interval(ALIVE)).into_response())
}

struct PageStream {
    feed: Arc<Feed>,
    changes: watch::Receiver<u64>,
    end: watch::Receiver<bool>,
    /// The last event that was looked at.
    place: u64,
    session: SessionKey,
    /// The user of the session.
    asks: Asks,
    web: Arc<Web>,
    /// Changes when sessions end.
    endings: watch::Receiver<u64>,
    /// Changes when tokens are revoked.
    revocations: watch::Receiver<u64>,
    rights: RightsCheck,
    /// Its place among the connections of its user.
    _seat: Option<Seat>,
    job: String,
}

impl PageStream {
    /// Whether the session is open, and its user has the same rights.
    async fn is_valid(&mut self) -> bool {
        let is_open = self.web.sessions.is_open(&self.session, Instant::now());
        is_open && self.rights.holds(&self.asks).await
    }

    /// Waits; whether changes may follow. `None` at the end of the server or the session.
    async fn waits(&mut self) -> Option<bool> {
        let is_changed = tokio::select! {
            changed = self.changes.changed() => changed.map(|()| true).ok()?,
            ended = self.endings.changed() => ended.map(|()| false).ok()?,
            revoked = self.revocations.changed() => revoked.map(|()| false).ok()?,
            () = tokio::time::sleep(RECHECK) => false,
            _ = self.end.wait_for(|end| *end) => return None,
        };
        self.is_valid().await.then_some(is_changed)
    }

    /// Waits for a change; `None` when the server stops, or the session is over.
    async fn changed(&mut self) -> Option<()> {
        loop {
            if !self.waits().await? {
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                _ = self.end.wait_for(|end| *end) => return None,
            }
            if !self.is_valid().await {
                return None;
            }
            self.changes.mark_unchanged();
            let from = std::mem::replace(&mut self.place, self.feed.place());
            let concerns = match self.feed.after(Some(from), BATCH) {
                After::Gap(_) => true,
                After::Events(events) => {
                    events.len() >= BATCH || events.iter().any(|it| self.concerns(&it.kind))
                }
            };
            if concerns {
                return Some(());
            }
        }
    }

    fn concerns(&self, kind: &EventKind) -> bool {
        if self.job.is_empty() {
            return true;
        }
        match kind {
            EventKind::JobState { job, .. }
            | EventKind::JobIdle { job, .. }
            | EventKind::JobMoved { job, .. }
            | EventKind::Notified { job, .. } => {
                // An element is a part of its array.
                job.strip_prefix(&self.job).is_some_and(|it| it.is_empty() || it.starts_with('.'))
            }
            EventKind::NodeChanged { .. }
            | EventKind::NodeMembership { .. }
            | EventKind::ProjectChanged { .. }
            | EventKind::PayerNotified { .. }
            | EventKind::ReservationChanged { .. }
            | EventKind::Resync
            | EventKind::Other => false,
        }
    }
}
