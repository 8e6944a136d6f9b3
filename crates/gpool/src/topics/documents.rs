//! Documents of the repository as pages of help, which an installed gpool has.

/// Every flag of the commands of Slurm and gflow, and the public clients.
pub(super) fn compat() -> String {
    plain(COMPAT)
}

/// For users of Run:ai and KAI.
pub(super) fn runai() -> String {
    plain(include_str!("../../../../docs/using/from-runai-and-kai.md"))
}

pub(super) fn valohai() -> String {
    plain(include_str!("../../../../docs/using/valohai.md"))
}

const COMPAT: &str = include_str!("../../../../docs/using/compat.md");

/// A document for a terminal: without the targets of links, and with indented blocks of code.
fn plain(document: &str) -> String {
    let (mut text, mut is_code) = (String::new(), false);
    let mut rest = document;
    let mut linked = String::new();
    while let Some((before, target)) = rest.split_once("](") {
        // The text of a link has no other bracket.
        let (before, of_link) = before.rsplit_once('[').unwrap_or((before, ""));
        linked.extend([before, of_link]);
        rest = target.split_once(')').map_or("", |(_, rest)| rest);
    }
    linked.push_str(rest);
    for line in linked.lines() {
        match (line.starts_with("```"), is_code) {
            (true, _) => is_code = !is_code,
            (false, true) => text.extend(["  ", line, "\n"]),
            (false, false) => text.extend([line, "\n"]),
        }
    }
    text
}

/// The part of the page on compatibility about one command, such as `sbatch` or `gctl`.
#[must_use]
pub fn compat_of(command: &str) -> Option<String> {
    let heading = format!("### `{command}");
    let is_of = |part: &&str| {
        let rest = part.strip_prefix(&heading[4..]);
        rest.is_some_and(|rest| rest.starts_with(['`', ' ']))
    };
    let parts: String = COMPAT.split("\n### ").skip(1).filter(is_of).map(plain).collect();
    (!parts.is_empty()).then_some(parts)
}
