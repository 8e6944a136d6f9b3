//! The replicas of each revision during an update, and the replicas to start and to remove.

/// The stage of a replica's life.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Its job waits.
    Pending,
    /// Its job runs, and it is not ready yet.
    Starting,
    /// It was ready, and does not answer its probe.
    Unready,
    /// It gets requests.
    Ready,
    /// It gets no new requests, and ends when those in flight have been answered.
    Draining,
    /// gpool ends its job.
    Stopping,
}

impl Stage {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Starting => "starting",
            Self::Unready => "unready",
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Stopping => "stopping",
        }
    }

    /// Whether it counts among the replicas of its service.
    #[must_use]
    pub fn is_living(self) -> bool {
        self < Self::Draining
    }
}

/// What the plan needs to know of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedReplica {
    /// Its index in the group of the service.
    pub index: u64,
    /// Its stage.
    pub stage: Stage,
    /// Whether it has the newest revision.
    pub is_new: bool,
    /// Its requests in flight.
    pub n_in_flight: u32,
}

/// Numbers of replicas by revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shares {
    /// With the newest revision.
    pub n_new: u32,
    /// With an earlier one.
    pub n_old: u32,
}

/// The next steps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Steps {
    /// Number of replicas to start with the newest revision.
    pub start_new: u32,
    /// Number of replicas to start with the revision before.
    pub start_old: u32,
    /// Indexes of the replicas to drain.
    pub drain: Vec<u64>,
}

/// Divides `n` replicas between the revisions. An old replica leaves only after a new one is ready
/// in its place, so a revision that never becomes ready changes nothing. `canary` is the percentage
/// of the newest revision while it is on trial.
#[must_use]
pub fn divide(n: u32, canary: Option<u32>, replicas: &[PlannedReplica]) -> Shares {
    let living = |is_new| {
        let of = move |it: &&PlannedReplica| it.is_new == is_new && it.stage.is_living();
        replicas.iter().filter(of)
    };
    let n_ready = count(living(true).filter(|it| it.stage == Stage::Ready));
    if n == 0 {
        return Shares::default();
    }
    match canary {
        Some(percent) => {
            let n_new = (n * percent).div_ceil(100).clamp(1, n);
            Shares { n_new, n_old: n.saturating_sub(n_ready.min(n_new)).max(1) }
        }
        None if living(false).next().is_none() => Shares { n_new: n, n_old: 0 },
        None => Shares { n_new: n.min(n_ready + 1), n_old: n.saturating_sub(n_ready) },
    }
}

fn count<'r>(replicas: impl Iterator<Item = &'r PlannedReplica>) -> u32 {
    u32::try_from(replicas.count()).unwrap_or(u32::MAX)
}

/// Compares the replicas with their numbers.
#[must_use]
pub fn steps(shares: Shares, replicas: &[PlannedReplica]) -> Steps {
    let mut steps = Steps::default();
    for (is_new, n) in [(true, shares.n_new), (false, shares.n_old)] {
        let of = |it: &&PlannedReplica| it.is_new == is_new && it.stage.is_living();
        let mut living: Vec<&PlannedReplica> = replicas.iter().filter(of).collect();
        let n_living = count(living.iter().copied());
        let missing = n.saturating_sub(n_living);
        if is_new {
            steps.start_new = missing
        } else {
            steps.start_old = missing
        }
        // Those that serve nothing leave first, then those with the fewest requests, then the
        // newest.
        living.sort_by_key(|it| (it.stage, it.n_in_flight, std::cmp::Reverse(it.index)));
        let surplus = usize::try_from(n_living.saturating_sub(n)).unwrap_or(0);
        steps.drain.extend(living.iter().take(surplus).map(|it| it.index));
    }
    steps
}

/// The pause before the next start of a revision with failed starts in a row: none after the first,
/// then 1 s, doubled up to 5 minutes.
#[must_use]
pub fn pause_ms(n_failed: u32) -> u64 {
    match n_failed {
        0 | 1 => 0,
        n => (1000_u64 << (n - 2).min(9)).min(300_000),
    }
}

/// An update that is under way.
#[derive(Debug, Clone, Copy)]
pub struct Update<'a> {
    /// Name of the service.
    pub service: &'a str,
    /// The newest revision.
    pub revision: u32,
    /// Number of replicas with an earlier one.
    pub n_old: usize,
    /// Percentage of the newest one while it is a canary.
    pub canary: Option<u32>,
    /// Its failed starts in a row.
    pub n_failed: u32,
}

impl Update<'_> {
    /// Failed starts in a row after which an update counts as stuck.
    const STUCK: u32 = 3;

    /// Its state as a sentence. `None` if there is no update and nothing fails.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let Self { service, revision, n_old, canary, n_failed } = self;
        let is_stuck = *n_failed >= Self::STUCK;
        if *n_old == 0 && canary.is_none() {
            let text = || format!("revision {revision} failed to start {n_failed} times in a row");
            return is_stuck.then(text);
        }
        let stuck = match is_stuck {
            true => format!(
                "; it failed to start {n_failed} times in a row: gpool serve rollback {service}"
            ),
            false => String::new(),
        };
        Some(match canary {
            Some(percent) => format!(
                "revision {revision} is a canary with {percent} % of the requests{stuck}; gpool \
                 serve promote {service}, or rollback {service}"
            ),
            None => format!("to revision {revision}: {n_old} with an earlier one{stuck}"),
        })
    }
}
