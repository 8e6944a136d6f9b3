//! The parameters of a page, from its query or from a form.

use gpool_web::Order;
use gpool_wire::{Problem, catalogue, json};

/// Names with their values, in order.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn of(text: &str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// The first value of a name; empty without one.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// Refuses names that the page does not have: a misspelled filter would show everything.
    pub(super) fn only(&self, names: &[&str]) -> Result<(), Box<Problem>> {
        let unknown = self.0.iter().find(|(name, _)| !names.contains(&name.as_str()));
        let Some((name, _)) = unknown else { return Ok(()) };
        let detail = format!("this page has no parameter {:?}", short(name));
        let problem = Problem::new(catalogue::UNKNOWN_FIELD, detail);
        Err(Box::new(match names {
            [] => problem.try_this("remove what follows the question mark in the address"),
            names => advised(problem, name, names),
        }))
    }

    /// The value of a name, one of these; the usual one without a value.
    pub(super) fn choice<'k>(
        &self,
        name: &str,
        values: &[&'k str],
        usual: &'k str,
    ) -> Result<&'k str, Box<Problem>> {
        let value = self.get(name);
        match values.iter().find(|it| **it == value) {
            Some(found) => Ok(found),
            None if value.is_empty() => Ok(usual),
            None => {
                let detail = format!("{name}: {:?} is not a value of this page", short(value));
                let problem = Problem::new(catalogue::INVALID, detail);
                Err(Box::new(advised(problem, value, values)))
            }
        }
    }

    /// The order of the page's tables, by a column with one of these keys.
    pub(super) fn order(&self, keys: &[&str]) -> Result<Order<'_>, Box<Problem>> {
        let order = Order::of(self.get("sort"));
        if order.by.is_empty() || keys.contains(&order.by) {
            return Ok(order);
        }
        let detail = format!("sort: {:?} is not a column of this page", short(order.by));
        let problem = advised(Problem::new(catalogue::INVALID, detail), order.by, keys);
        Err(Box::new(problem.try_this("a minus before it sorts the largest first")))
    }

    /// The address with these parameters, without the order.
    pub(super) fn address(&self, path: &str) -> String {
        let pairs = self.0.iter().filter(|(name, _)| name != "sort");
        let pairs: Vec<_> = pairs.map(|(name, value)| (name.as_str(), value.as_str())).collect();
        match query_string(&pairs) {
            query if query.is_empty() => path.to_owned(),
            query => format!("{path}?{query}"),
        }
    }

    pub(super) fn all(&self, name: &str) -> Vec<String> {
        let values = self.0.iter().filter(|(known, _)| known == name);
        values.map(|(_, value)| value.clone()).collect()
    }
}

/// A query from names with values; those without a value are left out.
pub(super) fn query_string(pairs: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs.iter().filter(|(_, value)| !value.is_empty()));
    query.finish()
}

/// The start of a text from an address.
fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

/// A problem with the values that are valid, and the one that was probably meant.
fn advised(problem: Problem, found: &str, valid: &[&str]) -> Problem {
    let problem = problem.because(format!("valid are {}", valid.join(", ")));
    match json::nearest(found, valid.iter().copied()) {
        Some(near) => problem.try_this(format!("did you mean {near:?}?")),
        None => problem,
    }
}
