//! `sinfo`: lists nodes, grouped by state.

use std::fmt::Write as _;

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::FlagSupport::{Covered, Ignored, Instead};
use gpool_cli::foreign::flag::Takes::{Maybe, Nothing, Value};
use gpool_cli::foreign::flag::{Flag, ParsedArgs, Spoken, row};
use gpool_cli::render::list::natural;
use gpool_cli::session::Session;
use gpool_wire::{Gpu, Node};

use super::format::Format;
use super::hostlist::expanded;
use super::json::{Parser, command_line};
use super::node_cells::GroupColumn::{Each, Sum};
use super::node_cells::{self, GroupColumn, One};
use super::sinfo_columns::COLUMNS;
use super::{json_nodes, scontrol_more};
use crate::shim::{interval, print, print_every, read, say_ignored};

static FLAGS: &[Flag] = &[
    row("Node", 'N', Nothing, Covered, "one node a line"),
    row("all", 'a', Nothing, Covered, "there are no hidden partitions"),
    row("clusters", 'M', Value, Ignored, "a server has one cluster"),
    row("dead", 'd', Nothing, Covered, "only nodes that do not answer"),
    row("exact", 'e', Nothing, Ignored, "nodes are only grouped by state"),
    row("federation", '\0', Nothing, Ignored, "a server has one cluster"),
    row("format", 'o', Value, Covered, "all letters of Slurm, with widths"),
    row("Format", 'O', Value, Covered, "all names of Slurm; NodeList:10 or NodeList:|"),
    row("helpFormat", '\0', Nothing, Covered, "lists the names of --Format"),
    row("helpformat", '\0', Nothing, Covered, "lists the letters of --format"),
    row("hide", '\0', Nothing, Covered, "there are no hidden partitions"),
    row("iterate", 'i', Value, Covered, "repeats after N seconds"),
    row("json", '\0', Maybe, Covered, "in the form of data_parser/v0.0.41, or $GPOOL_DATA_PARSER"),
    row("list-reasons", 'R', Nothing, Covered, "nodes that are drained or do not answer, and why"),
    row("local", '\0', Nothing, Covered, "a server has one cluster"),
    row("long", 'l', Nothing, Covered, "more columns"),
    row("noconvert", '\0', Nothing, Ignored, "memory is in MB"),
    row("nodes", 'n', Value, Covered, "only these nodes"),
    row("noheader", 'h', Nothing, Covered, "no heads"),
    row("partition", 'p', Value, Covered, "only these pools"),
    row("reservation", 'T', Nothing, Covered, "reservations"),
    row("responding", 'r', Nothing, Covered, "only nodes that answer"),
    row("sort", 'S', Value, Covered, "letters of --format; - before one reverses it"),
    row("states", 't', Value, Covered, "only nodes in these states"),
    row("summarize", 's', Nothing, Covered, "counts of nodes by state"),
    row("usage", '\0', Nothing, Instead, "--help"),
    row("verbose", 'v', Nothing, Ignored, "gpool -v prints more"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
    row("yaml", '\0', Maybe, Covered, "as --json, in YAML"),
];

pub static SPOKEN: Spoken =
    Spoken { name: "sinfo", about: "List nodes of gpool", flags: &[FLAGS], words: "" };

const USUAL: &str = "%#P %.5a %.10l %.6D %.6t %N";
const BY_NODE: &str = "%#N %.6D %#P %6t";
const BY_NODE_LONG: &str = "%#N %.6D %#P %11T %4c %8z %.6m %.8d %.6w %.8f %20E";
const LONG: &str = "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %.11i %N";
const SUMMARY: &str = "%#P %.5a %.10l %.16F %N";
const REASONS: &str = "%20E %9u %19H %N";
const REASONS_LONG: &str = "%20E %12U %19H %6t %N";

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    let Some(args) = read(&SPOKEN, words, session)? else { return Ok(Exit::OK) };
    if let Some(help) = Format::requested_help(&args, COLUMNS) {
        return print(&help, session);
    }
    say_ignored(&args, session);
    if args.has("reservation") {
        return scontrol_more::reservations(&[], session);
    }
    if let Some(parser) = Parser::of(&args)? {
        let cluster = Nodes::of(session)?;
        let groups =
            groups(&cluster, &args, &[&Each(node_cells::partition), &Each(STATE)], session);
        let values = groups.iter().map(|group| json_nodes::group(group, &cluster.nodes, parser));
        let line = command_line("sinfo", words);
        return parser.print("sinfo", values.collect(), &line, session);
    }
    let usual = match (args.has("long"), args.has("Node"), args.has("list-reasons")) {
        (true, _, true) => REASONS_LONG,
        (false, _, true) => REASONS,
        (true, true, _) => BY_NODE_LONG,
        (false, true, _) => BY_NODE,
        _ if args.has("summarize") => SUMMARY,
        (true, ..) => LONG,
        _ => USUAL,
    };
    let format = match (args.value("Format"), args.value("format")) {
        (Some(names), _) if names.eq_ignore_ascii_case("all") => {
            Format::by_letters("%all", COLUMNS)
        }
        (Some(names), _) => Format::by_names(names, COLUMNS),
        (None, Some(letters)) => Format::by_letters(letters, COLUMNS),
        (None, None) => {
            let variable = std::env::var("SINFO_FORMAT").ok().filter(|_| usual == USUAL);
            Format::by_letters(variable.as_deref().unwrap_or(usual), COLUMNS)
        }
    };
    format.say_unknown("sinfo", session);
    let every = args.value("iterate").map(|every| interval(every, "--iterate")).transpose()?;
    print_every(every, session, || text(&args, &format, session))
}

