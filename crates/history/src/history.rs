//! The writer: append, seal, prune.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension};

use crate::database::{self, Database};
use crate::error::Error;
use crate::keys::{Level, NODES, PART, Pending, Stream};
use crate::names::{self, NameKind, Names};
use crate::reader::Reader;
use crate::recent::{self, Member};
use crate::seal;
use crate::series::{DeviceSeries, Family, JobSeries, METRIC, Scale};
use crate::time::{DAY, HOUR, Minute};
use crate::totals::{Key, NODE, Totals};

/// How far a minute may lie ahead of the clock.
const FUTURE: u32 = 2;
/// Minutes after the end of an hour until it is sealed, for late reports.
const LATE: u32 = 10;
/// Parts that one call seals. Each takes a few ten milliseconds.
const SEALED_MAX: usize = 4;
/// Names that one call drops.
const NAMES_MAX: u32 = 1000;

/// What the store keeps.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Days with values of each minute.
    pub minute_days: u32,
    /// Days with values of each hour, and with sums for reports.
    pub hour_days: u32,
    /// Largest size of the file in bytes. The oldest hours are dropped first. If a file is larger
    /// already, its pages are used again, but it does not shrink.
    pub bytes_max: u64,
    /// Metrics of its own that a job can have; values of further ones are refused.
    pub metrics_of_job: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { minute_days: 30, hour_days: 730, bytes_max: 16 << 30, metrics_of_job: 32 }
    }
}

/// The values of a device in a minute.
#[derive(Debug, Clone)]
pub struct Sample<'a> {
    /// The device, such as its UUID.
    pub device: &'a str,
    /// Means over the minute in base units, in the order of [`DeviceSeries::ALL`].
    pub values: [Option<f64>; DeviceSeries::N],
}

/// The values of a job in a minute.
#[derive(Debug, Clone)]
pub struct JobSample<'a> {
    /// The job or array element, such as `1842.3`.
    pub job: &'a str,
    /// Means over the minute in base units, in the order of [`JobSeries::ALL`].
    pub values: [Option<f64>; JobSeries::N],
    /// The user's own metrics: name and last value.
    pub metrics: &'a [(&'a str, f64)],
}

/// GPU time in a minute, for reports. Jobs and processes outside gpool are both use: the latter
/// have the system user, no project and a kind of their own. One call of `append` must have all
/// use of a node: later calls for the same minute and names are duplicates.
#[derive(Debug, Clone)]
pub struct Use<'a> {
    /// The project, or an empty string.
    pub project: &'a str,
    pub user: &'a str,
    pub model: &'a str,
    /// The kind of job or use.
    pub kind: &'a str,
    /// The node; empty for waiting time.
    pub node: &'a str,
    /// The pool of the node; for waiting time the requested one, or an empty string.
    pub pool: &'a str,
    /// The job or array element; empty for processes outside gpool and for waiting time.
    pub job: &'a str,
    /// Allocated time, in milliseconds of one GPU.
    pub allocated_ms: u64,
    /// Time while the GPU was busy; `None` if that was not measured.
    pub busy_ms: Option<u64>,
    /// Time of useful work; `None` if that was not measured.
    pub useful_ms: Option<u64>,
    /// Energy in joules; `None` if that was not measured.
    pub energy_j: Option<u64>,
    /// Requested GPUs times the time of waiting for capacity.
    pub waited_ms: u64,
    /// Guaranteed GPUs of a project times the time; such use has no name but the project.
    pub guaranteed_ms: u64,
}

impl From<&Use<'_>> for Totals {
    fn from(used: &Use<'_>) -> Self {
        let measured = |part: Option<u64>| part.map_or(0, |_| used.allocated_ms);
        Self {
            allocated_ms: used.allocated_ms,
            busy_ms: used.busy_ms.unwrap_or(0),
            busy_of_ms: measured(used.busy_ms),
            useful_ms: used.useful_ms.unwrap_or(0),
            useful_of_ms: measured(used.useful_ms),
            energy_j: used.energy_j.unwrap_or(0),
            energy_of_ms: measured(used.energy_j),
            waited_ms: used.waited_ms,
            guaranteed_ms: used.guaranteed_ms,
        }
    }
}

