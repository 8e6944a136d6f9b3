//! Places for work that must not crowd out other work: a number of them for all, and fewer for each
//! source, so that one source waits for itself. Rates of requests by source.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// By what requests and connections are limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestSource {
    /// A user of this machine.
    User(u32),
    /// The browsers of a user of this machine. Their event streams count for the user.
    Browsers(u32),
    /// The addresses that one site can choose from: an IPv4 address, a /64 of IPv6, or all loopback
    /// addresses. It is named by the first of them.
    Block(IpAddr),
    /// An agent on another machine, by the beginning of the fingerprint of its certificate.
    Agent([u8; 16]),
}

impl RequestSource {
    /// The agent with a certificate.
    #[must_use]
    pub fn of_agent(fingerprint: &str) -> Self {
        let mut start = [0; 16];
        let bytes = fingerprint.trim_start_matches("SHA256:").bytes();
        start.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        Self::Agent(start)
    }

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

/// Number of users with request counts; above it, users without recent requests are dropped.
const RATES: usize = 1024;

/// The longest wait.
const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// How many requests each user or address sends.
#[derive(Clone)]
pub struct Rates<K = u32> {
    every: Duration,
    /// The permitted burst, as a time at the permitted rate.
    burst: Duration,
    /// By user: the time until which the requests so far would last at the permitted rate (a leaky
    /// bucket as a virtual clock).
    until: Arc<Mutex<HashMap<K, Instant>>>,
}

impl<K: Copy + Eq + Hash> Rates<K> {
    /// The permitted requests per second, over two seconds.
    pub fn new(per_second: u32) -> Self {
        Self::every(Duration::from_secs(1) / per_second.max(1), Duration::from_secs(2))
    }

    /// One request in each of these times; the requests of `burst` may come at once.
    pub fn every(every: Duration, burst: Duration) -> Self {
        Self { every, burst, until: Arc::default() }
    }

    /// Counts this number of requests, or none of them; the error is the time until they may come.
    pub fn take_many(&self, by: K, number: u64, now: Instant) -> Result<(), Duration> {
        let mut until = self.locked(now);
        let before = until.get(&by).copied().unwrap_or(now).max(now);
        let after = before + self.lasts(number);
        let wait = after.saturating_duration_since(now).saturating_sub(self.burst);
        if !wait.is_zero() {
            return Err(wait);
        }
        until.insert(by, after);
        Ok(())
    }

    /// Counts a request; returns the time until its turn.
    pub fn turn(&self, by: K, now: Instant) -> Duration {
        let mut until = self.locked(now);
        let before = until.get(&by).copied().unwrap_or(now).max(now);
        until.insert(by, before + self.every);
        before.duration_since(now).saturating_sub(self.burst)
    }

    /// Counts this number of requests, even if they are too many.
    pub fn charge(&self, by: K, number: u64, now: Instant) {
        let mut until = self.locked(now);
        let before = until.get(&by).copied().unwrap_or(now).max(now);
        until.insert(by, before + self.lasts(number));
    }

    /// Removes this number of requests from the count.
    pub fn give_back(&self, by: K, number: u64) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until) = until.get_mut(&by) {
            *until = until.checked_sub(self.lasts(number)).unwrap_or(*until);
        }
    }

    /// The time for this number at the permitted rate; at most a year.
    fn lasts(&self, number: u64) -> Duration {
        let each = u64::try_from(self.every.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(each.saturating_mul(number)).min(YEAR)
    }

    fn locked(&self, now: Instant) -> MutexGuard<'_, HashMap<K, Instant>> {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        if until.len() > RATES {
            until.retain(|_, until| *until > now);
        }
        until
    }

    /// Counts a request; false if it is one too many.
    pub fn take(&self, by: K, now: Instant) -> bool {
        self.take_many(by, 1, now).is_ok()
    }
}

/// Sources with places are forgotten above this number, if they have none at that time.
const SOURCES: usize = 1024;

