//! How much each user may change: changes are stored for long, so a loop of them must not fill the
//! disk.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use gpool_model::Bytes;
use gpool_wire::{BODY_BYTES_MAX, Problem, catalogue};

use super::asker::Asker;
use super::context::Sizes;
use super::routes::{BULK, Route};
use gpool_identity::pool::{Pool, PoolSlot, Rates, RequestSource};

/// The bytes for each change, beside its body.
const EACH: u64 = 1 << 10;
/// The bytes for each run of a job: two folders, a claim, the order of its output, and records, in
/// blocks of 4 KiB.
const RUN: u64 = 20 << 10;
/// From one source, refused requests, and changes on a full disk, have an entry each up to this
/// number at once, then one in this time.
const FEW: (u32, Duration) = (20, Duration::from_secs(60));
/// The most repeated requests at once, of all users and of one: each may have a large body.
const REPETITIONS_MAX: (usize, usize) = (8, 1);
/// A change that is never refused waits this long once its user has changed too much.
const SLOW: Duration = Duration::from_secs(2);

/// The bytes that users store by their changes. Administrators have no limit.
#[derive(Clone)]
pub struct Changes {
    per_hour: Bytes,
    rates: Rates<RequestSource>,
    /// Places for requests that were answered before: they are not counted.
    repetitions: Pool,
}

impl Changes {
    /// The bytes of one user in an hour; at once, twice as many.
    pub fn new(per_hour: Bytes) -> Self {
        let each_byte = Duration::from_secs(3600).as_nanos() / u128::from(per_hour.get().max(1));
        let each_byte = u64::try_from(each_byte.max(1)).unwrap_or(u64::MAX);
        let burst = Duration::from_nanos(each_byte.saturating_mul(per_hour.get() * 2));
        let rates = Rates::every(Duration::from_nanos(each_byte), burst);
        Self { per_hour, rates, repetitions: Pool::new(REPETITIONS_MAX.0, REPETITIONS_MAX.1) }
    }

    /// Begins to count a change of a user; `length` is that of its body, if it is known.
    ///
    /// # Errors
    /// The user has changed too much.
    pub(crate) async fn begin(
        &self,
        asker: &Asker,
        row: &Route,
        length: Option<u64>,
    ) -> Result<Portion, Problem> {
        let user = (!asker.caller.admin).then(|| (self.clone(), asker.source()));
        // A bulk submission counts its body as it comes.
        let is_whole = row.is_counted && row.path != BULK;
        let body = if is_whole { length.unwrap_or(BODY_BYTES_MAX as u64) } else { 0 };
        let portion = Portion::new(user, body, None);
        match portion.take(EACH.saturating_add(body)) {
            Err(refused) if row.is_counted => return Err(refused),
            Err(_) => tokio::time::sleep(SLOW).await,
            Ok(()) => {}
        }
        Ok(portion)
    }

    /// Begins a submission that was answered before: it stores nothing.
    pub(crate) async fn repeat(&self, asker: &Asker) -> Portion {
        let place = self.repetitions.enter(asker.source()).await;
        Portion::new(None, 0, Some(place))
    }

    /// Counts runs of jobs that a user has caused already.
    pub fn charge_runs(&self, uid: u32, n_runs: u64) {
        self.rates.charge(RequestSource::User(uid), n_runs.saturating_mul(RUN), Instant::now());
    }

    fn refusal(&self, n_bytes: u64, wait: Duration) -> Problem {
        let most = Bytes::new(self.per_hour.get().saturating_mul(2));
        let [counted, run] = [n_bytes, RUN].map(Bytes::new);
        let what =
            format!("your changes and new jobs would store more than {} in an hour", self.per_hour);
        let why = format!(
            "the request counts as {counted} or more, each run of a new job as {run}; the most at \
             once is {most}"
        );
        let now_what = match n_bytes > most.get() {
            true => "split it".to_owned(),
            false => format!("wait {} min", wait.as_secs().div_ceil(60)),
        };
        Problem::new(catalogue::TOO_MUCH_CHANGED, what)
            .because(why)
            .try_this(now_what)
            .try_this("an admin can raise user_changes_per_hour in gpool.toml")
    }
}

/// The bytes that one request takes from the budget of its user. Unused bytes go back.
#[derive(Clone)]
pub(crate) struct Portion(Arc<Deduction>);

struct Deduction {
    /// The budgets and the user; `None` without a limit.
    user: Option<(Changes, RequestSource)>,
    /// The length that was taken for the body.
    body: u64,
    /// All that was taken.
    n_bytes: AtomicU64,
    /// The place of a submission that was answered before.
    place: Option<PoolSlot>,
}

