//! Heterogeneous jobs and steps of Slurm, which have several parts. Equal parts become the tasks of
//! a gang; parts that differ are refused by name: ignored, they would run something else.

use super::flags::DIRECTIVE;
use super::shape::{PARTS, is_of_shape};
use crate::errors;
use crate::failure::{Failure, Result};
use crate::foreign::flag::PassedFlag;

/// Flags that may differ between parts, because a job has one of each.
const OF_JOB: [&str; 3] = ["job-name", "comment", "mail-user"];

/// The flags of `#SBATCH` lines. A line `#SBATCH hetjob` begins another part; equal parts are
/// counted by a flag of their own.
///
/// # Errors
/// A line is not valid, or parts differ.
pub fn gather<'d>(lines: impl Iterator<Item = (String, &'d [String])>) -> Result<Vec<PassedFlag>> {
    let mut parts = vec![Vec::new()];
    let mut last_place = String::new();
    for (place, words) in lines {
        let moved = |failure: Failure| failure.at(errors::BAD_DIRECTIVE, &place);
        match words {
            [word] if ["hetjob", "packjob"].contains(&word.as_str()) => {
                parts.push(Vec::new());
                last_place.clone_from(&place);
            }
            words => {
                let given = DIRECTIVE.read_directive(words, &place).map_err(moved)?;
                parts.last_mut().expect("it has one").extend(given);
            }
        }
    }
    merged_requests(parts, Some(&last_place))
        .map_err(|failure| failure.at(errors::BAD_DIRECTIVE, &last_place))
}

/// The flags of equal parts as those of one, with their number.
///
/// # Errors
/// Parts differ.
pub fn merged_requests(
    parts: Vec<Vec<PassedFlag>>,
    place: Option<&str>,
) -> Result<Vec<PassedFlag>> {
    let n_parts = parts.len();
    let mut parts = parts.into_iter();
    let mut first = parts.next().unwrap_or_default();
    if let Some(flag) = parts.find_map(|part| difference(&first, &part)) {
        let what = format!("the parts of a heterogeneous job differ in {flag}");
        return Err(Failure::new(errors::BAD_DIRECTIVE, what)
            .why("gpool's Slurm commands run equal parts, as tasks that start together")
            .tip("gpool submit --part head:1xcpu --part worker:4x8   (parts that differ)")
            .tip("one job for each part, or the same resources for all"));
    }
    if n_parts > 1 {
        let place = place.map(str::to_owned);
        first.push(PassedFlag { flag: &PARTS, value: n_parts.to_string(), place });
    }
    Ok(first)
}

/// A flag that only one of two parts has, or with another value.
fn difference(one: &[PassedFlag], other: &[PassedFlag]) -> Option<String> {
    let lacks = |part: &[PassedFlag], flag: &PassedFlag| {
        !part.iter().any(|it| it.flag == flag.flag && it.value == flag.value)
    };
    let matters = |given: &&PassedFlag| is_of_shape(given) || !OF_JOB.contains(&given.flag.long);
    let of = |part: &[PassedFlag], than: &[PassedFlag]| {
        part.iter().filter(matters).find(|flag| lacks(than, flag)).map(|flag| flag.flag.spelling())
    };
    of(one, other).or(of(other, one))
}

/// Splits the words of a command line at colons, which separate the parts of a step.
#[must_use]
pub fn split(words: &[String]) -> Vec<Vec<String>> {
    words.split(|word| word == ":").map(<[String]>::to_vec).collect()
}

/// Refuses a colon before the script, which separates the parts of a job.
pub fn refuse_colon(command: &str, words: &[String]) -> Result<()> {
    if words.first().is_none_or(|word| word != ":") {
        return Ok(());
    }
    let what =
        format!("{command}: a colon separates parts of a job, which {command} does not take");
    Err(Failure::new(errors::USAGE, what)
        .tip("#SBATCH hetjob   (in a script, between equal parts)")
        .tip(format!("{command} --nodes=2   (two equal parts on two nodes)")))
}
