//! What was used lately, as the division of shares looks at it.

use gpool_model::GpuTime;

/// How much of what could have been used was.
pub(crate) fn in_millionths(used: GpuTime, all: GpuTime) -> u32 {
    let part = u128::from(used.get()) * 1_000_000;
    let part = part.checked_div(u128::from(all.get())).unwrap_or(0);
    u32::try_from(part).unwrap_or(u32::MAX).min(1_000_000)
}
