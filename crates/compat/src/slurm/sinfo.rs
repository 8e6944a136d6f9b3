//! `sinfo`: lists nodes, grouped by state.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::Standing::{Approximated, Covered, Ignored, Instead};
use gpool_cli::foreign::flag::Takes::{Nothing, Value};
use gpool_cli::foreign::flag::{Flag, Said, Spoken, row};
use gpool_cli::render::safe::safe;
use gpool_cli::session::Session;
use gpool_wire::{Gpu, Node};

use super::letters::{Letters, letters};
use crate::shim::{interval, print_every, read, say_ignored};

static FLAGS: &[Flag] = &[
    row("Node", 'N', Nothing, Covered, "one node a line"),
    row("all", 'a', Nothing, Covered, "there are no hidden partitions"),
    row("clusters", 'M', Value, Ignored, "a server has one cluster"),
    row("dead", 'd', Nothing, Covered, "only nodes that do not answer"),
    row("exact", 'e', Nothing, Ignored, "nodes are only grouped by state"),
    row("federation", '\0', Nothing, Ignored, "a server has one cluster"),
    row("format", 'o', Value, Approximated, "%P %a %l %D %t %T %N %n %c %C %m %e %G %E"),
    row(
        "Format",
        'O',
        Value,
        Approximated,
        "NodeList,Partition,StateLong,CPUsState,Gres,GresUsed,…",
    ),
    row("hide", '\0', Nothing, Covered, "there are no hidden partitions"),
    row("iterate", 'i', Value, Covered, "repeats after N seconds"),
    row("json", '\0', Nothing, Instead, "gpool nodes --json, with the keys of gpool"),
    row("list-reasons", 'R', Nothing, Instead, "gpool nodes"),
    row("local", '\0', Nothing, Covered, "a server has one cluster"),
    row("long", 'l', Nothing, Covered, "more columns"),
    row("noconvert", '\0', Nothing, Ignored, "memory is in MB"),
    row("nodes", 'n', Value, Covered, "only these nodes"),
    row("noheader", 'h', Nothing, Covered, "no heads"),
    row("partition", 'p', Value, Covered, "only these pools"),
    row("reservation", 'T', Nothing, Instead, "gpool reserve list"),
    row("responding", 'r', Nothing, Covered, "only nodes that answer"),
    row("sort", 'S', Value, Ignored, "lines are sorted by pool and state"),
    row("states", 't', Value, Covered, "only nodes in these states"),
    row("summarize", 's', Nothing, Covered, "counts of nodes by state"),
    row("usage", '\0', Nothing, Instead, "--help"),
    row("verbose", 'v', Nothing, Ignored, "gpool -v prints more"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
    row("yaml", '\0', Nothing, Instead, "gpool nodes --json, with the keys of gpool"),
];

/// `sinfo`.
pub static SPOKEN: Spoken =
    Spoken { name: "sinfo", about: "List nodes of gpool", flags: &[FLAGS], words: "" };

const LETTERS: Letters =
    Letters { command: "sinfo", known: "%P %R %a %l %D %F %t %T %N %n %c %C %m %e %G %E %f" };

const USUAL: &str = "%#P %.5a %.10l %.6D %.6t %N";
const BY_NODE: &str = "%#N %.6D %#P %6t";
const LONG: &str = "%#P %.5a %.10l %.6D %.11T %.4c %.8m %N";
const SUMMARY: &str = "%#P %.5a %.10l %.16F %N";

/// The nodes of one pool in one state.
struct Group<'n> {
    pool: String,
    state: &'static str,
    nodes: Vec<&'n Node>,
    gpus: &'n [Gpu],
}

/// Runs the command.
///
/// # Errors
/// A flag is not valid, or the server can't be asked.
pub fn run(words: &[String], session: &Session) -> Result {
    let Some(said) = read(&SPOKEN, words, session)? else { return Ok(Exit::OK) };
    say_ignored(&said, session);
    let format = match (said.value("Format"), said.value("format")) {
        (Some(names), _) => by_names(names)?,
        (None, Some(format)) => format.to_owned(),
        (None, None) if said.has("summarize") => SUMMARY.to_owned(),
        (None, None) if said.has("long") => LONG.to_owned(),
        (None, None) if said.has("Node") => BY_NODE.to_owned(),
        (None, None) => USUAL.to_owned(),
    };
    let every = said.value("iterate").map(|every| interval(every, "--iterate")).transpose()?;
    print_every(every, session, || text(&said, &format, session))
}

