//! Values with Slurm's meaning.

use crate::failure::Result;
use crate::foreign::flag::{Given, invalid};

/// The range of priorities.
const PRIORITY_MAX: i64 = 1000;

/// Parses a number of at least 1.
pub fn count(given: &Given) -> Result<u64> {
    match given.value.trim().parse() {
        Ok(n @ 1..) => Ok(n),
        _ => Err(invalid(given, "is not a number of at least 1")),
    }
}

/// Parses a number, or a range of two.
pub fn range(given: &Given) -> Result<(u64, u64)> {
    let (first, last) = given.value.split_once('-').unwrap_or((&given.value, &given.value));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
        _ => Err(invalid(given, "is not a number")),
    }
}

/// Parses an amount of memory into mebibytes, which is also the unit of a plain number.
pub fn mebibytes(given: &Given) -> Result<u64> {
    let text = given.value.trim();
    let bad = || {
        invalid(given, "is not an amount of memory").tip(format!("{}=16G", given.flag.written()))
    };
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| bad())?;
    let factor = match unit.to_ascii_uppercase().as_str() {
        "K" | "KB" => return Ok(number.div_ceil(1024)),
        "" | "M" | "MB" => 1,
        "G" | "GB" => 1 << 10,
        "T" | "TB" => 1 << 20,
        _ => return Err(bad()),
    };
    number.checked_mul(factor).ok_or_else(bad)
}

/// Parses a time limit into seconds: minutes, `MM:SS`, `HH:MM:SS`, `D-HH`, `D-HH:MM`, `D-HH:MM:SS`;
/// `None` for no limit.
pub fn seconds(given: &Given) -> Result<Option<u64>> {
    let text = given.value.trim();
    if ["unlimited", "infinite", "-1"].contains(&text.to_ascii_lowercase().as_str()) {
        return Ok(None);
    }
    match time(text) {
        Some(0) => Ok(None),
        Some(seconds) => Ok(Some(seconds)),
        None => {
            Err(invalid(given, "is not a time limit")
                .tip("--time=90 (minutes), 1:30:00 or 2-12:00:00"))
        }
    }
}

/// Parses a length of time in the form of `--time` into seconds.
pub fn time(text: &str) -> Option<u64> {
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(days.parse::<u64>().ok()?), rest),
        None => (None, text),
    };
    let parts: Option<Vec<u64>> = rest.split(':').map(|part| part.parse().ok()).collect();
    let parts = parts?;
    let [hours, minutes, seconds] = match (days, parts.as_slice()) {
        (None, [minutes]) => [0, *minutes, 0],
        (None, [minutes, seconds]) => [0, *minutes, *seconds],
        (Some(_), [hours]) => [*hours, 0, 0],
        (Some(_), [hours, minutes]) => [*hours, *minutes, 0],
        (_, [hours, minutes, seconds]) => [*hours, *minutes, *seconds],
        _ => return None,
    };
    let hours = days.unwrap_or(0).checked_mul(24)?.checked_add(hours)?;
    hours.checked_mul(60)?.checked_add(minutes)?.checked_mul(60)?.checked_add(seconds)
}

/// Parses `[MODEL:]N` into a GPU request and N.
pub fn gpus(given: &Given) -> Result<(String, u64)> {
    let bad = || {
        invalid(given, "is not a number of GPUs").tip(format!("{}=a100:2", given.flag.written()))
    };
    let text = given.value.trim();
    let (model, n) = match text.rsplit_once(':') {
        Some((model, n)) => (Some(model), n),
        None => (None, text),
    };
    let n: u64 = n.parse().map_err(|_| bad())?;
    match model {
        None => Ok((n.to_string(), n)),
        Some(_) if n == 0 => Ok(("0".to_owned(), 0)),
        Some(model) if is_model(model) => Ok((format!("{}:{n}", model_name(model)), n)),
        Some(_) => Err(bad()),
    }
}

