//! The parameters of a page, from its query or from a form.

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

    /// All values of a name.
    pub(super) fn all(&self, name: &str) -> Vec<String> {
        let values = self.0.iter().filter(|(known, _)| known == name);
        values.map(|(_, value)| value.clone()).collect()
    }
}

/// A query from names with values; those without a value are left out.
pub(super) fn written(pairs: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs.iter().filter(|(_, value)| !value.is_empty()));
    query.finish()
}