/// Everything that is known about a minute, or a part of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Batch<'a> {
    pub devices: &'a [Sample<'a>],
    pub jobs: &'a [JobSample<'a>],
    /// GPU time.
    pub uses: &'a [Use<'a>],
}

/// Why a minute was not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It is more than 2 minutes ahead of the clock.
    Future,
    /// It is older than the minutes that are kept.
    Old,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Appended {
    pub refused: Option<Refusal>,
    /// Samples, metrics and uses that were refused alone: a name is longer than 256 bytes or has
    /// control characters, or a job has too many metrics.
    pub n_refused: usize,
    /// The file was missing or damaged, and a new one was started: the reason.
    pub recreated: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Maintained {
    /// Sealed parts of hours.
    pub n_sealed: usize,
    /// Dropped blocks and names.
    pub n_dropped: usize,
    /// There is more to do, which can wait for the next minute.
    pub more: bool,
}

/// The store, open for writing. A file has one writer.
pub struct History {
    path: PathBuf,
    settings: Settings,
    database: Database,
    names: Names,
}

impl History {
    /// Opens the store in a file, and creates a missing one. A damaged file is renamed to
    /// `….damaged` and a new one started; the second value is then the reason.
    ///
    /// # Errors
    /// The file belongs to another program or a newer gpool, is locked, or cannot be created.
    pub fn open(path: &Path, settings: Settings) -> Result<(Self, Option<String>), Error> {
        let (database, recreated) = Database::open(path, settings.bytes_max)?;
        let path = path.to_owned();
        Ok((Self { path, settings, database, names: Names::default() }, recreated))
    }

    /// A reader for any thread.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader::new(&self.path)
    }

    /// Bytes of the file that hold data.
    pub fn bytes(&self) -> Result<u64, Error> {
        self.database.bytes()
    }

    /// Stores a minute durably: it survives a kill of the process as soon as the call returns.
    ///
    /// # Errors
    /// The disk is full, or the file is locked or cannot be written. Nothing of the batch is
    /// stored then.
    pub fn append(
        &mut self,
        now: Minute,
        minute: Minute,
        batch: &Batch<'_>,
    ) -> Result<Appended, Error> {
        let refused = if minute > now.after(FUTURE) {
            Some(Refusal::Future)
        } else if minute < now.before(self.settings.minute_days.saturating_mul(DAY * HOUR)) {
            Some(Refusal::Old)
        } else {
            None
        };
        if refused.is_some() {
            return Ok(Appended { refused, ..Appended::default() });
        }
        let mut recreated = None;
        let lost = match self.database.is_in_place(&self.path) {
            false => Some("the file was removed or replaced".to_owned()),
            // The writer has pages in memory, so only those that open the file see damage on disk.
            true => match Database::open_to_read(&self.path) {
                Err(Error::Damaged { what }) => Some(what),
                Ok(_) | Err(_) => None,
            },
        };
        if let Some(why) = lost {
            recreated = Some(self.reopen(why)?);
        }
        let mut written = self.write(minute, batch);
        if let Err(Error::Damaged { what }) = written {
            database::set_aside(&self.path)?;
            recreated = Some(self.reopen(what)?);
            written = self.write(minute, batch);
        }
        if written.is_err() {
            self.names.clear();
        }
        Ok(Appended { refused: None, n_refused: written?, recreated })
    }

    /// Seals hours that ended 10 minutes ago. Drops data that is too old, and the oldest data if
    /// the file is almost full. To be called once a minute.
    ///
    /// The work of a call is limited: it seals a few parts, and drops at most one hour of minutes,
    /// one day of hours and one hour of sums. A clock that is wrong for some minutes therefore
    /// costs at most that many hours and days of the oldest data.
    ///
    /// # Errors
    /// The disk is full, or the file is locked, damaged or cannot be written. The next call of
    /// [`History::append`] replaces a damaged file.
    pub fn maintain(&mut self, now: Minute) -> Result<Maintained, Error> {
        let mut done = Maintained::default();
        // An hour is sealed when `now` is 10 minutes after its end.
        let end = now.before(LATE).hour();
        for stream in Stream::ALL {
            for pending in recent::pending(&self.database.connection, stream, 0..end)? {
                if done.n_sealed == SEALED_MAX {
                    done.more = true;
                    break;
                }
                seal::seal(&mut self.database.connection, pending)?;
                done.n_sealed += 1;
            }
        }
        self.prune(now, &mut done)?;
        Ok(done)
    }

    fn reopen(&mut self, why: String) -> Result<String, Error> {
        self.names.clear();
        let (database, damage) = Database::open(&self.path, self.settings.bytes_max)?;
        self.database = database;
        Ok(damage.unwrap_or(why))
    }

    /// Returns the number of refused parts.
    fn write(&mut self, minute: Minute, batch: &Batch<'_>) -> Result<usize, Error> {
        let transaction = self.database.connection.transaction()?;
        let mut writing =
            Writing { connection: &transaction, names: &mut self.names, minute, n_refused: 0 };
        writing.devices(batch.devices)?;
        writing.jobs(batch.jobs, self.settings.metrics_of_job)?;
        writing.uses(batch.uses)?;
        let n_refused = writing.n_refused;
        transaction.commit()?;
        Ok(n_refused)
    }

    fn prune(&mut self, now: Minute, done: &mut Maintained) -> Result<(), Error> {
        let horizon = |days: u32| now.hour().saturating_sub(days.saturating_mul(DAY));
        let transaction = self.database.connection.transaction()?;
        for level in Level::ALL {
            let days = match level {
                Level::Minutes(_) => self.settings.minute_days,
                Level::Hours(_) | Level::NodeTotals | Level::Totals => self.settings.hour_days,
            };
            let Some(oldest) = oldest(&transaction, level)? else { continue };
            if oldest + level.hours() <= horizon(days) {
                done.n_dropped += drop_hour(&transaction, level, oldest)?;
                done.more = true;
            }
        }
        let day = (horizon(self.settings.hour_days) / DAY).saturating_sub(1);
        let n_names = names::drop_before(&transaction, day, NAMES_MAX)?;
        transaction.commit()?;
        if n_names > 0 {
            self.names.clear();
            done.n_dropped += n_names;
        }
        // A tenth stays free for the next hours.
        if self.database.bytes()? > self.settings.bytes_max / 10 * 9 {
            let n_dropped = self.drop_oldest()?;
            done.n_dropped += n_dropped;
            done.more |= n_dropped > 0;
        }
        Ok(())
    }

    /// Drops the oldest minutes, or if there are none, the oldest hours and sums.
    fn drop_oldest(&mut self) -> Result<usize, Error> {
        let transaction = self.database.connection.transaction()?;
        let mut n_dropped = 0;
        for is_minutes in [true, false] {
            let mut levels = Vec::new();
            for level in Level::ALL {
                if matches!(level, Level::Minutes(_)) == is_minutes
                    && let Some(oldest) = oldest(&transaction, level)?
                {
                    levels.push((oldest, level));
                }
            }
            let first = levels.iter().map(|(oldest, _)| *oldest).min();
            for (oldest, level) in levels.into_iter().filter(|(oldest, _)| Some(*oldest) == first) {
                n_dropped += drop_hour(&transaction, level, oldest)?;
            }
            if n_dropped > 0 {
                break;
            }
        }
        transaction.commit()?;
        Ok(n_dropped)
    }
}

