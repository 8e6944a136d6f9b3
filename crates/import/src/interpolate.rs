//! Variables in texts: `$NAME`, `${NAME}`, and the defaults of docker-compose, `${NAME:-8}`.
//!
//! Source: <https://docs.docker.com/reference/compose-file/interpolation/>

/// The deepest nesting of defaults in each other.
const DEPTH_MAX: usize = 8;

/// The longest text with its variables.
const BYTES_MAX: usize = 512 * 1024;

/// A text with its variables replaced.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Filled {
    pub text: String,
    /// Variables without a value, which are replaced by nothing.
    pub missing: Vec<String>,
}

/// Replaces the variables of a text.
///
/// # Errors
/// The message of `${NAME:?message}`, or a malformed `${…}`.
pub(crate) fn fill(text: &str, value: &dyn Fn(&str) -> Option<String>) -> Result<Filled, String> {
    fill_at(text, value, 0)
}

fn fill_at(
    text: &str,
    value: &dyn Fn(&str) -> Option<String>,
    depth: usize,
) -> Result<Filled, String> {
    if depth > DEPTH_MAX {
        return Err(format!("defaults of variables are nested more than {DEPTH_MAX} deep"));
    }
    let mut filled = Filled::default();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        if filled.text.len() > BYTES_MAX {
            return Err(format!("{}: with its variables it is too long", excerpt(text)));
        }
        filled.text.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix('$') {
            filled.text.push('$');
            rest = after;
        } else if let Some(after) = after.strip_prefix('{') {
            let end =
                end_of_braces(after).ok_or_else(|| format!("{}: ${{ has no end", excerpt(text)))?;
            braces(&after[..end], value, &mut filled, depth)?;
            rest = &after[end + 1..];
        } else {
            let end = name_end(after);
            if end == 0 {
                filled.text.push('$');
            } else {
                set(&after[..end], value, &mut filled);
            }
            rest = &after[end..];
        }
    }
    filled.text.push_str(rest);
    Ok(filled)
}

/// The start of a text, for a message.
fn excerpt(text: &str) -> String {
    format!("{:?}", text.chars().take(40).collect::<String>())
}

/// The position of the brace that closes one before the text.
fn end_of_braces(text: &str) -> Option<usize> {
    let mut depth = 1_usize;
    for (at, char) in text.char_indices() {
        match char {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

fn name_end(text: &str) -> usize {
    let is_name = |(at, c): &(usize, char)| {
        c.is_ascii_alphabetic() || *c == '_' || (*at > 0 && c.is_ascii_digit())
    };
    text.char_indices().take_while(is_name).count()
}

fn set(name: &str, value: &dyn Fn(&str) -> Option<String>, filled: &mut Filled) {
    match value(name) {
        Some(value) => filled.text.push_str(&value),
        None => filled.missing.push(name.to_owned()),
    }
}

/// Replaces the text between braces.
fn braces(
    inner: &str,
    value: &dyn Fn(&str) -> Option<String>,
    filled: &mut Filled,
    depth: usize,
) -> Result<(), String> {
    let (name, rest) = inner.split_at(name_end(inner));
    if name.is_empty() {
        return Err(format!("{}: ${{…}} has no name", excerpt(inner)));
    }
    if rest.is_empty() {
        set(name, value, filled);
        return Ok(());
    }
    let is_filled_only = rest.starts_with(':');
    let rest = rest.strip_prefix(':').unwrap_or(rest);
    let found = value(name).filter(|value| !is_filled_only || !value.is_empty());
    let Some(operator) = rest.chars().next().filter(|c| "-?+".contains(*c)) else {
        return Err(format!("{} is not NAME, NAME:-DEFAULT or alike", excerpt(inner)));
    };
    let word = &rest[1..];
    match (operator, found) {
        ('-', Some(found)) | ('?', Some(found)) => filled.text.push_str(&found),
        ('+', None) => {}
        ('?', None) => return Err(format!("{name} has no value: {word}")),
        // The default, or the replacement of `+`, can have variables too.
        (_, _) => {
            let inner = fill_at(word, value, depth + 1)?;
            filled.text.push_str(&inner.text);
            filled.missing.extend(inner.missing);
        }
    }
    Ok(())
}
