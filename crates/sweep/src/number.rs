//! Numbers as users write and read them.

/// Reads a finite number.
#[must_use]
pub fn parse(text: &str) -> Option<f64> {
    let begins = |c: char| c.is_ascii_digit() || "+-.".contains(c);
    let number: f64 = text.parse().ok().filter(|_| text.starts_with(begins))?;
    number.is_finite().then_some(number)
}

/// Whether a number is written without a point and exponent.
#[must_use]
pub fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}
