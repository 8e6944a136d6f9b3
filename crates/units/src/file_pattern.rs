//! The `%` patterns in paths of a job's files: `train-%j.out`, `%A_%04a.log`.

/// The values of the patterns.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileNames<'a> {
    /// `%j` and `%J`: the job, or the element of an array.
    pub job: &'a str,
    /// `%A`: the number of the job.
    pub number: &'a str,
    /// `%a`, and its last digit for `%b`: the index in the array; 0 without one.
    pub element: u32,
    /// `%x`: the name of the job.
    pub name: &'a str,
    /// `%u`: the user.
    pub user: &'a str,
    /// `%N`: the node.
    pub node: &'a str,
    /// `%t`: the rank of the task.
    pub rank: u32,
}

/// Most digits that a width pads to, as in Slurm.
const WIDTH_MAX: usize = 10;

impl FileNames<'_> {
    /// Fills in the patterns of a path. Numbers are padded with zeros to the width before the
    /// letter: `%4a` is `0007`. Unknown patterns stay as they are, and `%%` is `%`.
    #[must_use]
    pub fn fill(&self, path: &str) -> String {
        let mut filled = String::with_capacity(path.len());
        let mut rest = path.chars();
        while let Some(c) = rest.next() {
            if c != '%' {
                filled.push(c);
                continue;
            }
            let after = rest.as_str();
            let width = after.bytes().take_while(u8::is_ascii_digit).count();
            rest = after[width..].chars();
            let letter = rest.next();
            match letter.and_then(|letter| self.value(letter)) {
                Some(value) => {
                    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
                    let width = if is_number { &after[..width] } else { "0" };
                    let width = match width {
                        "" => 0,
                        // A number that is too large to be read is larger than the maximum, too.
                        width => width.parse().unwrap_or(WIDTH_MAX).min(WIDTH_MAX),
                    };
                    filled.push_str(&format!("{value:0>width$}"));
                }
                None => {
                    filled.push('%');
                    filled.push_str(&after[..width]);
                    filled.extend(letter);
                }
            }
        }
        filled
    }

    fn value(&self, letter: char) -> Option<String> {
        // A name is one component of the path, even if it has slashes.
        let part = |text: &str| text.replace('/', "_");
        Some(match letter {
            'j' | 'J' => self.job.to_owned(),
            'A' => self.number.to_owned(),
            'a' => self.element.to_string(),
            'b' => (self.element % 10).to_string(),
            'x' => part(self.name),
            'u' => part(self.user),
            'N' => part(self.node),
            't' => self.rank.to_string(),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }
}

/// Whether a path has a pattern with one of the letters: `%a` and `%04a`, and not `%%a`.
#[must_use]
pub fn has_pattern(path: &str, letters: &[char]) -> bool {
    let mut rest = path.split('%').skip(1);
    while let Some(after) = rest.next() {
        let letter = after.trim_start_matches(|c: char| c.is_ascii_digit()).chars().next();
        match letter {
            // Two signs in a row stand for one: the text after the second is no pattern.
            None if after.is_empty() => drop(rest.next()),
            Some(letter) if letters.contains(&letter) => return true,
            _ => {}
        }
    }
    false
}
