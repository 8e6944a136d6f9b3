//! A page for each reason that a job can wait for: its meaning and what the user can do. The texts
//! with numbers in `why` and `queue` come from the API; the codes are stable.

use gpool_wire::reason::{About, all};

/// The page of all reasons, sorted by code.
#[must_use]
pub fn page() -> String {
    let mut reasons: Vec<&About> = all().collect();
    reasons.sort_by_key(|it| it.code);
    let line = |it: &About| format!("{}\n    {}\n    try: {}\n", it.code, it.what, it.tip);
    reasons.into_iter().map(line).collect()
}

#[must_use]
pub fn find(code: &str) -> Option<String> {
    let found = all().find(|it| it.code == code)?;
    Some(format!("{}\n\n{}\n\ntry  {}\n", found.code, found.what, found.tip))
}
