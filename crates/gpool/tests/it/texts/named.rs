//! The commands, flags, settings, topics and files that texts and documents name: each exists.

use clap::{Arg, Command};
use gpool::topics;
use gpool_cli::errors;
use gpool_compat::SHIMS;
use gpool_model::Policy;

use super::{Line, documents, help, literals, pages, parsers, root, shims, sources};
use crate::words::words;

/// Words that follow the name of the program in sentences that begin with it.
const SENTENCES: &[&str] = &[
    "adds",
    "allocates",
    "always",
    "builds",
    "checks",
    "chooses",
    "clones",
    "compares",
    "counts",
    "deletes",
    "does",
    "drains",
    "ends",
    "finds",
    "gives",
    "has",
    "holds",
    "imports",
    "installs",
    "keeps",
    "knows",
    "leaves",
    "lends",
    "limits",
    "makes",
    "mounts",
    "moves",
    "needs",
    "passes",
    "predicts",
    "prints",
    "reads",
    "reclaims",
    "refuses",
    "removes",
    "repeats",
    "requeues",
    "reserves",
    "restarts",
    "runs",
    "schedules",
    "sends",
    "sets",
    "shows",
    "starts",
    "stops",
    "stores",
    "takes",
    "uses",
    "waits",
    "writes",
];

/// Flags of other programs that texts name: of Slurm's plugins, of cargo, of Snakemake, and of
/// examples.
const FOREIGN: &[&str] = &[
    "uenv",
    "container-image",
    "locked",
    "path",
    "package",
    "lr",
    "bs",
    "epochs",
    "images",
    "rerun-incomplete",
];

/// The kinds of mentions of a command.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// A line or span of code in a document.
    Span,
    /// The beginning of a text or of a clause.
    Line,
    /// A part of a sentence.
    Prose,
}

struct Known {
    gpool: Command,
    lab: Command,
    flags: Vec<String>,
}

impl Known {
    fn new() -> Self {
        let [(_, gpool), (_, lab)] = parsers();
        let mut flags = Vec::new();
        for parser in [&gpool, &lab] {
            flags_below(parser, &mut flags);
        }
        for flag in SHIMS.iter().flat_map(|shim| shim.spoken).flat_map(|it| it.rows()) {
            flags.push(flag.long.to_owned());
            flags.extend(flag.also.iter().map(|it| (*it).to_owned()));
        }
        flags.extend(FOREIGN.iter().map(|it| (*it).to_owned()));
        Self { gpool, lab, flags }
    }

    /// Whether a command has the flag, as in `--gpus=2` or `-g2`.
    fn has(&self, command: &Command, flag: &str) -> bool {
        find(command, flag).or_else(|| find(&self.gpool, flag)).is_some()
    }

    /// The fault of a command line that begins behind the name of the program.
    fn fault(&self, line: &str, way: Way) -> Option<String> {
        let line = line.split("  ").next().unwrap_or_default();
        let all = words(&format!("gpool {line}"));
        let mut words = all.iter().skip(1);
        let mut command = &self.gpool;
        let mut n_words = 0;
        while let Some(word) = words.next() {
            let bare = word.trim_end_matches(['.', ',', ':', ')', ';', '`', ']', '\'']);
            let is_last = bare.len() < word.len() && !word.ends_with(']');
            if bare.starts_with(['[', '<', '{']) || bare == "--" || bare.contains('…') {
                return None;
            }
            if bare.len() > 1 && bare.starts_with('-') && !bare[1..].starts_with(is_digit) {
                if !self.has(command, bare) {
                    return Some(format!("{} has no {bare}", command.get_name()));
                }
                if !is_last && find(command, bare).is_some_and(|arg| has_value_behind(arg, bare)) {
                    words.next();
                }
            } else if let Some(below) = command.find_subcommand(bare) {
                command = self.own(below);
            } else if n_words == 0 {
                let is_word =
                    !bare.is_empty() && bare.chars().all(|c| c.is_lowercase() || c == '-');
                let is_free = way == Way::Prose || way == Way::Line && SENTENCES.contains(&bare);
                return (is_word && !is_free).then(|| format!("there is no command {bare}"));
            } else {
                if let Some(fault) = value_fault(command, bare) {
                    return Some(fault);
                }
                let is_word = bare.chars().all(char::is_lowercase);
                let takes = command.get_positionals().next();
                let ends =
                    takes.is_none_or(Arg::is_trailing_var_arg_set) || command.get_name() == "help";
                if way == Way::Span && takes.is_none() {
                    return Some(format!("{} takes no {bare}", command.get_name()));
                }
                if ends || way == Way::Prose && is_word {
                    return None;
                }
            }
            if is_last && way != Way::Span {
                return None;
            }
            n_words += 1;
        }
        None
    }

