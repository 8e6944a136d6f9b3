//! Which jobs of a project are over quota: in order, the first jobs that fit into its own quota are
//! within it.

use gpool_model::Amount;

/// Returns of each job whether it is over quota. `pieces` are the amounts of the jobs, by kind, in
/// the order of precedence; `own` is the project's own quota of each kind, and `kept` the usage by
/// jobs that can't be evicted.
///
/// A job that does not fit is over quota as a whole, and jobs after it may still fit: else one
/// large gang would put all jobs after it over quota.
pub fn mark_loans<'a>(
    own: &[Amount],
    pieces: impl Iterator<Item = &'a [u64]>,
    mut kept: Vec<u64>,
) -> Vec<bool> {
    let mut is_over = |piece: &[u64]| {
        let mut kinds = own.iter().zip(&kept).zip(piece);
        let fits = kinds
            .all(|((own, kept), amount)| *amount == 0 || own.allows(kept.saturating_add(*amount)));
        if fits {
            kept.iter_mut().zip(piece).for_each(|(kept, amount)| *kept += amount);
        }
        !fits
    };
    pieces.map(&mut is_over).collect()
}
