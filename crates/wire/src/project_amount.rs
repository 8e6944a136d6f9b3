//! Amounts of quotas, as users write them.

use gpool_model::quota::Amount;
use gpool_model::{ParseError, QuotaPatch, Refusal};

use crate::amount::Quantity;
use crate::check::invalid;

/// Formats an amount of thousandths: a number, or `unlimited`.
#[must_use]
pub fn in_thousandths(amount: Amount) -> Quantity {
    match amount.finite() {
        Some(milli) if milli.is_multiple_of(1000) => Quantity::Whole(milli / 1000),
        Some(milli) => Quantity::Decimal(gpool_texts::words::cores(milli)),
        None => Quantity::from("unlimited"),
    }
}

/// Whether the amount is this word.
pub(crate) fn is_word(written: &Quantity, word: &str) -> bool {
    matches!(written, Quantity::Text(text) if text.trim().eq_ignore_ascii_case(word))
}

/// Reads one amount in the unit of its kind.
type Read<'a> = &'a dyn Fn(&str) -> Result<u64, ParseError>;

/// Reads a guarantee and a limit, with the names of their fields.
///
/// # Errors
/// The invalid amount.
pub(crate) fn quota(
    (field, guaranteed): (&str, &Option<Quantity>),
    (limit_field, limit): (&str, &Option<Quantity>),
    read: impl Fn(&str) -> Result<u64, ParseError>,
) -> Result<QuotaPatch, Refusal> {
    let guaranteed = match guaranteed {
        None => None,
        Some(written) if is_word(written, "none") => Some(None),
        Some(written) if is_word(written, "unlimited") => Some(Some(Amount::UNLIMITED)),
        Some(written) => Some(Some(amount(field, written, &read)?)),
    };
    let limit = match limit {
        None => None,
        Some(written) if is_word(written, "none") || is_word(written, "unlimited") => {
            Some(Amount::UNLIMITED)
        }
        Some(written) => Some(amount(limit_field, written, &read)?),
    };
    Ok(QuotaPatch { guaranteed, limit, weight: None })
}

fn amount(field: &str, written: &Quantity, read: Read<'_>) -> Result<Amount, Refusal> {
    // A bare number of memory is bytes, as everywhere in the API. Zero is zero in any unit.
    let text = match (field.starts_with("mem"), written) {
        (true, Quantity::Whole(bytes)) => format!("{bytes}B"),
        (true, _) if is_word(written, "0") => "0B".to_owned(),
        _ => written.to_string(),
    };
    let large = || invalid(field, &format!("{written} is out of range"));
    let amount = read(text.trim());
    let amount = amount.map_err(|error| {
        let other = if field.contains("limit") { "or none" } else { "or unlimited, or none" };
        invalid(field, &format!("{error}, {other}"))
    })?;
    Amount::of(amount).ok_or_else(large)
}
