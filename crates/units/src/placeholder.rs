//! Placeholders in a command for the values of an array's elements: `{lr}` is the parameter with
//! that name, `{}` the item. Doubled braces are literal where there are parameters: `{{lr}}` is
//! `{lr}`. `${lr}` belongs to the shell and stays.

/// Puts an element's values into a text. Placeholders without a value stay.
#[must_use]
pub fn fill(text: &str, item: Option<&str>, params: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(text.len());
    for part in parts(text) {
        match part {
            Part::Text(text) => filled.push_str(text),
            Part::Doubled(inner)
                if value_of(inner, item, params).is_some()
                    || !(inner.is_empty() || params.is_empty()) =>
            {
                filled.push('{');
                filled.push_str(inner);
                filled.push('}');
            }
            Part::Doubled(inner) => {
                filled.push_str("{{");
                filled.push_str(inner);
                filled.push_str("}}");
            }
            Part::Named(inner) => match value_of(inner, item, params) {
                Some(value) => filled.push_str(value),
                None => {
                    filled.push('{');
                    filled.push_str(inner);
                    filled.push('}');
                }
            },
        }
    }
    filled
}

/// The names in single braces in a text, in order.
#[must_use]
pub fn names(text: &str) -> Vec<&str> {
    let named = |part| match part {
        Part::Named(inner) if !inner.is_empty() => Some(inner),
        _ => None,
    };
    parts(text).filter_map(named).collect()
}

/// Whether this is a valid name of a parameter: letters, digits and `_`, not beginning with a
/// digit.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

fn value_of<'a>(inner: &str, item: Option<&'a str>, params: &[(&str, &'a str)]) -> Option<&'a str> {
    match inner {
        "" => item,
        _ => params.iter().find(|(name, _)| *name == inner).map(|(_, value)| *value),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    Text(&'a str),
    /// The content of single braces: a name, or nothing.
    Named(&'a str),
    /// The content of doubled braces.
    Doubled(&'a str),
}

fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = text;
    let mut is_shells = false;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some((part, length)) = braced(rest).filter(|_| !is_shells) {
            rest = &rest[length..];
            return Some(part);
        }
        // Skips this brace and stops before the next.
        let first = rest.chars().next().map_or(1, char::len_utf8);
        let end = rest[first..].find('{').map_or(rest.len(), |at| first + at);
        let (part, after) = rest.split_at(end);
        is_shells = part.ends_with('$');
        rest = after;
        Some(Part::Text(part))
    })
}

/// The placeholder that a text begins with, and its length.
fn braced(text: &str) -> Option<(Part<'_>, usize)> {
    let inner = |open: &str, close: &str| {
        let after = text.strip_prefix(open)?;
        let end = after.find('}')?;
        let inner = &after[..end];
        let is_inner = inner.is_empty() || is_name(inner);
        (is_inner && after[end..].starts_with(close)).then_some(inner)
    };
    if let Some(inner) = inner("{{", "}}") {
        return Some((Part::Doubled(inner), inner.len() + 4));
    }
    inner("{", "}").map(|inner| (Part::Named(inner), inner.len() + 2))
}
