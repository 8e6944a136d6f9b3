//! The code of a Rust file with comments, strings and characters replaced by spaces, so that braces
//! and names in them do not count. Line numbers stay the same.

/// The code of a file; spaces in place of all other characters.
pub fn only(text: &str) -> String {
    let mut from: Vec<char> = text.chars().collect();
    from.push('\n');
    let mut to = String::with_capacity(text.len());
    let mut at = 0;
    while at < from.len() - 1 {
        let end = match (from[at], from[at + 1]) {
            ('/', '/') => find(&from, at, |at| from[at] == '\n'),
            ('/', '*') => end_of_comment(&from, at),
            ('"', _) => end_of_text(&from, at + 1),
            ('r', '"' | '#') if !is_in_name(&from, at) => end_of_raw(&from, at + 1),
            ('\'', '\\') => find(&from, at + 3, |at| from[at] == '\'') + 1,
            ('\'', _) if from.get(at + 2) == Some(&'\'') => at + 3,
            _ => at,
        };
        if end == at {
            to.push(from[at]);
            at += 1;
        } else {
            let end = end.min(from.len() - 1);
            to.extend(from[at..end].iter().map(|it| if *it == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    to
}

/// The first position from `at` on where `holds` is true, or the end.
fn find(text: &[char], at: usize, holds: impl Fn(usize) -> bool) -> usize {
    (at..text.len()).find(|at| holds(*at)).unwrap_or(text.len())
}

/// Whether a character continues a name. A `b` before a raw string is not part of a name.
fn is_in_name(text: &[char], at: usize) -> bool {
    let is_name = |at: usize| text[at].is_alphanumeric() || text[at] == '_';
    match at.checked_sub(1) {
        None => false,
        Some(before) if text[before] == 'b' => before.checked_sub(1).is_some_and(is_name),
        Some(before) => is_name(before),
    }
}

fn end_of_comment(text: &[char], begin: usize) -> usize {
    let (mut depth, mut at) = (0, begin);
    while at + 1 < text.len() {
        match (text[at], text[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') if depth == 1 => return at + 2,
            ('*', '/') => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    text.len()
}

fn end_of_text(text: &[char], begin: usize) -> usize {
    let mut at = begin;
    while at < text.len() && text[at] != '"' {
        at += if text[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// The end of a raw string after its `r`; the start itself if this is no raw string.
fn end_of_raw(text: &[char], begin: usize) -> usize {
    let quote = find(text, begin, |at| text[at] != '#');
    if text.get(quote) != Some(&'"') {
        return begin - 1;
    }
    let n_marks = quote - begin;
    let is_end = |at: usize| {
        text[at] == '"' && text[at + 1..].iter().take_while(|it| **it == '#').count() >= n_marks
    };
    find(text, quote + 1, is_end) + 1 + n_marks
}

/// The position after the brace that closes the one at `open`.
pub fn end_of_block(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return at + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// A name or a mark of code; all marks but `::` are single characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    Name(&'a str),
    /// `::`
    Path,
    Mark(char),
}

/// The names and marks of code, each with its position.
pub fn tokens(code: &str) -> Vec<(usize, Token<'_>)> {
    let mut found = Vec::new();
    let mut rest = code.char_indices().peekable();
    let is_name = |it: char| it.is_alphanumeric() || it == '_';
    while let Some((begin, first)) = rest.next() {
        if is_name(first) {
            let mut end = begin + first.len_utf8();
            while let Some((at, it)) = rest.next_if(|(_, it)| is_name(*it)) {
                end = at + it.len_utf8();
            }
            found.push((begin, Token::Name(&code[begin..end])));
        } else if first == ':' && rest.next_if(|(_, it)| *it == ':').is_some() {
            found.push((begin, Token::Path));
        } else if !first.is_whitespace() {
            found.push((begin, Token::Mark(first)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_no_code() {
        let text = "a // {\n/* { /* { */ } */ b \"}\\\"{\" c r#\"\"{\"# d '{' e '\\'' 'f b\"{\" g";
        let code = only(text);
        assert_eq!(code.split_whitespace().collect::<String>(), "abcde'fbg");
        assert_eq!(code.lines().count(), text.lines().count());
    }

    #[test]
    fn names_that_end_in_r_are_no_raw_strings() {
        assert_eq!(only("for#x r#type"), "for#x r#type");
        assert_eq!(only("br\"{\" x").trim(), "b     x".trim());
    }

    #[test]
    fn a_block_ends_with_its_own_brace() {
        assert_eq!(end_of_block("f { a { } } }", 2), 11);
    }
}
