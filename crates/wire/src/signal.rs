//! Names and numbers of signals on Linux for x86 and Arm.

use gpool_model::Refusal;
use gpool_model::verb::SignalTo;

use crate::amount::Quantity;
use crate::json::nearest;

const NAMES: [(&str, i32); 30] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("PWR", 30),
    ("SYS", 31),
];
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

/// Returns the name of a signal, if it has one: `TERM`.
#[must_use]
pub fn name(number: i32) -> Option<&'static str> {
    NAMES.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
}

fn invalid(why: String) -> Refusal {
    Refusal::Invalid { field: "signal".to_owned(), why }
}
