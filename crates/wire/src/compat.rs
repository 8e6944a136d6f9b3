//! The names of other schedulers whose variables a job asks for.

use gpool_model::{Compat, Refusal};

/// Reads names, each once and in their order.
///
/// # Errors
/// [`Refusal::Invalid`] for a name that is none.
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
