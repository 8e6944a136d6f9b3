//! Requests of different classes have places of their own, so that a flood of one class, or what it
//! waits for, leaves room for the others. A place is held until the answer begins, so streams do
//! not keep theirs.

use std::time::Duration;

use axum::http::Method;

use super::routes::{Least, Route};
use gpool_identity::pool::{Active, Places, Pool, PoolSlot, RequestSource};

/// The places for each class. A thread may wait for each place, and there are 512.
const CHANGES: Places = places(160, 64, 4);
const READS: Places = places(96, 16, 4);
/// Files of pages are cheap to ask for, so a flood of them has many answers.
const PAGES: Places = Places { rest: Duration::from_millis(5), ..places(96, 32, 4) };
const SIGN_INS: Places = places(32, 4, 2);
const HEALTH: Places = places(16, 4, 2);
/// The document of the API is large, and to send it to many clients fills the processors.
const OPEN: Places = Places { rest: Duration::from_millis(100), ..places(16, 4, 2) };
/// All of them, and those of one source.
const LOOKUPS: (usize, usize) = (16, 4);

const fn places(all: usize, most_of_one: usize, beside_others: usize) -> Places {
    Places { all, most_of_one, beside_others, rest: Duration::from_millis(2) }
}

/// The classes. Agents do not come this way.
#[derive(Clone)]
pub struct Classes {
    changes: Pool,
    reads: Pool,
    pages: Pool,
    sign_ins: Pool,
    /// Whether the server lives: its answer waits for nothing.
    health: Pool,
    /// Without signing in: metrics, whether the server is ready, and the document of the API.
    open: Pool,
    lookups: Pool,
}

impl Default for Classes {
    fn default() -> Self {
        let active = Active::default();
        let pool = |places| Pool::among(places, active.clone());
        Self {
            changes: pool(CHANGES),
            reads: pool(READS),
            pages: pool(PAGES),
            sign_ins: pool(SIGN_INS),
            health: pool(HEALTH),
            open: pool(OPEN),
            // Their source becomes another one once its user is known.
            lookups: Pool::new(LOOKUPS.0, LOOKUPS.1),
        }
    }
}

impl Classes {
    /// Takes a place for a request to the API; `row` is its route, if there is one.
    pub async fn enter(
        &self,
        method: &Method,
        row: Option<&Route>,
        source: RequestSource,
    ) -> PoolSlot {
        let is_read = [Method::GET, Method::HEAD].contains(method);
        let pool = match row.map(|row| (row.path, row.least)) {
            Some(("/healthz", _)) => &self.health,
            Some(("/readyz" | "/metrics" | "/openapi.json", _)) => &self.open,
            Some((_, Least::Anyone)) => &self.sign_ins,
            _ if is_read => &self.reads,
            _ => &self.changes,
        };
        pool.enter(source).await
    }

    /// Takes a place for a request to the dashboard. Its requests to the API take their own.
    pub async fn enter_page(&self, path: &str, source: RequestSource) -> PoolSlot {
        // These may wait for the identity provider.
        let pool = if path.starts_with("/login") { &self.sign_ins } else { &self.pages };
        pool.enter(source).await
    }

    /// Takes a place to look for the user of a token.
    pub async fn enter_lookup(&self, source: RequestSource) -> PoolSlot {
        self.lookups.enter(source).await
    }
}
