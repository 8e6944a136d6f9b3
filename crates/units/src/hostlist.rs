//! Lists of node names as Slurm writes them: `lab1,node[1-4,7]`.

use crate::id::{NodeName, is_plain_name};
use crate::parse::ParseError;

/// The most names in one list; without a limit, a short text could expand to fill the memory.
const NAMES_MAX: usize = 4096;

/// Reads a list of node names, with ranges in brackets expanded; each name once, in the order of
/// the list. Numbers keep their leading zeros: `n[08-10]` is `n08,n09,n10`.
///
/// # Errors
/// The position of the first word that is no name, list or range; or more than 4096 names.
pub fn nodes(text: &str) -> Result<Vec<NodeName>, ParseError> {
    let bad = |position| {
        ParseError::new("a list of at most 4096 nodes", text, position, "lab1,lab2 or node[1-4,7]")
    };
    let mut nodes = Vec::new();
    for (at, part) in items(text) {
        let names = expanded(part).map_err(|within| bad(at + within))?;
        for name in names {
            let name = NodeName::new(name);
            if !is_plain_name(name.as_str()) || nodes.len() == NAMES_MAX {
                return Err(bad(at));
            }
            if !nodes.contains(&name) {
                nodes.push(name);
            }
        }
    }
    Ok(nodes)
}

/// The items between the commas outside brackets, with their positions.
fn items(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut depth = 0_u32;
    let parts = text.split(move |c| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.scan(0, |at, part| {
        let start = *at;
        *at += part.len() + 1;
        Some((start, part))
    })
}

/// The names of one item, with each bracket expanded; else the position of the error.
fn expanded(item: &str) -> Result<Vec<String>, usize> {
    let mut names = vec![String::new()];
    let mut rest = item;
    while let Some((before, behind)) = rest.split_once('[') {
        let at = item.len() - behind.len();
        let (list, after) = behind.split_once(']').ok_or(at)?;
        let numbers = numbers(list).ok_or(at)?;
        if names.len().saturating_mul(numbers.len()) > NAMES_MAX {
            return Err(at);
        }
        let each = |name: &String| {
            let with = |number: &String| format!("{name}{before}{number}");
            numbers.iter().map(with).collect::<Vec<_>>()
        };
        names = names.iter().flat_map(each).collect();
        rest = after;
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    Ok(names)
}

/// The numbers of `1-4,7`, with leading zeros kept.
fn numbers(list: &str) -> Option<Vec<String>> {
    let mut numbers = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let is_number = |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(first) || !is_number(last) {
            return None;
        }
        let (from, to): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        let most = u64::try_from(NAMES_MAX - numbers.len()).ok()?;
        if from > to || to - from >= most {
            return None;
        }
        let width = first.len();
        numbers.extend((from..=to).map(|number| format!("{number:0width$}")));
    }
    Some(numbers)
}
