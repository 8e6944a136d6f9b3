//! Flips bits in the last 64 KiB of the store's files that are not empty, and truncates the
//! write-ahead log. A damaged copy must be refused, or contain exactly the written data: the damage
//! may be in an unused place.

use std::path::{Path, PathBuf};

use gpool_cli::failure::{Failure, Result};
use gpool_store::{Record, Store, StoreOptions};
use tempfile::TempDir;

use super::rig::{Rig, Stop, shell};
use super::{Options, Outcome};
use crate::bench::failed;
use crate::bench::figure::Figure;

const LAST: usize = 64 << 10;
const STEP: usize = 512;
const DATABASE: &str = "store.db";
const LOG: &str = "store.db-wal";

/// The results of damaged copies.
#[derive(Default)]
struct Seen {
    detected: u32,
    /// Opened with the correct contents.
    harmless: u32,
    wrong: u32,
}

/// Damages copies of a store that was closed, and of one after kill -9.
pub fn measure(options: &Options, stop: &Stop) -> Result<Outcome> {
    let mut rig = Rig::up("none", stop)?;
    submit(&rig, options.amount(400, 200))?;
    rig.close()?;
    let closed = Good::of(&rig, "closed", DATABASE)?;
    rig.start()?;
    // Few enough for the log not to start over.
    submit(&rig, 20)?;
    rig.kill();
    let killed = Good::of(&rig, "killed", LOG)?;
    rig.end()?;
    let (mut flips, mut cuts) = (Seen::default(), Seen::default());
    for good in [&closed, &killed] {
        for (n, sector) in good.sectors().enumerate() {
            stop.check()?;
            // Varies the bit and the byte within a sector.
            let at = (sector + (n * 37) % STEP).min(good.bytes.len() - 1);
            let mut damaged = good.bytes.clone();
            damaged[at] ^= 1 << (n % 8);
            flips.count(good.open_with(&damaged)?, &good.records);
            if good.file == LOG {
                cuts.count(good.open_with(&good.bytes[..sector])?, &good.records);
            }
        }
    }
    let count = |name, what: &str, value: u32| Figure::new(name, what, f64::from(value), "");
    let figures = vec![
        count("torn_wrong", "flipped bits that changed data and were not detected", flips.wrong)
            .exactly(0.0),
        count("torn_detected", "flipped bits detected", flips.detected),
        count("torn_harmless", "flipped bits in unused parts", flips.harmless),
        count("torn_cut_wrong", "lost ends of the log, not detected", cuts.wrong).exactly(0.0),
        count("torn_cut_detected", "lost ends of the log, detected", cuts.detected),
        count("torn_cut_harmless", "lost ends of the log in unused parts", cuts.harmless),
    ];
    let (n_flips, n_cuts) = (flips.n(), cuts.n());
    let did = format!(
        "{n_flips} bits flipped in the last 64 KiB of data of database and log, the log cut \
         {n_cuts} times"
    );
    Ok(Outcome::Done { did, figures })
}

fn submit(rig: &Rig, n_jobs: u32) -> Result<()> {
    let job = gpool_wire::JobCreate { hold: true, ..shell("true") };
    (0..n_jobs).try_for_each(|_| rig.submit(&job).map(drop))
}

/// An undamaged store, with the file to damage.
struct Good {
    folder: TempDir,
    file: &'static str,
    bytes: Vec<u8>,
    records: Vec<Record>,
}

impl Good {
    fn of(rig: &Rig, name: &str, file: &'static str) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("gpool-faults-").tempdir();
        let folder =
            folder.map_err(|error| failed(format!("can't create a temporary folder: {error}")))?;
        copy(&rig.state(), &folder.path().join("good"))?;
        let path = folder.path().join("good").join(file);
        let bytes = std::fs::read(&path).map_err(|error| io(&path, &error))?;
        let good = Self { folder, file, bytes, records: Vec::new() };
        match good.open_with(&good.bytes)? {
            Opened::Holds(records) => Ok(Self { records, ..good }),
            Opened::Refused => Err(failed(format!("the undamaged {name} store is refused"))),
        }
    }

    /// The offsets of the last parts, 64 KiB in all, that are not empty: the database has spare
    /// pages.
    fn sectors(&self) -> impl Iterator<Item = usize> + use<> {
        let parts = self.bytes.chunks(STEP).enumerate();
        let used = parts.filter(|(_, part)| part.iter().any(|byte| *byte != 0));
        let used: Vec<usize> = used.map(|(n, _)| n * STEP).collect();
        let n_before = used.len().saturating_sub(LAST / STEP);
        used.into_iter().skip(n_before)
    }

    /// Opens a new copy as a server would, with other bytes in the file.
    fn open_with(&self, bytes: &[u8]) -> Result<Opened> {
        let copied = self.folder.path().join("copy");
        drop(std::fs::remove_dir_all(&copied));
        copy(&self.folder.path().join("good"), &copied)?;
        let path = copied.join(self.file);
        std::fs::write(&path, bytes).map_err(|error| io(&path, &error))?;
        Ok(match Store::open(&copied, &StoreOptions::default()) {
            Ok((_store, loaded)) => Opened::Holds(loaded.records),
            Err(_) => Opened::Refused,
        })
    }
}

impl Seen {
    fn n(&self) -> u32 {
        self.detected + self.harmless + self.wrong
    }

    fn count(&mut self, opened: Opened, expected: &[Record]) {
        match opened {
            Opened::Refused => self.detected += 1,
            Opened::Holds(records) if records == expected => self.harmless += 1,
            Opened::Holds(_) => self.wrong += 1,
        }
    }
}

enum Opened {
    Refused,
    Holds(Vec<Record>),
}

/// Copies the files of a folder; the folders of jobs are not part of the store.
fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir(to).map_err(|error| io(to, &error))?;
    let entries = std::fs::read_dir(from).map_err(|error| io(from, &error))?;
    for entry in entries.flatten() {
        let path: PathBuf = entry.path();
        if path.is_file() {
            let target = to.join(entry.file_name());
            std::fs::copy(&path, &target).map_err(|error| io(&target, &error))?;
        }
    }
    Ok(())
}

fn io(path: &Path, error: &std::io::Error) -> Failure {
    failed(format!("can't copy {}: {error}", path.display()))
}
