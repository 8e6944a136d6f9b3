//! Values with Slurm's meaning.

use crate::failure::Result;
use crate::foreign::flag::{PassedFlag, invalid};

/// The range of priorities.
const PRIORITY_MAX: i64 = 1000;

/// Parses a number of at least 1.
pub fn count(given: &PassedFlag) -> Result<u64> {
    match given.value.trim().parse() {
        Ok(n @ 1..) => Ok(n),
        _ => Err(invalid(given, "is not a number of at least 1")),
    }
}

/// Parses a number, or a range of two.
pub fn range(given: &PassedFlag) -> Result<(u64, u64)> {
    let (first, last) = given.value.split_once('-').unwrap_or((&given.value, &given.value));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
        _ => Err(invalid(given, "is not a number")),
    }
}

/// Parses an amount of memory into mebibytes, which is also the unit of a plain number.
pub fn mebibytes(given: &PassedFlag) -> Result<u64> {
    let text = given.value.trim();
    let bad = || {
        invalid(given, "is not an amount of memory").tip(format!("{}=16G", given.flag.spelling()))
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
pub fn seconds(given: &PassedFlag) -> Result<Option<u64>> {
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
pub fn gpus(given: &PassedFlag) -> Result<(String, u64)> {
    let is_gres = given.flag.long == "gres";
    let flag = given.flag.spelling();
    let bad = || {
        let tip = format!("{flag}={}a100:2", if is_gres { "gpu:" } else { "" });
        invalid(given, "is not a number of GPUs").tip(tip)
    };
    let text = given.value.trim();
    let (model, n) = match text.rsplit_once(':') {
        Some((model, n)) => (Some(model), n),
        None => (None, text),
    };
    let n: u64 = n.parse().map_err(|_| bad())?;
    match model {
        None => Ok((n.to_string(), n)),
        Some(word) if word.eq_ignore_ascii_case("gpu") && !is_gres => {
            Err(invalid(given, "is not a number of GPUs").tip(format!("{flag}={n}")))
        }
        Some(_) if n == 0 => Ok(("0".to_owned(), 0)),
        Some(model) if is_model(model) => Ok((format!("{}:{n}", model_name(model)), n)),
        Some(_) => Err(bad()),
    }
}

/// Parses the GPUs of a list of generic resources; other resources are added to `ignored`.
pub fn gres(given: &PassedFlag, ignored: &mut Vec<String>) -> Result<Option<(String, u64)>> {
    let mut found = None;
    for part in given.value.split(',').map(str::trim) {
        let part = part.strip_prefix("gres:").or(part.strip_prefix("gres/")).unwrap_or(part);
        let (kind, rest) = part.split_once(':').unwrap_or((part, "1"));
        match kind {
            "none" | "" => {}
            "gpu" => {
                let asked = match rest.rsplit(':').next().unwrap_or(rest).parse::<u64>() {
                    Ok(_) => gpus(&PassedFlag { value: rest.to_owned(), ..given.clone() })?,
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
            // Without this the job would run without a GPU.
            kind if is_like_gpu(kind) => {
                let why = format!("{kind:?} is no generic resource; GPUs are gpu:MODEL:NUMBER");
                let meant = match part.strip_prefix("gpu") {
                    Some(rest) => rest.trim_start_matches(|c: char| !c.is_ascii_digit()),
                    None => part,
                };
                let meant = if meant.is_empty() { "1" } else { meant };
                return Err(invalid(given, "does not request a GPU")
                    .why(why)
                    .tip(format!("--gres=gpu:{meant}")));
            }
            _ => ignored.push(format!("--gres={part}")),
        }
    }
    Ok(found)
}

/// Splits `--tres-per-task=cpu=4,gres/gpu:a100:2` into the values of `--cpus-per-task` and
/// `--gpus-per-task`.
pub fn tres(given: &PassedFlag) -> Result<Vec<(&'static str, String)>> {
    let parts = given.value.split(',').map(str::trim).filter(|part| !part.is_empty());
    let read = |part: &str| {
        let at = part.find([':', '=']).unwrap_or(part.len());
        let (kind, value) = (&part[..at], part.get(at + 1..).unwrap_or("1").replace('=', ":"));
        match kind {
            "cpu" => Ok(("cpus-per-task", value)),
            "gres/gpu" if is_model(&value) => Ok(("gpus-per-task", format!("{value}:1"))),
            "gres/gpu" => Ok(("gpus-per-task", value)),
            _ => Err(invalid(given, "can't be requested for each task")
                .why(format!("{part:?} is neither cpu nor gres/gpu"))
                .tip("--tres-per-task=cpu=4,gres/gpu:a100:2")),
        }
    };
    parts.map(read).collect()
}

/// Whether the name of a generic resource looks like a GPU: its model, a MIG profile, a misspelled
/// `gpu`.
fn is_like_gpu(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    let is_word = ["gpu", "cuda", "nvidia", "tesla", "geforce", "quadro", "titan", "rtx", "gtx"]
        .iter()
        .any(|word| kind.starts_with(word));
    let letters = kind.bytes().take_while(u8::is_ascii_alphabetic).count();
    let has_number = kind.as_bytes().get(letters).is_some_and(u8::is_ascii_digit);
    // a100, h200, l40s, gh200, mi300x; 1g.10gb.
    is_word || (letters <= 2 && has_number && kind.bytes().any(|byte| byte.is_ascii_alphabetic()))
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

/// Translates a nice value: with the opposite sign, and within gpool's range.
pub fn priority(given: &PassedFlag) -> Result<i64> {
    let nice: i64 = match given.value.trim() {
        "" => 100,
        text => text.parse().map_err(|_| invalid(given, "is not a number"))?,
    };
    Ok(nice.saturating_neg().clamp(-PRIORITY_MAX, PRIORITY_MAX))
}

/// Translates the patterns in a path of a batch script. Those of a step are replaced now, since
/// they are the same for every script.
///
/// Source: the manual of sbatch, "filename pattern".
pub fn path(given: &PassedFlag, warnings: &mut Vec<String>) -> String {
    if given.value.contains('\\') {
        // A backslash turns the patterns off.
        return given.value.replace('\\', "").replace('%', "%%");
    }
    let mut path = String::new();
    let mut rest = given.value.as_str();
    while let Some((before, after)) = rest.split_once('%') {
        path.push_str(before);
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let (width, after) = after.split_at(digits);
        let zeros = width.parse::<usize>().unwrap_or(0).clamp(1, 10);
        let letter = after.chars().next();
        match letter {
            Some('J') => path.push_str(&format!("%{width}j")),
            Some('t' | 'n') => path.push_str(&"0".repeat(zeros)),
            Some('s') => path.push_str("batch"),
            letter => {
                path.push('%');
                path.push_str(width);
                path.extend(letter);
                if !letter.is_some_and(|letter| "jAabxuN%".contains(letter)) {
                    let what: String = letter.into_iter().collect();
                    let (flag, known) = (given.flag.spelling(), "%j %A %a %b %x %u %N %J %t %n %s");
                    warnings.push(format!("{flag}: %{what} is not replaced; gpool knows {known}"));
                }
            }
        }
        rest = &after[letter.map_or(0, char::len_utf8)..];
    }
    path + rest
}

/// Parses `append` or `truncate`.
pub fn open_mode(given: &PassedFlag) -> Result<&'static str> {
    match given.value.trim().to_ascii_lowercase().as_str() {
        "append" | "a" => Ok("append"),
        "truncate" | "t" => Ok("truncate"),
        _ => Err(invalid(given, "is neither append nor truncate").tip("--open-mode=append")),
    }
}

/// Splits a list at commas outside of quotes, and removes the quotes, as in
/// `--export=ALL,OPTS="a,b"`.
///
/// # Errors
/// A quote is not closed.
pub fn quoted_list(given: &PassedFlag) -> Result<Vec<String>> {
    let mut parts = vec![String::new()];
    let mut quote: Option<char> = None;
    for c in given.value.chars() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, ',') => parts.push(String::new()),
            (_, c) => parts.last_mut().expect("it starts with one").push(c),
        }
    }
    if quote.is_some() {
        return Err(invalid(given, "has a quote that is not closed"));
    }
    Ok(parts.into_iter().filter(|part| !part.trim().is_empty()).collect())
}