    /// The parser of gpool-lab for what it runs.
    fn own<'c>(&'c self, command: &'c Command) -> &'c Command {
        match command.get_name() {
            "bench" | "replay" => self.lab.find_subcommand(command.get_name()),
            "scenarios" | "packing" => self.lab_simulate().find_subcommand(command.get_name()),
            "queue" if command.is_disable_help_flag_set() => {
                self.lab_simulate().find_subcommand("queue")
            }
            _ => None,
        }
        .unwrap_or(command)
    }

    fn lab_simulate(&self) -> &Command {
        self.lab.find_subcommand("simulate").unwrap()
    }
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

fn flags_below(command: &Command, flags: &mut Vec<String>) {
    for argument in command.get_arguments() {
        flags.extend(argument.get_long().map(str::to_owned));
        flags.extend(argument.get_all_aliases().into_iter().flatten().map(str::to_owned));
    }
    command.get_subcommands().for_each(|below| flags_below(below, flags));
}

/// The argument of a written flag.
fn find<'c>(command: &'c Command, flag: &str) -> Option<&'c Arg> {
    let is_it = |argument: &&Arg| match flag.strip_prefix("--") {
        Some(long) => {
            let long = long.split(['=', '[']).next().unwrap_or_default();
            argument.get_long() == Some(long)
                || argument.get_all_aliases().is_some_and(|all| all.contains(&long))
        }
        None => argument.get_short().is_some_and(|short| flag[1..].starts_with(short)),
    };
    command.get_arguments().find(is_it)
}

fn has_value_behind(argument: &Arg, flag: &str) -> bool {
    let takes = argument.get_action().takes_values() && !argument.is_require_equals_set();
    takes && !flag.contains('=') && (flag.starts_with("--") || flag.len() == 2)
}

/// The fault of an argument that names a setting or a page of help.
fn value_fault(command: &Command, word: &str) -> Option<String> {
    match command.get_name() {
        "set" => {
            let (key, value) = word.split_once('=')?;
            let is_placeholder = |text: &str| text.chars().all(|c| c.is_uppercase() || c == '…');
            if is_placeholder(key) || is_placeholder(value) {
                return None;
            }
            Policy::of_new_server().set(key, value).err().map(|error| error.to_string())
        }
        "help" if word != "needs" => {
            let is_page = topics::text(word).is_some() || ["topics", "codes"].contains(&word);
            let is_known = is_page
                || errors::find(word).is_some()
                || word.chars().all(char::is_uppercase)
                || parsers()[0].1.find_subcommand(word).is_some();
            (!is_known).then(|| format!("there is no help on {word}"))
        }
        _ => None,
    }
}

/// What follows each mention of the program as a command.
fn mentions(text: &str) -> impl Iterator<Item = (Way, &str)> {
    text.match_indices("gpool ").filter_map(|(at, name)| {
        let before = text[..at].trim_end_matches(['\'', '"', '(']);
        let rest = &text[at + name.len()..];
        let is_code = before.trim().is_empty()
            || before.trim_end().ends_with([':', ';', '|', '`', '$'])
            || before.ends_with("&& ");
        let is_word = before.is_empty() || before.ends_with([' ', '`', '$', '(']);
        let way = if is_code { Way::Line } else { Way::Prose };
        (is_word && !rest.starts_with(' ')).then_some((way, rest))
    })
}

/// The lines of code of a document, and its code spans.
fn code(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_block = false;
    let text = text.replace("\\\n", " ");
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            let line = line.trim_start().trim_start_matches("$ ");
            found.extend(line.starts_with("gpool ").then(|| line.to_owned()));
        }
    }
    let mut in_block = false;
    let prose = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        !is_fence && !in_block
    });
    let prose = prose.collect::<Vec<_>>().join("\n");
    let spans = prose.split('`').skip(1).step_by(2);
    found.extend(spans.map(|span| span.replace("\\|", "|").replace('\n', " ")));
    found
}