fn text(said: &Said, format: &str, session: &Session) -> Result<String> {
    let client = session.client()?;
    let (nodes, gpus) = (client.nodes()?.items, client.gpus()?.items);
    let letters = letters(format);
    let one_each = said.has("Node") || letters.iter().any(|letter| OF_ONE.contains(letter));
    let groups = grouped(&nodes, &gpus, said, one_each, said.has("summarize"));
    let width_of = |letter: char| -> usize {
        let texts = groups.iter().map(|group| cell(letter, group).map_or(0, |text| text.len()));
        texts.max().unwrap_or(0).max(head(letter).map_or(0, str::len))
    };
    let mut text = String::new();
    if said.has("iterate") {
        let _ = writeln!(text, "{}", session.screen.clock.full(session.view().now));
    }
    if !said.has("noheader") {
        LETTERS.line(&mut text, format, width_of, |letter| head(letter).map(str::to_owned))?;
    }
    for group in &groups {
        LETTERS.line(&mut text, format, width_of, |letter| cell(letter, group))?;
    }
    if said.has("iterate") {
        text.push('\n');
    }
    Ok(text)
}

/// Letters of fields that differ between nodes.
const OF_ONE: [char; 6] = ['n', 'c', 'e', 'C', USED_GRES, USED_MEMORY];

/// Internal letters of fields that only `--Format` names.
const USED_GRES: char = '\u{1}';
const USED_MEMORY: char = '\u{2}';

/// The names of `--Format`, with their letters.
const NAMES: [(&str, char); 25] = [
    ("AllocMem", USED_MEMORY),
    ("All", 'P'),
    ("Available", 'a'),
    ("CPUs", 'c'),
    ("CPUsState", 'C'),
    ("Features", 'f'),
    ("Features_act", 'f'),
    ("FreeMem", 'e'),
    ("Gres", 'G'),
    ("GresUsed", USED_GRES),
    ("Memory", 'm'),
    ("NodeAddr", 'n'),
    ("NodeAI", 'F'),
    ("NodeAIOT", 'F'),
    ("NodeHost", 'n'),
    ("NodeList", 'N'),
    ("Nodes", 'D'),
    ("Partition", 'P'),
    ("PartitionName", 'R'),
    ("Reason", 'E'),
    ("State", 'T'),
    ("StateCompact", 't'),
    ("StateComplete", 'T'),
    ("StateLong", 'T'),
    ("Time", 'l'),
];

/// Converts `NodeList:30,Gres:.20` to letters; the default width is 20.
fn by_names(names: &str) -> Result<String> {
    let mut format = String::new();
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let (name, width) = name.split_once(':').unwrap_or((name, "20"));
        let known = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let Some((_, letter)) = known else {
            let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            return Err(Failure::new(
                errors::BAD_COLUMN,
                format!("sinfo of gpool has no {name:?}"),
            )
            .why(format!("the choices are {}", known.join(", "))));
        };
        let is_right = width.starts_with('.');
        let width = width.trim_start_matches('.').parse().unwrap_or(20).clamp(1, 1000);
        let _ = write!(format, "%{}{width}{letter}", if is_right { "." } else { "" });
    }
    Ok(format)
}

fn state(node: &Node) -> &'static str {
    let n_busy = node.n_gpus.saturating_sub(node.n_gpus_free).saturating_sub(node.n_gpus_closed);
    match () {
        () if !node.connected => "down*",
        () if node.drain.is_some() && node.tasks_used > 0 => "drng",
        () if node.drain.is_some() => "drain",
        () if node.n_gpus > 0 && node.n_gpus_closed == node.n_gpus => "drain",
        () if n_busy > 0 && node.n_gpus_free == 0 => "alloc",
        () if n_busy > 0 || node.tasks_used > 0 => "mix",
        () => "idle",
    }
}

fn long_state(short: &'static str) -> &'static str {
    match short {
        "alloc" => "allocated",
        "drng" => "draining",
        "drain" => "drained",
        "mix" => "mixed",
        other => other,
    }
}

/// The state of a node in a word.
pub fn state_long(node: &Node) -> &'static str {
    long_state(state(node))
}

