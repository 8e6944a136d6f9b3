//! Pages of lists. The server creates a page in pieces, each after the previous one is sent, so
//! that a request needs memory for one piece only. A large page ends early, with a cursor for the
//! next page.

use std::future::Future;
use std::pin::Pin;

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::stream::try_unfold;
use gpool_model::Refusal;
use gpool_wire::API_VERSION;
use serde::Serialize;
use serde_json::json;

use super::extract::ApiError;

/// Maximum size of a page in bytes, unless a single item is larger.
const PAGE_BYTES: usize = 8 << 20;
/// Size of a piece in bytes, unless a single item is larger.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes reserved for the text around the items.
const AROUND: usize = 1 << 10;

/// Remaining size of a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    n_items: usize,
    n_bytes: usize,
}

pub(crate) struct Piece<P> {
    text: String,
    n_items: usize,
    room: Room,
    /// Start of the next piece; `None` at the end of the list.
    pub next: Option<P>,
    /// Number of items on all pages.
    pub total: Option<u64>,
}

impl<P> Piece<P> {
    /// Returns an empty piece with the given limit.
    pub fn new(room: Room) -> Self {
        Self { text: String::new(), n_items: 0, room, next: None, total: None }
    }

    /// Returns the number of items that still fit.
    pub fn n_left(&self) -> usize {
        self.room.n_items - self.n_items
    }

    pub fn is_full(&self) -> bool {
        self.n_left() == 0 || self.text.len() >= PIECE_BYTES
    }

    /// Adds an item, unless it does not fit.
    pub fn add(&mut self, item: &impl Serialize) -> bool {
        let text = serde_json::to_string(item).expect("things are plain data");
        let is_first = self.n_items == 0 && self.room.n_bytes == PAGE_BYTES;
        if !is_first && self.text.len() + text.len() + AROUND > self.room.n_bytes {
            self.room.n_items = self.n_items;
            return false;
        }
        if self.n_items > 0 {
            self.text.push(',');
        }
        self.text.push_str(&text);
        self.n_items += 1;
        true
    }
}

/// Creates the piece that begins at a position.
pub(crate) type Make<P> = Box<dyn FnMut(P, Room) -> Making<P> + Send>;
pub(crate) type Making<P> = Pin<Box<dyn Future<Output = Result<Piece<P>, Refusal>> + Send>>;

struct Rest<P> {
    make: Make<P>,
    in_text: fn(P) -> String,
    room: Room,
    /// Start of the next piece; `None` after the end of the list.
    place: Option<P>,
    total: Option<u64>,
    is_begun: bool,
    is_over: bool,
}

impl<P: Copy> Rest<P> {
    async fn piece(&mut self) -> Result<String, Refusal> {
        let mut text = String::new();
        if !self.is_begun {
            text = format!("{{\"apiVersion\":{},\"items\":[", json!(API_VERSION));
        }
        if let Some(place) = self.place {
            let piece = (self.make)(place, self.room).await?;
            if piece.n_items > 0 && self.is_begun && self.room.n_bytes < PAGE_BYTES {
                text.push(',');
            }
            text.push_str(&piece.text);
            self.room.n_items = piece.room.n_items - piece.n_items;
            self.room.n_bytes = self.room.n_bytes.saturating_sub(piece.text.len());
            self.place = piece.next;
            self.total = self.total.or(piece.total);
        }
        self.is_begun = true;
        if self.place.is_none() || self.room.n_items == 0 || self.room.n_bytes < AROUND {
            self.is_over = true;
            text.push(']');
            if let Some(place) = self.place {
                text.push_str(&format!(",\"next_cursor\":{}", json!((self.in_text)(place))));
            }
            if let Some(total) = self.total {
                text.push_str(&format!(",\"total\":{total}"));
            }
            text.push('}');
        }
        Ok(text)
    }
}

/// Answers with a page of limited length from a position on.
///
/// # Errors
/// The first item can't be rendered.
pub(crate) async fn answer<P: Copy + Send + 'static>(
    place: P,
    limit: usize,
    in_text: fn(P) -> String,
    make: Make<P>,
) -> Result<Response, ApiError> {
    let room = Room { n_items: limit, n_bytes: PAGE_BYTES };
    let mut rest = Rest {
        make,
        in_text,
        room,
        place: Some(place),
        total: None,
        is_begun: false,
        is_over: false,
    };
    let mut first = rest.piece().await?;
    while !rest.is_over && first.len() < PIECE_BYTES {
        first.push_str(&rest.piece().await?);
    }
    let body = if rest.is_over {
        Body::from(first)
    } else {
        let more = try_unfold((Some(first), rest), async |(first, mut rest)| {
            if let Some(first) = first {
                return Ok(Some((Bytes::from(first), (None, rest))));
            }
            if rest.is_over {
                return Ok(None);
            }
            // The answer has begun, so an error can only close the connection.
            match rest.piece().await {
                Ok(text) => Ok(Some((Bytes::from(text), (None, rest)))),
                Err(refusal) => Err(std::io::Error::other(format!("{refusal:?}"))),
            }
        });
        Body::from_stream(more)
    };
    let kind = HeaderValue::from_static("application/json");
    Ok(([(CONTENT_TYPE, kind)], body).into_response())
}
