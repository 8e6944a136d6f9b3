//! The `compat` field: schedulers that gpool imitates with environment variables.

use gpool_model::{Compat, Refusal};

/// Reads names in order and drops duplicates.
///
/// # Errors
/// [`Refusal::Invalid`] for an unknown name.
pub(crate) fn checked(names: &[String]) -> Result<Vec<Compat>, Refusal> {
    let named = |name: &String| {
        Compat::named(name).ok_or_else(|| Refusal::Invalid {
            field: "compat".to_owned(),
            why: format!("{name:?} is not slurm, gflow or valohai"),
        })
    };
    let mut compat = names.iter().map(named).collect::<Result<Vec<_>, _>>()?;
    compat.sort_unstable();
    compat.dedup();
    Ok(compat)
}
