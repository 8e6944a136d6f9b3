//! Places for work that must not crowd out other work: a number of them for all, and fewer for each
//! source, so that one source waits for itself.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// By what requests and connections are limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// A user of this machine.
    User(u32),
    /// The addresses that one site can choose from: an IPv4 address, a /64 of IPv6, or all loopback
    /// addresses. It is named by the first of them.
    Block(IpAddr),
}

impl Source {
    /// The block of an address.
    #[must_use]
    pub fn of(ip: IpAddr) -> Self {
        let ip = ip.to_canonical();
        Self::Block(match ip {
            ip if ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V4(_) => ip,
            IpAddr::V6(ip) => {
                let [a, b, c, d, ..] = ip.segments();
                Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
            }
        })
    }
}

/// Sources with places are forgotten above this number, if they have none at that time.
const SOURCES: usize = 1024;

/// The places.
#[derive(Clone)]
pub struct Pool {
    all: Arc<Semaphore>,
    most_of_one: usize,
    sources: Arc<Mutex<HashMap<Source, Arc<Semaphore>>>>,
}

/// A taken place, free again when it is dropped.
pub struct Place {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Pool {
    /// A number of places, and the most of them for one source.
    #[must_use]
    pub fn new(places: usize, most_of_one: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(places)), most_of_one, sources: Arc::default() }
    }

    /// Takes a place, the first come first. A source never has more than its number in this queue,
    /// so another one waits for few of them at most.
    pub async fn enter(&self, source: Source) -> Place {
        let own = {
            let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
            if sources.len() > SOURCES {
                sources.retain(|_, own| Arc::strong_count(own) > 1);
            }
            let own = sources.entry(source);
            own.or_insert_with(|| Arc::new(Semaphore::new(self.most_of_one))).clone()
        };
        // Neither is ever closed.
        let own = own.acquire_owned().await.expect("open");
        let all = self.all.clone().acquire_owned().await.expect("open");
        Place { _own: own, _all: all }
    }
}
