//! One decision with everything that it was made from, to be made again elsewhere: records, moment
//! and plan, under a checksum. Environments and scripts are in no record; what else users wrote is
//! left out before the plan is made, so that it can be given to others.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_control::PANICKED;
use gpool_model::Policy;
use gpool_model::record::ClusterRecord;
use gpool_model::{
    Alert, Decision, Job, JobSpec, Node, PastRuns, Plan, Project, Record, Reservation, Revision,
    Timestamp, Used,
};
use gpool_sched::Workspace;
use gpool_world::{Snapshot, World};
use serde::{Deserialize, Serialize};

/// The version that cases are made by, and can be replayed with.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// One decision with everything that it was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    pub now: Timestamp,
    /// The last commit before it.
    pub revision: Revision,
    /// What the plan broke, a line each; empty of one that may be applied.
    pub violations: Vec<String>,
    /// The plan; `None` if the scheduler panicked.
    pub plan: Option<Plan>,
    /// The state, the policy included.
    records: Vec<CaseRecord>,
}

/// A record with the word for its kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CaseRecord {
    Cluster(ClusterRecord),
    Policy(Box<Policy>),
    Project(Box<Project>),
    Node(Box<Node>),
    JobSpec(Arc<JobSpec>),
    Job(Box<Job>),
    Reservation(Box<Reservation>),
    PastRuns(PastRuns),
    Used(Used),
}

/// A case as it is written down.
#[derive(Serialize)]
struct CaseDocument<'c> {
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    kind: &'static str,
    gpool: &'static str,
    checksum: String,
    case: &'c Case,
}

/// The fields that are read first, to tell which kind of file it is.
#[derive(Deserialize)]
struct CaseHeader {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    gpool: String,
}

#[derive(Deserialize)]
struct CaseFile {
    #[serde(default)]
    checksum: String,
    case: Option<Case>,
}

/// Why a file can't be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CaseError {
    /// The file is not a dump of gpool.
    #[error("it is not a dump of gpool")]
    NoDump,
    #[error("it is incomplete: only a part was written or copied")]
    Truncated,
    /// The checksum does not match the content.
    #[error("it was changed after it was written: its checksum differs")]
    Damaged,
    /// Another gpool decides otherwise.
    #[error("gpool {made_by} wrote it, and this is gpool {VERSION}")]
    OtherVersion {
        /// The version of gpool that made it.
        made_by: String,
    },
    /// It was made without a store, or by a user without the right to read it.
    #[error("it contains no state: its author found no store, or was not allowed to read it")]
    NoCase,
    /// The records in it contradict each other.
    #[error("its state contradicts itself: {0}")]
    Contradicts(String),
}

impl Case {
    /// The case of a state at a moment, planned anew.
    ///
    /// # Errors
    /// If the records contradict each other.
    pub fn of(revision: Revision, records: Vec<Record>, now: Timestamp) -> Result<Self, CaseError> {
        let mut case = Self {
            now,
            revision,
            violations: Vec::new(),
            plan: None,
            records: without_words(records),
        };
        let made = case.decide()?;
        (case.plan, case.violations) = (made.plan, made.violations);
        Ok(case)
    }

    /// The case of a plan that was not applied.
    #[must_use]
    pub fn refused(alert: Alert) -> Self {
        let Alert { now, basis, records, plan, violations, .. } = alert;
        Self { now, revision: basis, violations, plan, records: without_words(records) }
    }

    #[must_use]
    pub fn n_records(&self) -> usize {
        self.records.len()
    }

    /// How many jobs it holds that have not ended.
    #[must_use]
    pub fn n_jobs(&self) -> usize {
        self.records.iter().filter(|record| matches!(record, CaseRecord::Job(_))).count()
    }

    /// The state as a world, advanced to the moment.
    ///
    /// # Errors
    /// If the records contradict each other.
    pub fn world(&self) -> Result<World, CaseError> {
        let records = self.records.iter().cloned().map(Record::from);
        let mut world = World::load(self.revision, records)
            .map_err(|error| CaseError::Contradicts(error.to_string()))?;
        world.advance(self.now);
        Ok(world)
    }

