//! The string literals of a source file.

/// The string literals outside comments and outside the file's module of tests.
pub fn literals(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or(source);
    let chars: Vec<char> = source.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        at = match chars[at] {
            '/' if chars.get(at + 1) == Some(&'/') => end_of_line(&chars, at),
            '"' => {
                let (text, next) = quoted(&chars, at + 1);
                found.push(text);
                next
            }
            'r' if is_raw(&chars, at) => {
                let (text, next) = raw(&chars, at + 1);
                found.push(text);
                next
            }
            // A character literal; a lifetime has no quote after its first letter.
            '\'' if chars.get(at + 1) == Some(&'\\') => at + 4,
            '\'' if chars.get(at + 2) == Some(&'\'') => at + 3,
            _ => at + 1,
        };
    }
    found
}

fn end_of_line(chars: &[char], from: usize) -> usize {
    chars[from..].iter().position(|c| *c == '\n').map_or(chars.len(), |n| from + n)
}

fn is_raw(chars: &[char], at: usize) -> bool {
    let is_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    !is_word && chars[at + 1..].iter().find(|c| **c != '#') == Some(&'"')
}

/// The text from behind the quote, and the place behind its end.
fn quoted(chars: &[char], from: usize) -> (String, usize) {
    let (mut text, mut at) = (String::new(), from);
    while at < chars.len() && chars[at] != '"' {
        let is_escape = chars[at] == '\\';
        match chars.get(at + 1).filter(|_| is_escape) {
            None => text.push(chars[at]),
            Some('n') => text.push('\n'),
            // The next line goes on without its indentation.
            Some('\n') => {
                while chars.get(at + 2).is_some_and(|c| c.is_whitespace()) {
                    at += 1;
                }
            }
            Some(escaped) => text.push(*escaped),
        }
        at += if is_escape { 2 } else { 1 };
    }
    (text, at + 1)
}

/// The text of a raw literal, from its first `#` or quote, and the place behind its end.
fn raw(chars: &[char], from: usize) -> (String, usize) {
    let n_marks = chars[from..].iter().take_while(|c| **c == '#').count();
    let start = from + n_marks + 1;
    let is_end =
        |at: usize| chars[at] == '"' && chars[at + 1..].iter().take(n_marks).all(|c| *c == '#');
    let end = (start..chars.len()).find(|at| is_end(*at)).unwrap_or(chars.len());
    (chars[start..end].iter().collect(), end + n_marks + 1)
}

#[test]
fn literals_are_read_as_the_compiler_reads_them() {
    let source = r##"
        // "no" 'a
        let a = ("one\ttwo\" \
            three", '"', 'x', r#"raw "it" "#, '\'');
        fn f<'a>(b: &'a str) { var"four" }
        #[cfg(test)]
mod tests { "none" }"##;
    let found = literals(source);
    assert_eq!(found, ["onettwo\" three", "raw \"it\" ", "four"]);
}
