//! Amounts and lengths of time in the form of scenarios.

use gpool_model::{Bytes, Millis};

/// An amount in the largest unit that is exact.
pub(crate) fn bytes(amount: Bytes) -> String {
    let amount = amount.get();
    match [(30, "G"), (20, "M"), (10, "K")]
        .into_iter()
        .find(|(shift, _)| amount.is_multiple_of(1 << shift))
    {
        Some((shift, unit)) => format!("{}{unit}", amount >> shift),
        None => format!("{amount}B"),
    }
}

/// A length of time in the largest unit that is exact.
pub(crate) fn span(length: Millis) -> String {
    let length = length.get();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    match units.into_iter().find(|(size, _)| length.is_multiple_of(*size)) {
        Some((size, unit)) => format!("{}{unit}", length / size),
        None => format!("{length}ms"),
    }
}