fn grouped<'n>(
    nodes: &'n [Node],
    gpus: &'n [Gpu],
    said: &Said,
    one_each: bool,
    whole: bool,
) -> Vec<Group<'n>> {
    let wanted = |long: &'static str, values: &[&str]| {
        let mut list = said.list(long).peekable();
        list.peek().is_none()
            || list.any(|wanted| values.iter().any(|value| wanted.eq_ignore_ascii_case(value)))
    };
    let mut groups: BTreeMap<(String, &str, &str), Group<'n>> = BTreeMap::new();
    for node in nodes {
        let state = state(node);
        let is_meant = wanted("nodes", &[&node.name])
            && wanted("partition", &[&node.pool])
            && wanted("states", &[state.trim_end_matches('*'), long_state(state)])
            && (!said.has("dead") || !node.connected)
            && (!said.has("responding") || node.connected);
        if !is_meant {
            continue;
        }
        let of = (
            node.pool.clone(),
            if whole { "" } else { state },
            if one_each { node.name.as_str() } else { "" },
        );
        let new = || Group { pool: node.pool.clone(), state, nodes: Vec::new(), gpus };
        groups.entry(of).or_insert_with(new).nodes.push(node);
    }
    groups.into_values().collect()
}

fn head(letter: char) -> Option<&'static str> {
    Some(match letter {
        'P' | 'R' => "PARTITION",
        'a' => "AVAIL",
        'l' => "TIMELIMIT",
        'D' => "NODES",
        'F' => "NODES(A/I/O/T)",
        't' | 'T' => "STATE",
        'N' => "NODELIST",
        'n' => "HOSTNAMES",
        'c' => "CPUS",
        'C' => "CPUS(A/I/O/T)",
        'm' => "MEMORY",
        'e' => "FREE_MEM",
        'G' => "GRES",
        USED_GRES => "GRES_USED",
        USED_MEMORY => "ALLOCMEM",
        'E' => "REASON",
        'f' => "AVAIL_FEATURES",
        _ => return None,
    })
}

fn cell(letter: char, group: &Group<'_>) -> Option<String> {
    let first = group.nodes.first()?;
    let names: Vec<&str> = group.nodes.iter().map(|node| node.name.as_str()).collect();
    Some(match letter {
        'P' if group.pool == "default" => "default*".to_owned(),
        'P' | 'R' => group.pool.clone(),
        'a' => "up".to_owned(),
        'l' => "infinite".to_owned(),
        'D' => group.nodes.len().to_string(),
        'F' => {
            let n = |states: &[&str]| {
                group.nodes.iter().filter(|node| states.contains(&state(node))).count()
            };
            let counts = [
                n(&["alloc", "mix"]),
                n(&["idle"]),
                n(&["down*", "drain", "drng"]),
                group.nodes.len(),
            ];
            counts.map(|count| count.to_string()).join("/")
        }
        't' => group.state.to_owned(),
        'T' => long_state(group.state).to_owned(),
        'N' => names.join(","),
        'n' => first.name.clone(),
        'c' => first.cpus.to_string(),
        'C' => {
            let idle = first.cpus - first.cpus_used;
            format!("{}/{idle}/0/{}", first.cpus_used, first.cpus)
        }
        'm' => (first.memory >> 20).to_string(),
        'e' => (first.memory.saturating_sub(first.memory_used) >> 20).to_string(),
        'G' => gres(group.gpus, first, |_| true),
        USED_GRES => gres(group.gpus, first, |gpu| gpu.job.is_some()),
        USED_MEMORY => (first.memory_used >> 20).to_string(),
        'E' => {
            let reason = first.drain.as_ref().map(|drain| safe(&drain.reason).into_owned());
            let closed = (first.n_gpus_closed > 0).then(|| "gpu_not_allowed".to_owned());
            reason.or(closed).unwrap_or_else(|| "none".to_owned())
        }
        'f' => "(null)".to_owned(),
        _ => return None,
    })
}

/// The GPUs of a node that `counts_as` accepts, by model: `gpu:h100-80g:4`.
pub fn gres(gpus: &[Gpu], node: &Node, counts_as: impl Fn(&Gpu) -> bool) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for gpu in gpus.iter().filter(|gpu| gpu.node == node.name) {
        *counts.entry(gpu.model_short.to_ascii_lowercase()).or_default() +=
            usize::from(counts_as(gpu));
    }
    if counts.is_empty() {
        return "(null)".to_owned();
    }
    counts.iter().map(|(model, n)| format!("gpu:{model}:{n}")).collect::<Vec<_>>().join(",")
}