    /// Makes the plan from the state, and looks at it.
    ///
    /// # Errors
    /// If the records contradict each other.
    pub fn decide(&self) -> Result<PlanOutcome, CaseError> {
        let world = self.world()?;
        let snapshot = Snapshot { world: &world, now: self.now };
        let plan = || gpool_sched::plan(&snapshot, world.policy(), &mut Workspace::default());
        Ok(match std::panic::catch_unwind(std::panic::AssertUnwindSafe(plan)) {
            Ok(plan) => {
                let violations = gpool_verify::verify(&snapshot, world.policy(), &plan);
                let violations = violations.iter().map(ToString::to_string).collect();
                PlanOutcome { plan: Some(plan), violations }
            }
            Err(_) => PlanOutcome { plan: None, violations: vec![PANICKED.to_owned()] },
        })
    }

    /// What the recorded plan breaks in the recorded state.
    ///
    /// # Errors
    /// If the records contradict each other.
    pub fn judge(&self) -> Result<Vec<String>, CaseError> {
        let Some(plan) = &self.plan else { return Ok(vec![PANICKED.to_owned()]) };
        let world = self.world()?;
        let snapshot = Snapshot { world: &world, now: self.now };
        let violations = gpool_verify::verify(&snapshot, world.policy(), plan);
        Ok(violations.iter().map(ToString::to_string).collect())
    }

    /// As it is written into a file of its own.
    #[must_use]
    pub fn file(&self) -> Vec<u8> {
        json(&CaseDocument {
            api_version: gpool_wire::API_VERSION,
            kind: "dump",
            gpool: VERSION,
            checksum: self.checksum(),
            case: self,
        })
    }

    /// Reads it from a file, alone or within a dump.
    pub fn read(text: &[u8]) -> Result<Self, CaseError> {
        let refused = |error: serde_json::Error| match error.is_eof() {
            true if text.trim_ascii_start().starts_with(b"{") => CaseError::Truncated,
            false if says_dump(text) => CaseError::Damaged,
            _ => CaseError::NoDump,
        };
        let head: CaseHeader = serde_json::from_slice(text).map_err(refused)?;
        if head.kind != "dump" || head.gpool.is_empty() {
            return Err(CaseError::NoDump);
        }
        if head.gpool != VERSION {
            return Err(CaseError::OtherVersion { made_by: head.gpool });
        }
        let read: CaseFile = serde_json::from_slice(text).map_err(|_| CaseError::Damaged)?;
        let case = read.case.ok_or(CaseError::NoCase)?;
        if case.checksum() != read.checksum {
            return Err(CaseError::Damaged);
        }
        Ok(case)
    }

    /// Of everything that it holds.
    #[must_use]
    pub fn checksum(&self) -> String {
        blake3::hash(&json(self)).to_hex().to_string()
    }
}

/// Whether a text that can't be read says that it is a dump.
fn says_dump(text: &[u8]) -> bool {
    let words: [&[u8]; 2] = [b"\"kind\": \"dump\"", b"\"kind\":\"dump\""];
    words.iter().any(|word| text.windows(word.len()).any(|part| part == *word))
}

/// A plan that was made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanOutcome {
    /// The plan; `None` if the scheduler panicked.
    pub plan: Option<Plan>,
    /// The invariants that the plan breaks.
    pub violations: Vec<String>,
}

/// The first difference between two plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The part that differs: `decision 3`.
    pub what: String,
    /// As it was recorded, as JSON; `None` if it has none there.
    pub recorded: Option<String>,
    pub replayed: Option<String>,
}

