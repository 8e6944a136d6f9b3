//! Times of answers, requests and tokens of the last minute.

/// Slices of the minute.
const SLICES: usize = 6;
const SLICE_MS: u64 = 10_000;
/// Parts of each power of two: percentiles are exact to 3 %.
const PARTS: u64 = 32;
const BUCKETS: usize = 1024;

/// A slice of ten seconds.
#[derive(Debug, Clone)]
struct Slice {
    /// Its number since the start; `u64::MAX` for none.
    number: u64,
    /// Answers by the bucket of their time.
    counts: Vec<u32>,
    n_tokens: u64,
}

/// The last minute.
#[derive(Debug, Clone)]
pub struct Minute {
    slices: Vec<Slice>,
}

/// Figures of the last minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Figures {
    /// Answers in a second.
    pub requests_s: f64,
    /// Median time to the head of the answer. Absent without answers.
    pub p50_ms: Option<f64>,
    /// 99th percentile of it.
    pub p99_ms: Option<f64>,
    /// Tokens in a second, if the replicas report their number.
    pub tokens_s: Option<f64>,
}

impl Default for Minute {
    fn default() -> Self {
        let slice = Slice { number: u64::MAX, counts: vec![0; BUCKETS], n_tokens: 0 };
        Self { slices: vec![slice; SLICES] }
    }
}

impl Minute {
    fn slice(&mut self, now_ms: u64) -> &mut Slice {
        let number = now_ms / SLICE_MS;
        let ix = usize::try_from(number % SLICES as u64).unwrap_or(0);
        let slice = &mut self.slices[ix];
        if slice.number != number {
            slice.number = number;
            slice.counts.fill(0);
            slice.n_tokens = 0;
        }
        slice
    }

    /// Counts an answer. Its head came after `took_us` microseconds.
    pub fn answered(&mut self, now_ms: u64, took_us: u64) {
        let count = &mut self.slice(now_ms).counts[bucket(took_us)];
        *count = count.saturating_add(1);
    }

    /// Counts tokens of an answer.
    pub fn tokens(&mut self, now_ms: u64, n: u64) {
        let slice = self.slice(now_ms);
        slice.n_tokens = slice.n_tokens.saturating_add(n);
    }

    /// The figures of the last minute, or since the start.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of a minute are far below 2^53")]
    pub fn figures(&self, now_ms: u64) -> Figures {
        let newest = now_ms / SLICE_MS;
        let oldest = (newest + 1).saturating_sub(SLICES as u64);
        let is_in = |it: &&Slice| (oldest..=newest).contains(&it.number);
        let slices: Vec<&Slice> = self.slices.iter().filter(is_in).collect();
        let count = |ix: usize| slices.iter().map(|it| u64::from(it.counts[ix])).sum::<u64>();
        let counts: Vec<u64> = (0..BUCKETS).map(count).collect();
        let n: u64 = counts.iter().sum();
        let seconds = (now_ms - oldest * SLICE_MS).max(1000) as f64 / 1000.0;
        let n_tokens: u64 = slices.iter().map(|it| it.n_tokens).sum();
        Figures {
            requests_s: n as f64 / seconds,
            p50_ms: percentile(&counts, n, 50),
            p99_ms: percentile(&counts, n, 99),
            tokens_s: (n_tokens > 0).then(|| n_tokens as f64 / seconds),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "times in microseconds are far below 2^53")]
fn percentile(counts: &[u64], n: u64, percent: u64) -> Option<f64> {
    let rank = (n * percent).div_ceil(100).max(1);
    let mut seen = 0;
    let ix = counts.iter().position(|count| {
        seen += count;
        seen >= rank
    })?;
    Some(upper(ix) as f64 / 1000.0)
}

/// The bucket of a time: exact up to `PARTS`, then `PARTS` buckets for each power of two.
fn bucket(us: u64) -> usize {
    let exponent = u64::from(us.max(1).ilog2()).saturating_sub(u64::from(PARTS.ilog2()));
    let ix = exponent * PARTS + (us >> exponent);
    usize::try_from(ix).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

/// The largest time of a bucket.
fn upper(ix: usize) -> u64 {
    let ix = ix as u64;
    let exponent = (ix / PARTS).saturating_sub(1);
    ((ix - exponent * PARTS + 1) << exponent) - 1
}

/// The number of generated tokens that an answer reports, as servers with OpenAI's API do:
/// `"completion_tokens": 128`. The last one counts: streams repeat it.
#[must_use]
pub fn tokens_in(bytes: &[u8]) -> Option<u64> {
    const KEY: &[u8] = b"\"completion_tokens\":";
    let at = memchr::memmem::rfind(bytes, KEY)? + KEY.len();
    let digits = bytes[at..].iter().skip_while(|byte| **byte == b' ');
    let digits = digits.take_while(|byte| byte.is_ascii_digit()).take(12);
    let text: String = digits.map(|byte| char::from(*byte)).collect();
    text.parse().ok()
}
