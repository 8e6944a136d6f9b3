//! Splits a command line into words as a shell does, without expansions.

/// The words; `None` if a quote is not closed.
pub(crate) fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match char {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        char => word.push(char),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '\\' => match chars.next()? {
                            char @ ('"' | '\\' | '$' | '`') => word.push(char),
                            '\n' => {}
                            char => word.extend(['\\', char]),
                        },
                        char => word.push(char),
                    }
                }
            }
            '\\' => match chars.next()? {
                '\n' => {}
                char => word.get_or_insert_default().push(char),
            },
            char => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    Some(words)
}
