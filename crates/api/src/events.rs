//! The stream of events.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use gpool_wire::Event;
use tokio::sync::watch;

use super::extract::header;
use crate::api::Api;
use gpool_server::feed::{After, Feed};

/// How often a silent stream shows that it is alive.
const ALIVE: Duration = Duration::from_secs(15);
/// Events that are turned into text at once.
const BATCH: usize = 256;

/// Streams events: state changes of jobs, and changes of nodes. After a lost connection, send the
/// last id as `Last-Event-ID`. An event of type `resync` reports that events were missed: read the
/// needed state again.
#[utoipa::path(
    get,
    path = "/events",
    operation_id = "events_stream",
    params(("Last-Event-ID" = Option<String>, Header, description = "Continue after this event")),
    responses((
        status = 200, description = "Server-sent events; the data of each is an Event",
        body = Event, content_type = "text/event-stream",
    ))
)]
pub(crate) async fn stream(State(api): State<Api>, headers: HeaderMap) -> Response {
    let place = match header(&headers, "last-event-id") {
        Some(id) => api.feed.place_of(id),
        None => Some(api.feed.place()),
    };
    let watch = EventStream {
        changes: api.feed.changes(),
        end: api.end.clone(),
        feed: api.feed.clone(),
        place,
        ready: VecDeque::new(),
    };
    let events = unfold(watch, async |mut watch| {
        let event = watch.next().await?;
        Some((Ok::<_, Infallible>(in_text(&event)), watch))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE)).into_response()
}

fn in_text(event: &Event) -> axum::response::sse::Event {
    let data = serde_json::to_string(event).expect("events are plain data");
    axum::response::sse::Event::default().id(&event.id).data(data)
}

struct EventStream {
    feed: Arc<Feed>,
    changes: watch::Receiver<u64>,
    end: watch::Receiver<bool>,
    place: Option<u64>,
    ready: VecDeque<Event>,
}

impl EventStream {
    /// The next event; `None` when the server stops.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.place = self.feed.place_of(&event.id);
                return Some(event);
            }
            self.changes.mark_unchanged();
            match self.feed.after(self.place, BATCH) {
                After::Gap(event) => self.ready.push_back(event),
                After::Events(events) if events.is_empty() => {
                    tokio::select! {
                        changed = self.changes.changed() => changed.ok()?,
                        _ = self.end.wait_for(|end| *end) => return None,
                    }
                }
                After::Events(events) => self.ready.extend(events),
            }
        }
    }
}