const STATE: node_cells::Cell = node_cells::state_long;

struct Nodes {
    nodes: Vec<Node>,
    gpus: Vec<Gpu>,
}

impl Nodes {
    fn of(session: &Session) -> Result<Self> {
        let client = session.client()?;
        Ok(Self { nodes: client.nodes()?.items, gpus: client.gpus()?.items })
    }
}

fn text(said: &ParsedArgs, format: &Format<GroupColumn>, session: &Session) -> Result<String> {
    let cluster = Nodes::of(session)?;
    let contents: Vec<&GroupColumn> = format.columns().map(|column| &column.3).collect();
    let mut groups = groups(&cluster, said, &contents, session);
    sort(&mut groups, said)?;
    let mut text = String::new();
    if said.has("iterate") || said.has("long") && !said.has("noheader") {
        let _ = writeln!(text, "{}", session.screen.clock.full(session.view().now));
    }
    text.push_str(&format.lines(!said.has("noheader"), &groups, |it, group| it.text(group)));
    if said.has("iterate") {
        text.push('\n');
    }
    Ok(text)
}

/// The selected nodes in groups, in the order of their pools and states. The nodes of a group have
/// the same content in each column.
fn groups<'n>(
    cluster: &'n Nodes,
    args: &ParsedArgs,
    contents: &[&GroupColumn],
    session: &'n Session,
) -> Vec<Vec<One<'n>>> {
    let clock = &session.screen.clock;
    let all = cluster.nodes.iter().map(|node| One { node, gpus: &cluster.gpus, clock });
    let mut nodes: Vec<One<'n>> = all.filter(|one| is_meant(one, args)).collect();
    let by_node = args.has("Node");
    nodes.sort_by_cached_key(|one| {
        let rank = if by_node { 0 } else { node_cells::state(one.node).rank };
        (!by_node).then(|| one.node.pool.clone()).map_or_else(
            || (String::new(), rank, one.node.name.clone()),
            |pool| (pool, rank, one.node.name.clone()),
        )
    });
    let mut groups: Vec<(Vec<Option<String>>, Vec<One<'n>>)> = Vec::new();
    for one in nodes {
        let each = contents.iter().filter_map(|content| match content {
            Each(cell) => Some(cell(&one)),
            Sum(_) => None,
        });
        let mut of: Vec<Option<String>> = each.collect();
        of.extend(by_node.then(|| Some(one.node.name.clone())));
        match groups.iter_mut().find(|(other, _)| *other == of) {
            Some((_, group)) => group.push(one),
            None => groups.push((of, vec![one])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

fn is_meant(one: &One<'_>, args: &ParsedArgs) -> bool {
    let node = one.node;
    let wanted = |long: &'static str, values: &[&str]| {
        let mut list = args.list(long).peekable();
        list.peek().is_none()
            || list.any(|wanted| values.iter().any(|value| wanted.eq_ignore_ascii_case(value)))
    };
    let state = node_cells::state(node);
    let names: Vec<&str> =
        args.flags.iter().filter(|it| it.flag.long == "nodes").map(|it| &*it.value).collect();
    let is_named = names.is_empty() || names.iter().any(|list| expanded(list).contains(&node.name));
    let mut states =
        vec![state.short.trim_end_matches('*'), state.long.trim_end_matches('*'), "all"];
    states.extend(state.parts);
    is_named
        && wanted("partition", &[&node.pool])
        && wanted("states", &states)
        && (!args.has("dead") || !node.connected)
        && (!args.has("responding") || node.connected)
        && (!args.has("list-reasons") || node_cells::reason(one).is_some())
}

fn sort(groups: &mut [Vec<One<'_>>], args: &ParsedArgs) -> Result<()> {
    let keys: Vec<&str> = args.list("sort").collect();
    for key in keys.into_iter().rev() {
        let letter = key.trim_start_matches(['-', '+', '#']);
        let Some(column) = COLUMNS.iter().find(|column| letter == column.0.to_string()) else {
            let what = format!("sinfo can't sort by {key:?}");
            return Err(Failure::new(errors::BAD_COLUMN, what).tip("sinfo --sort=P,-t"));
        };
        groups.sort_by(|a, b| {
            let text = |group: &[One<'_>]| column.3.text(group).unwrap_or_default();
            let order = natural(&text(a), &text(b));
            if key.starts_with('-') { order.reverse() } else { order }
        });
    }
    Ok(())
}