/// The first hour of the oldest blocks of a level.
fn oldest(connection: &Connection, level: Level) -> Result<Option<u32>, Error> {
    let sql = "SELECT id FROM block WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = level.all_rows().into_inner();
    let row: Option<i64> = statement.query_row(rows, |row| row.get(0)).optional()?;
    Ok(row.map(|row| level.hour_of(row)))
}

fn drop_hour(connection: &Connection, level: Level, hour: u32) -> Result<usize, Error> {
    let sql = "DELETE FROM block WHERE id BETWEEN ?1 AND ?2";
    Ok(connection.prepare_cached(sql)?.execute(level.rows(hour).into_inner())?)
}

/// A minute on its way into the file.
struct Writing<'a> {
    connection: &'a Connection,
    names: &'a mut Names,
    minute: Minute,
    n_refused: usize,
}

impl Writing<'_> {
    fn devices(&mut self, samples: &[Sample<'_>]) -> Result<(), Error> {
        let mut members = Vec::with_capacity(samples.len());
        for sample in samples {
            if let Some(n) = self.number(NameKind::Device, sample.device)? {
                members.push((n, codes(Family::Device, &sample.values)));
            }
        }
        self.add(Family::Device, members)
    }

    fn jobs(&mut self, samples: &[JobSample<'_>], metrics_max: usize) -> Result<(), Error> {
        let mut members = Vec::with_capacity(samples.len());
        let mut metrics = Vec::new();
        for sample in samples {
            let Some(n) = self.number(NameKind::Job, sample.job)? else { continue };
            members.push((n, codes(Family::Job, &sample.values)));
            for (name, value) in sample.metrics {
                if let Some(n) = self.metric(sample.job, name, metrics_max)? {
                    metrics.push((n, Box::from([METRIC.quantise(*value)])));
                }
            }
        }
        self.add(Family::Job, members)?;
        self.add(Family::Metric, metrics)
    }

    /// The number of a user's metric; `None` if the job has too many.
    fn metric(&mut self, job: &str, name: &str, n_max: usize) -> Result<Option<u32>, Error> {
        if name.contains(char::is_control) {
            self.n_refused += 1;
            return Ok(None);
        }
        let full = names::metric(job, name);
        if let Some(n) = self.names.find_number(self.connection, NameKind::Metric, &full)? {
            return Ok(Some(n));
        }
        let is_full = names::metrics_of(self.connection, job)?.len() >= n_max;
        if is_full || full.len() > names::LENGTH_MAX {
            self.n_refused += 1;
            return Ok(None);
        }
        let day = self.minute.hour() / DAY;
        Ok(Some(self.names.number(self.connection, NameKind::Metric, &full, day)?))
    }

    fn uses(&mut self, uses: &[Use<'_>]) -> Result<(), Error> {
        let mut sums = BTreeMap::<Key, Totals>::new();
        for it in uses {
            let parts = [
                (NameKind::Project, it.project),
                (NameKind::User, it.user),
                (NameKind::Model, it.model),
                (NameKind::Use, it.kind),
                (NameKind::Node, it.node),
                (NameKind::Pool, it.pool),
                (NameKind::Job, it.job),
            ];
            if parts.iter().any(|(_, name)| !is_name(name)) {
                self.n_refused += 1;
                continue;
            }
            let mut key = Key::default();
            for (to, (kind, name)) in key.iter_mut().zip(parts) {
                let day = self.minute.hour() / DAY;
                *to = 1 + self.names.number(self.connection, kind, name, day)?;
            }
            *sums.entry(key).or_default() += Totals::from(it);
        }
        let mut parts = BTreeMap::<u32, Vec<(Key, Totals)>>::new();
        for (key, totals) in sums {
            parts.entry(key[NODE] / NODES).or_default().push((key, totals));
        }
        for (part, rows) in parts {
            let data = recent::encode_use(
                self.minute.number() % HOUR,
                rows.iter().map(|(key, totals)| (key, totals)),
            );
            if !self.row(Stream::Use, part, &data)? {
                self.n_refused += rows.len();
            }
        }
        Ok(())
    }

    fn number(&mut self, kind: NameKind, name: &str) -> Result<Option<u32>, Error> {
        if !is_name(name) {
            self.n_refused += 1;
            return Ok(None);
        }
        let day = self.minute.hour() / DAY;
        self.names.number(self.connection, kind, name, day).map(Some)
    }

    fn add(&mut self, family: Family, mut members: Vec<Member>) -> Result<(), Error> {
        members.retain(|(_, values)| values.iter().any(Option::is_some));
        // Stable: of two samples of one device, the first counts.
        members.sort_by_key(|(n, _)| *n);
        for part in members.chunk_by(|(a, _), (b, _)| a / PART == b / PART) {
            let data = recent::encode_values(self.minute.number() % HOUR, part);
            let ix = part.first().map_or(0, |(n, _)| n / PART);
            if !self.row(Stream::Values(family), ix, &data)? {
                self.n_refused += part.len();
            }
        }
        Ok(())
    }

    fn row(&self, stream: Stream, part: u32, data: &[u8]) -> Result<bool, Error> {
        recent::add(self.connection, Pending { stream, hour: self.minute.hour(), part }, data)
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= names::LENGTH_MAX && !name.contains(char::is_control)
}

fn codes(family: Family, values: &[Option<f64>]) -> Box<[Option<u32>]> {
    let code = |(scale, value): (&Scale, &Option<f64>)| scale.quantise((*value)?);
    family.scales().iter().zip(values).map(code).collect()
}
