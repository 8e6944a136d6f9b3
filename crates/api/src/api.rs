//! What all routes share.

use std::ops::Deref;
use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use tokio::sync::watch;

use crate::classes::Classes;
use crate::connections::Patience;
use crate::meters::Meters;
use gpool_identity::pool::{Rates, RequestSource};
use gpool_server::feed::Feed;
use gpool_server::handle::CoreHandle;

/// Shared data of all routes. Each layer of the router clones it for each request.
#[derive(Clone)]
pub struct Api(Arc<ApiParts>);

pub struct ApiParts {
    pub handle: CoreHandle,
    pub feed: Arc<Feed>,
    pub(crate) meters: Meters,
    /// The user that runs the server.
    pub user: Arc<str>,
    pub patience: Patience,
    pub rates: Rates<RequestSource>,
    pub classes: Classes,
    /// Becomes true when streams must end, because the server stops.
    pub end: watch::Receiver<bool>,
}

impl Deref for Api {
    type Target = ApiParts;

    fn deref(&self) -> &ApiParts {
        &self.0
    }
}

impl Api {
    pub fn new(
        handle: CoreHandle,
        user: Arc<str>,
        patience: Patience,
        classes: Classes,
        end: watch::Receiver<bool>,
    ) -> Self {
        let feed = Arc::clone(&handle.shared.feed);
        let rates = Rates::new(handle.limits().requests);
        let meters = Meters::default();
        Self(Arc::new(ApiParts { handle, feed, meters, user, patience, rates, classes, end }))
    }

    /// The counter of connections that are closed at once.
    pub fn closed_connections(&self) -> Counter {
        self.meters.closed_connections.clone()
    }
}
