//! Names and numbers of signals on Linux for x86 and Arm.

/// Each signal with a name.
pub const NAMES: [(&str, i32); 30] = [
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

/// Returns the name of a signal, or its number: `TERM`, `34`.
#[must_use]
pub fn word(number: i32) -> String {
    name(number).map_or_else(|| number.to_string(), str::to_owned)
}

/// Returns the name of a signal, if it has one: `TERM`.
#[must_use]
pub fn name(number: i32) -> Option<&'static str> {
    NAMES.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
}