/// Parses the GPUs of a list of generic resources; other resources are added to `ignored`.
pub fn gres(given: &Given, ignored: &mut Vec<String>) -> Result<Option<(String, u64)>> {
    let mut found = None;
    for part in given.value.split(',').map(str::trim) {
        let part = part.strip_prefix("gres:").or(part.strip_prefix("gres/")).unwrap_or(part);
        let (kind, rest) = part.split_once(':').unwrap_or((part, "1"));
        match kind {
            "none" | "" => {}
            "gpu" => {
                let asked = match rest.rsplit(':').next().unwrap_or(rest).parse::<u64>() {
                    Ok(_) => gpus(&Given { value: rest.to_owned(), ..given.clone() })?,
                    Err(_) if is_model(rest) => (format!("{}:1", model_name(rest)), 1),
                    Err(_) => return Err(invalid(given, "has no GPUs").tip("--gres=gpu:a100:2")),
                };
                if found.replace(asked).is_some() {
                    let failure = invalid(given, "requests GPUs twice");
                    return Err(failure.tip("--gpus 'a100|h100:2' of gpool takes either model"));
                }
            }
            "shard" | "mps" => {
                return Err(invalid(
                    given,
                    "requests a fraction of a GPU, which --gres does not support",
                )
                .tip("--gres=gpu:1, or gpool submit --gpus 0.5"));
            }
            _ => ignored.push(format!("--gres={part}")),
        }
    }
    Ok(found)
}

/// Whether the text has a letter, like `a100` or a MIG profile such as `1g.10gb`.
fn is_model(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.contains(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Translates a Slurm type into a gpool model name, with dashes between the words: `rtx2080ti` is
/// `rtx-2080-ti`.
fn model_name(text: &str) -> String {
    let text = text.to_ascii_lowercase().replace('_', "-");
    text.split('-').map(split_word).collect::<Vec<_>>().join("-")
}

/// Splits `rtx` before a number, and `ti` or `super` after one.
fn split_word(word: &str) -> String {
    let numbered = |prefix: &str| {
        let rest = word.strip_prefix(prefix)?;
        let number = rest.strip_prefix('a').unwrap_or(rest);
        number.starts_with(|c: char| c.is_ascii_digit()).then(|| (format!("{prefix}-"), rest))
    };
    let (prefix, rest) =
        ["rtx", "gtx"].into_iter().find_map(numbered).unwrap_or((String::new(), word));
    let of_number = |suffix: &str| {
        let number = rest.strip_suffix(suffix)?;
        number.ends_with(|c: char| c.is_ascii_digit()).then(|| format!("{number}-{suffix}"))
    };
    let rest = ["ti", "super"].into_iter().find_map(of_number).unwrap_or_else(|| rest.to_owned());
    prefix + &rest
}

/// Translates a time: `now+1hour` is `now+3600s`; a plain number means seconds in Slurm.
pub fn moment(text: &str) -> String {
    let Some(rest) = text.trim().strip_prefix("now+") else { return text.trim().to_owned() };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, unit) = rest.split_at(digits);
    let unit = match unit.trim_end_matches('s') {
        "" | "second" => 1_u64,
        "minute" => 60,
        "hour" => 3600,
        "day" => 86400,
        "week" => 604_800,
        _ => return text.trim().to_owned(),
    };
    match number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)) {
        Some(seconds) => format!("now+{seconds}s"),
        None => text.trim().to_owned(),
    }
}

/// Translates a nice value: with the opposite sign, and within gpool's range.
pub fn priority(given: &Given) -> Result<i64> {
    let nice: i64 = match given.value.trim() {
        "" => 100,
        text => text.parse().map_err(|_| invalid(given, "is not a number"))?,
    };
    Ok(nice.saturating_neg().clamp(-PRIORITY_MAX, PRIORITY_MAX))
}

/// Translates the patterns in a path. Patterns that gpool does not have are replaced now, since
/// they are the same for every job.
pub fn path(given: &Given, warnings: &mut Vec<String>) -> String {
    let mut path = String::new();
    let mut rest = given.value.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '%' {
            path.push(c);
            continue;
        }
        let mut width = String::new();
        while let Some(digit) = rest.next_if(char::is_ascii_digit) {
            width.push(digit);
        }
        match rest.next() {
            Some(pattern @ ('j' | 'A' | 'a' | 'x' | 'u' | 'N' | '%')) => {
                path.extend(['%', pattern])
            }
            Some('J') => path.push_str("%j"),
            Some('t' | 'n') => path.push('0'),
            Some('s') => path.push_str("batch"),
            other => {
                path.push('%');
                path.extend(other);
                let what = format!("%{}", other.map(String::from).unwrap_or_default());
                let flag = given.flag.written();
                warnings
                    .push(format!("{flag}: {what} is not replaced; gpool knows %j %A %a %x %u %N"));
            }
        }
        if !width.is_empty() {
            let flag = given.flag.written();
            warnings.push(format!("{flag}: numbers in names are not padded to {width} digits"));
        }
    }
    path
}