impl Portion {
    pub fn unlimited() -> Self {
        Self::new(None, 0, None)
    }

    fn new(user: Option<(Changes, RequestSource)>, body: u64, place: Option<PoolSlot>) -> Self {
        Self(Arc::new(Deduction { user, body, n_bytes: AtomicU64::new(0), place }))
    }

    /// Whether the same submission was answered before.
    pub fn is_of_repetition(&self) -> bool {
        self.0.place.is_some()
    }

    /// Takes more bytes.
    ///
    /// # Errors
    /// The user has changed too much.
    pub fn take(&self, n_bytes: u64) -> Result<(), Problem> {
        if let Some((changes, user)) = &self.0.user {
            let taken = changes.rates.take_many(*user, n_bytes, Instant::now());
            let before = self.0.n_bytes.load(Ordering::Relaxed);
            taken.map_err(|wait| changes.refusal(before + n_bytes, wait))?;
        }
        self.0.n_bytes.fetch_add(n_bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Takes the bytes of new runs of jobs.
    ///
    /// # Errors
    /// The user has changed too much.
    pub fn take_runs(&self, n_runs: u64) -> Result<(), Problem> {
        self.take(n_runs.saturating_mul(RUN))
    }

    /// Replaces the bytes of files in a part of the body by those of new files.
    pub(crate) fn correct(&self, part: u64, files: Sizes) {
        let Some((changes, user)) = &self.0.user else { return };
        let less = files.files.min(part);
        changes.rates.give_back(*user, less);
        changes.rates.charge(*user, files.new, Instant::now());
        self.0.n_bytes.fetch_add(files.new, Ordering::Relaxed);
        self.0.n_bytes.fetch_sub(less, Ordering::Relaxed);
    }

    /// Ends the request: its body has this length, and its audit entry this one.
    pub fn settle(&self, body: u64, entry: u64) {
        self.0.n_bytes.store(0, Ordering::Relaxed);
        let Some((changes, user)) = &self.0.user else { return };
        changes.rates.give_back(*user, self.0.body.saturating_sub(body));
        changes.rates.charge(*user, entry, Instant::now());
    }
}

impl Drop for Deduction {
    fn drop(&mut self) {
        if let Some((changes, user)) = &self.user {
            changes.rates.give_back(*user, *self.n_bytes.get_mut());
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Portion {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_else(Self::unlimited))
    }
}

/// Which refused requests have an entry in the audit log.
#[derive(Clone)]
pub(crate) struct Denials {
    entries: Rates<RequestSource>,
    /// Refused requests without an entry since the last one.
    n_more: Arc<Mutex<HashMap<RequestSource, u64>>>,
}

/// On a full disk, changes that end something: of one user this number at once and then one a
/// minute without waiting.
const ENDS: (u32, Duration) = (100, Duration::from_secs(60));
/// The most others at once, of all users and of one.
const SLOW_ENDS_MAX: (usize, usize) = (64, 1);

/// Slows the changes of each user down that end something on a full disk: the reserve of space is
/// for all users.
pub(crate) struct SlowEnds {
    rates: Rates<RequestSource>,
    places: Pool,
}

impl Default for SlowEnds {
    fn default() -> Self {
        let (at_once, each) = ENDS;
        let places = Pool::new(SLOW_ENDS_MAX.0, SLOW_ENDS_MAX.1);
        Self { rates: Rates::every(each, each * at_once), places }
    }
}

impl SlowEnds {
    /// Waits until a user may make the next one.
    pub async fn next(&self, by: RequestSource) {
        if !self.rates.take(by, Instant::now()) {
            let _place = self.places.enter(by).await;
            tokio::time::sleep(SLOW).await;
        }
    }
}

/// A limit on entries of the audit log that could be many.
pub fn few() -> Rates<RequestSource> {
    let (at_once, every) = FEW;
    Rates::every(every, every * at_once)
}

impl Default for Denials {
    fn default() -> Self {
        Self { entries: few(), n_more: Arc::default() }
    }
}

impl Denials {
    /// Counts a refused request; returns the number of those without an entry before it, if it has
    /// one.
    pub fn next(&self, source: RequestSource, now: Instant) -> Option<u64> {
        let has_entry = self.entries.take(source, now);
        let mut n_more = self.n_more.lock().unwrap_or_else(PoisonError::into_inner);
        if has_entry {
            return Some(n_more.remove(&source).unwrap_or(0));
        }
        *n_more.entry(source).or_default() += 1;
        None
    }
}
