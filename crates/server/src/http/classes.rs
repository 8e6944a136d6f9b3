//! Requests of different classes have places of their own, so that a flood of one class, or what it
//! waits for, leaves room for the others. A place is held until the answer begins, so streams do
//! not keep theirs.

use super::routes::{Least, Route};
use crate::pool::{Place, Pool, Source};

/// The places for each class, and the most of one source. A thread may wait for each place, and
/// there are 512.
const CHANGES: (usize, usize) = (160, 64);
const READS: (usize, usize) = (96, 16);
const SIGN_INS: (usize, usize) = (32, 4);
const OPEN: (usize, usize) = (16, 4);

/// The classes. Health checks need no place, and agents do not come this way.
#[derive(Clone)]
pub(crate) struct Classes {
    changes: Pool,
    reads: Pool,
    sign_ins: Pool,
    /// Without signing in: metrics, and the document of the API.
    open: Pool,
}

impl Default for Classes {
    fn default() -> Self {
        let pool = |(places, most_of_one)| Pool::new(places, most_of_one);
        Self {
            changes: pool(CHANGES),
            reads: pool(READS),
            sign_ins: pool(SIGN_INS),
            open: pool(OPEN),
        }
    }
}

impl Classes {
    /// Takes a place for a request.
    pub async fn enter(&self, row: &Route, source: Source) -> Option<Place> {
        let pool = match row.path {
            "/healthz" | "/readyz" => return None,
            "/metrics" | "/openapi.json" => &self.open,
            _ if row.least == Least::Anyone => &self.sign_ins,
            _ if row.method == "GET" => &self.reads,
            _ => &self.changes,
        };
        Some(pool.enter(source).await)
    }
}
