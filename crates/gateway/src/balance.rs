//! The choice of a replica for a request.

/// What the choice needs to know of a replica that may get requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Position of the replica in the caller's list.
    pub ix: usize,
    /// Its requests in flight.
    pub n_in_flight: u32,
    /// Whether it has the newest revision.
    pub is_new: bool,
}

/// The rules of the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BalanceRules {
    /// Most requests of a replica at once.
    pub max_concurrency: Option<u32>,
    /// Percentage of the requests for the newest revision, if it is a canary.
    pub canary: Option<u32>,
}

/// Chooses the replica with the fewest requests in flight; replicas with equally many take turns.
/// `turn` counts the requests. Returns its position, or none if all are full.
#[must_use]
pub fn choose(candidates: &[Candidate], rules: BalanceRules, turn: u64) -> Option<usize> {
    let is_free = |it: &&Candidate| rules.max_concurrency.is_none_or(|most| it.n_in_flight < most);
    let least = |of: &dyn Fn(&Candidate) -> bool| {
        let free = candidates.iter().filter(is_free).filter(|it| of(it));
        let fewest = free.clone().map(|it| it.n_in_flight).min()?;
        let equal = free.filter(|it| it.n_in_flight == fewest);
        let n = equal.clone().count() as u64;
        let nth = usize::try_from(turn % n).unwrap_or(0);
        equal.clone().nth(nth).map(|it| it.ix)
    };
    let Some(percent) = rules.canary else { return least(&|_| true) };
    let percent = u64::from(percent);
    // Spreads the canary's requests evenly: every tenth one at 10 %.
    let is_canarys = turn * percent / 100 != (turn + 1) * percent / 100;
    least(&|it| it.is_new == is_canarys).or_else(|| least(&|_| true))
}

/// Recognizes a replica that answers only with errors (status 5xx), as Envoy's outlier detection
/// does: after five in a row it gets no requests for 30 s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outlier {
    n_errors: u32,
    until_ms: Option<u64>,
}

impl Outlier {
    const ERRORS: u32 = 5;
    const PAUSE_MS: u64 = 30_000;

    /// Counts an answer.
    pub fn answered(&mut self, is_error: bool, now_ms: u64) {
        if !is_error {
            *self = Self::default();
            return;
        }
        self.n_errors += 1;
        if self.n_errors >= Self::ERRORS {
            self.until_ms = Some(now_ms + Self::PAUSE_MS);
            self.n_errors = 0;
        }
    }

    /// Whether it gets no requests now, if there are others.
    #[must_use]
    pub fn is_out(&self, now_ms: u64) -> bool {
        self.until_ms.is_some_and(|until| now_ms < until)
    }
}
