//! Words that several texts have in common.

use std::collections::BTreeMap;

use gpool_model::reservation::Beneficiary;
use gpool_model::{NodeFilter, NodeName};
use serde::de::{self, DeserializeOwned};
use serde_json::Value;

/// Maximum length in bytes of an unknown word: [`nearest`] ignores longer words.
const FOUND_MAX: usize = 100;

/// Returns the known word that is nearest to an unknown one, if it is near enough.
#[must_use]
pub fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A longer text is no typo, and the comparison costs time and memory by length.
    if found.len() > FOUND_MAX {
        return None;
    }
    let near = |word: &&'a str| {
        let distance = strsim::damerau_levenshtein(found, word);
        let begins = found.len() > 2 && (word.starts_with(found) || found.starts_with(*word));
        // `escalte` stands for `escalate_after`.
        let first = word.split('_').next().unwrap_or(word);
        let is_first = first.len() > 4 && strsim::damerau_levenshtein(found, first) <= 2;
        (begins || is_first || distance <= 1 + word.len() / 4).then_some(distance)
    };
    known
        .into_iter()
        .filter_map(|word| near(&word).map(|distance| (distance, word)))
        .min()
        .map(|(_, word)| word)
}

/// Converts thousandths of cores or devices to cores or devices.
#[must_use]
pub fn cores(millis: u64) -> f64 {
    // The limit of four million cores is far above any machine.
    f64::from(u32::try_from(millis).unwrap_or(u32::MAX)) / 1000.0
}

/// Describes how many nodes a job may use, and how many its filter excludes.
pub fn only_words(
    nodes: &NodeFilter,
    n_nodes: u32,
    n_left_out: u32,
    left_out: &[NodeName],
) -> String {
    if n_nodes == 0 {
        return format!("No node matches {nodes}");
    }
    let matching = if n_nodes == 1 { "node matches" } else { "nodes match" };
    let names: Vec<&str> = left_out.iter().map(NodeName::as_str).collect();
    let n_more = usize::try_from(n_left_out).unwrap_or(usize::MAX).saturating_sub(names.len());
    let more = if n_more == 0 { String::new() } else { format!(" and {n_more} more") };
    format!("Only {n_nodes} {matching} {nodes}; excluded: {}{more}", names.join(", "))
}

/// Returns the kind and name of a beneficiary.
pub fn beneficiary_words(whom: &Beneficiary) -> (&'static str, Option<String>) {
    match whom {
        Beneficiary::Nobody => ("nobody", None),
        Beneficiary::User { name, .. } => ("user", Some(name.to_string())),
        Beneficiary::Project { name } => ("project", Some(name.to_string())),
        Beneficiary::Job { id } => ("job", Some(id.to_string())),
    }
}

/// Takes a field out of an object, for types that allow unknown fields. Code that serde derives for
/// these types would buffer each value in its own representation.
///
/// # Errors
/// Returns an error if the value has the wrong type. An absent value is `null`.
pub fn take<T: DeserializeOwned, E: de::Error>(
    fields: &mut BTreeMap<String, Value>,
    name: &str,
) -> Result<T, E> {
    let value = fields.remove(name).unwrap_or_default();
    serde_json::from_value(value).map_err(|error| E::custom(format_args!("{name}: {error}")))
}