/// Returns the first difference between the recorded plan and the one made now; `None` if they are
/// the same byte for byte.
#[must_use]
pub fn difference(recorded: &Plan, made: &Plan) -> Option<Difference> {
    let texts = |list: &[Decision]| list.iter().map(text).collect::<Vec<_>>();
    let parts = [
        ("basis", vec![text(&recorded.basis)], vec![text(&made.basis)]),
        ("decision", texts(&recorded.decisions), texts(&made.decisions)),
        (
            "planned start",
            recorded.planned.iter().map(text).collect(),
            made.planned.iter().map(text).collect(),
        ),
        ("wait", recorded.waits.iter().map(text).collect(), made.waits.iter().map(text).collect()),
    ];
    parts.into_iter().find_map(|(what, was, is)| {
        let (nth, was, is) = gpool_control::replay::first_other(&was, &is)?;
        let what = format!("{what} {}", nth + 1);
        Some(Difference { what, recorded: was.cloned(), replayed: is.cloned() })
    })
}

/// As JSON on one line.
fn text(value: &impl Serialize) -> String {
    String::from_utf8(json(value)).unwrap_or_default()
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("the model has string keys and no failing serializers")
}

impl From<CaseRecord> for Record {
    fn from(kept: CaseRecord) -> Self {
        match kept {
            CaseRecord::Cluster(it) => Self::Cluster(it),
            CaseRecord::Policy(it) => Self::Policy(it),
            CaseRecord::Project(it) => Self::Project(it),
            CaseRecord::Node(it) => Self::Node(it),
            CaseRecord::JobSpec(it) => Self::JobSpec(it),
            CaseRecord::Job(it) => Self::Job(it),
            CaseRecord::Reservation(it) => Self::Reservation(it),
            CaseRecord::PastRuns(it) => Self::PastRuns(it),
            CaseRecord::Used(it) => Self::Used(it),
        }
    }
}

/// The same without what users wrote, as far as it decides nothing: commands, names, notes, paths,
/// messages to others, and keys.
fn without_words(records: Vec<Record>) -> Vec<CaseRecord> {
    let mut names = Names::default();
    records.into_iter().filter_map(|record| names.anonymize(record)).collect()
}

/// Names that stand for those of jobs: alike where those are alike.
#[derive(Default)]
struct Names {
    by_stem: BTreeMap<String, Arc<str>>,
}

impl Names {
    fn anonymize(&mut self, record: Record) -> Option<CaseRecord> {
        Some(match record {
            Record::Cluster(it) => CaseRecord::Cluster(it),
            Record::Policy(it) => CaseRecord::Policy(it),
            Record::Project(it) => CaseRecord::Project(it),
            Record::Node(mut it) => {
                let drains = it.drain.iter_mut().chain(it.device_drains.values_mut());
                drains.for_each(|drain| drain.reason = Arc::from(""));
                CaseRecord::Node(it)
            }
            Record::JobSpec(mut it) => {
                let stem = gpool_model::Likeness::of(&it).stem;
                let spec = Arc::make_mut(&mut it);
                spec.name = self.name(&stem);
                spec.command = Vec::new();
                spec.directory = "/".to_owned();
                (spec.stdin, spec.stdout, spec.stderr) = (None, None, None);
                spec.activate = Vec::new().into();
                CaseRecord::JobSpec(it)
            }
            Record::Job(mut it) => {
                it.note = None;
                it.notify = Vec::new();
                it.course.past = Vec::new();
                CaseRecord::Job(it)
            }
            Record::Reservation(mut it) => {
                it.reason = Arc::from("");
                CaseRecord::Reservation(it)
            }
            Record::PastRuns(mut it) => {
                it.like.stem = self.name(&it.like.stem).to_string();
                CaseRecord::PastRuns(it)
            }
            Record::Used(it) => CaseRecord::Used(it),
            // Nothing is decided by them.
            Record::Idempotency(_) | Record::Delivery(_) | Record::Subscription(_) => return None,
        })
    }

    /// Letters alone: digits tell jobs apart that are alike.
    fn name(&mut self, stem: &str) -> Arc<str> {
        let mut number = self.by_stem.len();
        let name = self.by_stem.entry(stem.to_owned()).or_insert_with(|| {
            let mut letters = String::from("job-");
            loop {
                letters.push(char::from(b'a' + u8::try_from(number % 26).unwrap_or(0)));
                number /= 26;
                if number == 0 {
                    break Arc::from(letters);
                }
            }
        });
        Arc::clone(name)
    }
}