fn all_texts() -> Vec<Line> {
    let sources = sources().into_iter().flat_map(|folder| literals(&folder));
    help().into_iter().chain(pages()).chain(shims()).chain(sources).collect()
}

#[test]
fn wrong_names_are_found() {
    let known = Known::new();
    for (line, fault) in [
        ("queeu", "there is no command queeu"),
        ("queue --filer state=free", "queue has no --filer"),
        ("submit --after 17 --checkpoint USR1 a.sh", "submit has no --checkpoint"),
        ("simulate queue --tracce jobs.csv", "queue has no --tracce"),
        ("policy set plans=2", "plans: there is no such setting"),
        ("policy set --preset fair order=size", "order: "),
        ("reserve drop r1", "reserve takes no drop"),
        ("help nothing", "there is no help on nothing"),
    ] {
        let found = known.fault(line, Way::Span).unwrap_or_default();
        assert!(found.starts_with(fault), "{line}: {found}");
    }
    for line in [
        "run -g2 --time 1h -- python --lr 1",
        "policy set escalate_after=2h pool.batch=fifo",
        "project edit PROJECT --jobs-limit {limit}",
        "extend 17 +30m",
        "prio -5 17",
        "bench --only start",
        "help GP0412",
    ] {
        assert_eq!(known.fault(line, Way::Span), None, "{line}");
    }
    assert!(flag_fault(&known, "--checkpoint").is_some());
    assert!(flag_fault(&known, "--checkpointable=TERM").is_none());
}

#[test]
fn commands_in_texts_exist() {
    let known = Known::new();
    let mut faults = Vec::new();
    for line in all_texts() {
        for (way, rest) in mentions(&line.text) {
            let fault = known.fault(rest, way);
            faults.extend(fault.map(|it| format!("{}: {it}: {}", line.place, line.text.trim())));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn commands_and_flags_in_documents_exist() {
    let known = Known::new();
    let mut faults = Vec::new();
    for (place, text) in documents() {
        for code in code(&text) {
            let fault = match code.strip_prefix("gpool ") {
                Some(rest) => known.fault(rest, Way::Span),
                None => flag_fault(&known, &code),
            };
            faults.extend(fault.map(|it| format!("{place}: {it}: {code}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The fault of a code span that begins with a long flag.
fn flag_fault(known: &Known, span: &str) -> Option<String> {
    let flag = span.strip_prefix("--")?.split(['=', ' ', '[', ']', ',']).next()?;
    let is_word = flag.starts_with(|c: char| c.is_lowercase());
    let is_known = !is_word || known.flags.iter().any(|it| it == flag);
    (!is_known).then(|| format!("no command has --{flag}"))
}

#[test]
fn flags_in_texts_exist() {
    let known = Known::new();
    let mut faults = Vec::new();
    let sources = ["gpool", "verbs"].map(|name| literals(&format!("crates/{name}/src")));
    for line in help().into_iter().chain(pages()).chain(sources.into_iter().flatten()) {
        for word in line.text.split_whitespace() {
            let fault = flag_fault(&known, word.trim_matches(['(', ')', '.', ',', ';', ':', '\'']));
            faults.extend(fault.map(|it| format!("{}: {it}: {}", line.place, line.text.trim())));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn files_in_texts_and_documents_exist() {
    let mut faults = Vec::new();
    let documents = documents();
    let documents = documents.iter().flat_map(|(place, text)| super::lines(place, text));
    let texts: Vec<Line> = documents.chain(all_texts()).collect();
    for line in texts {
        for word in line.text.split(|c: char| !(c.is_alphanumeric() || "/._-*{}".contains(c))) {
            let path = word.trim_end_matches(['.', '/', '-']);
            // A part in capitals stands for any name.
            let is_name = |part: &str| part.chars().all(char::is_uppercase);
            if path.split('/').any(|part| !part.is_empty() && is_name(part)) {
                continue;
            }
            let is_here = ["docs/", "crates/", "testing/", "xtask/", "fuzz/"].iter().any(|it| {
                path.starts_with(it) && path.len() > it.len() && !path.contains(['*', '{'])
            });
            if is_here && !root().join(path).exists() {
                faults.push(format!("{}: there is no {path}: {}", line.place, line.text.trim()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
