//! Signals as users write them.

use gpool_model::Refusal;
use gpool_model::verb::SignalTo;

use crate::amount::Quantity;
use gpool_texts::signal::NAMES;
pub use gpool_texts::signal::{name, word};
use gpool_texts::words::nearest;

const NUMBER_MAX: i32 = 64;

/// Reads `job`, `program` or `steps`.
///
/// # Errors
/// [`Refusal::Invalid`] for another word.
pub fn to(word: &str) -> Result<SignalTo, Refusal> {
    SignalTo::named(word).ok_or_else(|| {
        let shown: String = word.chars().take(32).collect();
        let why = format!("{shown:?} is not job, program or steps");
        Refusal::Invalid { field: "to".to_owned(), why }
    })
}

/// Returns the number of a signal by name (`USR1`, `SIGUSR1`, any case) or number.
///
/// # Errors
/// [`Refusal::Invalid`] with the nearest name.
pub fn number(written: &Quantity) -> Result<i32, Refusal> {
    let text = written.to_string();
    if let Ok(number) = text.parse::<i32>() {
        if (1..=NUMBER_MAX).contains(&number) {
            return Ok(number);
        }
        return Err(invalid(format!("{number} is not a signal; signals are 1 to {NUMBER_MAX}")));
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some((_, number)) = NAMES.iter().find(|(known, _)| *known == name) {
        return Ok(*number);
    }
    let meant = nearest(name, NAMES.iter().map(|(known, _)| *known)).unwrap_or("USR1");
    let shown: String = text.chars().take(32).collect();
    Err(invalid(format!("{shown:?} is not a signal; write, for example, {meant}")))
}

/// Returns the number of a signal in a field with this name.
///
/// # Errors
/// [`Refusal::Invalid`] with the nearest name.
pub(crate) fn number_of(field: &str, text: &str) -> Result<i32, Refusal> {
    number(&Quantity::from(text)).map_err(|refusal| match refusal {
        Refusal::Invalid { why, .. } => crate::check::invalid(field, &why),
        other => other,
    })
}

fn invalid(why: String) -> Refusal {
    Refusal::Invalid { field: "signal".to_owned(), why }
}
