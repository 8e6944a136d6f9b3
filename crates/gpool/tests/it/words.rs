//! Command lines as a shell reads them.

/// The words of the first command of gpool in a line: quotes are removed, and the command ends at
/// an operator of the shell.
pub fn words(line: &str) -> Vec<String> {
    let line = line.split_once("gpool ").map_or(line, |(_, rest)| rest);
    let mut words = vec!["gpool".to_owned()];
    let (mut word, mut quote, mut is_word) = (String::new(), None, false);
    for c in line.chars().chain([' ']) {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => word.push(c),
            None if c == '\'' || c == '"' => (quote, is_word) = (Some(c), true),
            None if c == ' ' => {
                if ["|", "||", "&&", ">", ";", "<"].contains(&&*word) {
                    break;
                }
                if is_word {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            None => {
                word.push(c);
                is_word = true;
            }
        }
    }
    if let Some(last) = words.last_mut().filter(|last| last.ends_with(')') || last.ends_with(';')) {
        last.pop();
    }
    words
}

#[test]
fn a_line_is_split_as_by_a_shell() {
    assert_eq!(words("  gpool a 'b c' \"\" d=e | f"), ["gpool", "a", "b c", "", "d=e"]);
    assert_eq!(words("source <(gpool completion bash)"), ["gpool", "completion", "bash"]);
}