/// How long a source counts as active after its last request.
const ACTIVE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub struct Places {
    /// For all sources together.
    pub all: usize,
    /// The most of one source.
    pub most_of_one: usize,
    /// The most that a source takes while others are active.
    pub beside_others: usize,
    /// How long such a place rests after its use: it limits how often each one is taken.
    pub rest: Duration,
}

/// A source, and when it asked.
type LastRequest = (RequestSource, Instant);

/// The last sources that asked for a place, in the pools that share it.
#[derive(Clone, Default)]
pub struct Active {
    /// The last two and when they asked, the last one first. The browsers of a user count as the
    /// user.
    last: Arc<Mutex<[Option<LastRequest>; 2]>>,
}

impl Active {
    /// Notes a request. Returns true if this is the only active source.
    fn note(&self, source: RequestSource, now: Instant) -> bool {
        let source = match source {
            RequestSource::Browsers(uid) => RequestSource::User(uid),
            source => source,
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last[0].is_none_or(|(first, _)| first != source) {
            last.swap(0, 1);
        }
        last[0] = Some((source, now));
        last[1].is_none_or(|(_, at)| now.saturating_duration_since(at) > ACTIVE)
    }
}

/// A limit on concurrent requests. A source alone may have many. While others are active it has
/// few, so their requests find short queues for the processors and for the core.
#[derive(Clone)]
pub struct Pool {
    all: Arc<Semaphore>,
    places: Places,
    active: Active,
    sources: Arc<Mutex<HashMap<RequestSource, Own>>>,
}

/// The places of one source.
#[derive(Clone)]
struct Own {
    all: Arc<Semaphore>,
    beside_others: Arc<Semaphore>,
}

/// A taken place, free again when it is dropped and has rested.
pub struct PoolSlot {
    rest: Duration,
    permits: Option<Permits>,
}

struct Permits {
    _own: OwnedSemaphorePermit,
    _beside_others: Option<OwnedSemaphorePermit>,
    _all: OwnedSemaphorePermit,
}

impl Drop for PoolSlot {
    fn drop(&mut self) {
        let (permits, rest) = (self.permits.take(), self.rest);
        // Without a runtime the server has ended.
        if let Ok(runtime) = Handle::try_current()
            && !rest.is_zero()
        {
            runtime.spawn(async move {
                tokio::time::sleep(rest).await;
                drop(permits);
            });
        }
    }
}

impl Pool {
    /// A pool by itself: a number of places, and the most of them for one source.
    #[must_use]
    pub fn new(all: usize, most_of_one: usize) -> Self {
        let rest = Duration::ZERO;
        let places = Places { all, most_of_one, beside_others: most_of_one, rest };
        Self::among(places, Active::default())
    }

    /// One of the pools that share the active sources.
    #[must_use]
    pub fn among(places: Places, active: Active) -> Self {
        Self { all: Arc::new(Semaphore::new(places.all)), places, active, sources: Arc::default() }
    }

    /// Takes a place, the first come first. A source never has more than its number in this queue,
    /// so another one waits for few of them at most.
    pub async fn enter(&self, source: RequestSource) -> PoolSlot {
        self.active.note(source, Instant::now());
        let own = self.own(source);
        // None of them is ever closed.
        let permit = own.all.acquire_owned().await.expect("open");
        let beside_others = match self.active.note(source, Instant::now()) {
            true => None,
            false => Some(own.beside_others.acquire_owned().await.expect("open")),
        };
        let all = self.all.clone().acquire_owned().await.expect("open");
        let rest = if beside_others.is_some() { self.places.rest } else { Duration::ZERO };
        let permits = Permits { _own: permit, _beside_others: beside_others, _all: all };
        PoolSlot { rest, permits: Some(permits) }
    }

    fn own(&self, source: RequestSource) -> Own {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if sources.len() > SOURCES {
            sources.retain(|_, own| Arc::strong_count(&own.all) > 1);
        }
        let new = || Own {
            all: Arc::new(Semaphore::new(self.places.most_of_one)),
            beside_others: Arc::new(Semaphore::new(self.places.beside_others)),
        };
        sources.entry(source).or_insert_with(new).clone()
    }
}
