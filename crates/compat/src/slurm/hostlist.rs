//! Lists of nodes in Slurm's form, `lab[1-3,7],gpu1`: expands and compresses them.

/// Most names that a range expands to.
const NAMES_MAX: usize = 100_000;

/// Expands `lab[1-3,7],gpu1`.
#[must_use]
pub fn expanded(list: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in parts(list) {
        let Some((before, rest)) = part.split_once('[') else {
            found.push(part.to_owned());
            continue;
        };
        let (ranges, after) = rest.split_once(']').unwrap_or((rest, ""));
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let width = first.len();
            let bounds = (first.parse::<u32>(), last.parse::<u32>());
            match bounds {
                (Ok(first), Ok(last)) => found.extend(
                    (first..=last).take(NAMES_MAX).map(|n| format!("{before}{n:0width$}{after}")),
                ),
                _ => found.push(format!("{before}{range}{after}")),
            }
        }
    }
    found
}

/// Splits at commas outside of brackets.
pub fn parts(word: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    let is_end = |c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    word.split(is_end).filter(|part| !part.is_empty()).collect()
}

/// Compresses names in their order: `lab-1,lab-2,lab-4` to `lab-[1-2,4]`. Neighbours with the same
/// beginning share brackets.
#[must_use]
pub fn compressed<S: AsRef<str>>(names: &[S]) -> String {
    let names: Vec<Name<'_>> = names.iter().map(|name| Name::of(name.as_ref())).collect();
    let groups = names.chunk_by(|one, next| one.number.is_some() && one.is_beside(next));
    let texts = groups.map(|group| match group {
        [one] => format!("{}{}", one.before, one.digits),
        _ => format!("{}[{}]", group[0].before, ranges(group)),
    });
    texts.collect::<Vec<_>>().join(",")
}

/// Sorts names by their beginning and their number.
pub fn sort(names: &mut [String]) {
    names.sort_by(|a, b| {
        let (a, b) = (Name::of(a), Name::of(b));
        (a.before, a.number, a.digits).cmp(&(b.before, b.number, b.digits))
    });
}

/// A name that ends with a number, or another name.
struct Name<'n> {
    before: &'n str,
    digits: &'n str,
    number: Option<u64>,
}

impl<'n> Name<'n> {
    fn of(name: &'n str) -> Self {
        let before = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &name[before.len()..];
        Self { before, digits, number: digits.parse().ok() }
    }

    /// Whether brackets can hold both numbers.
    fn is_beside(&self, next: &Self) -> bool {
        next.number.is_some() && self.before == next.before
    }

    /// Whether the other number is the next one, in the same number of digits.
    fn is_before(&self, next: &Self) -> bool {
        let is_padded = |name: &Self| name.digits.len() > 1 && name.digits.starts_with('0');
        let has_same_width = self.digits.len() == next.digits.len();
        next.number == self.number.map(|number| number.saturating_add(1))
            && (has_same_width || !is_padded(self) && !is_padded(next))
    }
}

fn ranges(group: &[Name<'_>]) -> String {
    let runs = group.chunk_by(Name::is_before).map(|run| match run {
        [one] => one.digits.to_owned(),
        [first, .., last] => format!("{}-{}", first.digits, last.digits),
        [] => String::new(),
    });
    runs.collect::<Vec<_>>().join(",")
}
