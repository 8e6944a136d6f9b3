//! `scontrol show`: one record for each job, step, node, partition or reservation, in lines of
//! `Key=value` or as JSON; and lists of nodes.

use std::fmt::Write as _;

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::ParsedArgs;
use gpool_cli::render::safe::safe;
use gpool_cli::session::Session;
use gpool_wire::{Gpu, Node, catalogue};
use serde_json::Value;

use super::cells::SlurmJobRow;
use super::hostlist;
use super::job_record::of_job;
use super::json::{Parser, command_line};
use super::node_cells::One;
use super::node_record::{of_node, of_pool};
use super::record::{self, ScontrolRecord};
use super::scontrol_more as more;
use super::select::selected;
use super::{json_job, json_nodes};
use crate::shim::print;

/// Objects of Slurm that another gpool command shows.
const INSTEAD: [(&str, &str); 3] = [
    ("assoc_mgr", "sacctmgr show associations"),
    ("frontend", "scontrol show node"),
    ("slurmd", "gpool nodes"),
];

/// Objects that gpool has none of, as Slurm shows none of them.
const ABSENT: [(&str, &str); 9] = [
    ("aliases", ""),
    ("bbstat", ""),
    ("burstbuffer", ""),
    ("daemons", "slurmctld slurmd\n"),
    ("dwstat", ""),
    ("federation", ""),
    ("licenses", "No licenses configured in Slurm.\n"),
    ("lic", "No licenses configured in Slurm.\n"),
    ("topology", ""),
];

/// Runs the command.
///
/// # Errors
/// There is no such object, or another gpool command shows it.
pub fn run(args: &ParsedArgs, session: &Session) -> Result {
    let Some((what, names)) = args.words.split_first() else {
        return Err(Failure::new(errors::USAGE, "scontrol show: the object is missing")
            .tip("scontrol show job 17"));
    };
    // `job=17` is `job 17`.
    let (what, name) = what.split_once('=').map_or((what.as_str(), None), |(a, b)| (a, Some(b)));
    let names: Vec<String> =
        name.map(str::to_owned).into_iter().chain(names.iter().cloned()).collect();
    if let Some(parser) = Parser::of(args)? {
        return as_json(what, &names, parser, session);
    }
    let records = match what.to_ascii_lowercase().as_str() {
        "job" | "jobs" | "jobid" => jobs(&names, args.has("details"), session)?,
        "step" | "steps" | "stepid" => more::steps(&names, session)?,
        "node" | "nodes" | "nodename" => nodes(&names, session)?,
        "partition" | "partitions" | "partitionname" => partitions(&names, session)?,
        "reservation" | "reservations" | "reservationname" => {
            return more::reservations(&names, session);
        }
        "config" | "configuration" => return more::config(session),
        "hostnames" | "hostname" => return hostnames(&names, session),
        "hostlist" => return host_list(&names, false, session),
        "hostlistsorted" => return host_list(&names, true, session),
        other => {
            return match ABSENT.iter().find(|(known, _)| *known == other) {
                Some((_, text)) => print(text, session),
                None => Err(no_such(other)),
            };
        }
    };
    print(&record::text(&records, args.has("oneliner")), session)
}

fn as_json(what: &str, names: &[String], parser: Parser, session: &Session) -> Result {
    let client = session.client()?;
    let (name, values): (&str, Vec<Value>) = match what.to_ascii_lowercase().as_str() {
        "job" | "jobs" | "jobid" => {
            let jobs = selected(names, session)?;
            let values =
                jobs.iter().map(|job| json_job::job(&SlurmJobRow::of(job, session), parser));
            ("jobs", values.collect())
        }
        "node" | "nodes" | "nodename" => {
            let (nodes, gpus) = (wanted_nodes(names, session)?, client.gpus()?.items);
            let clock = &session.screen.clock;
            let one = |node| json_nodes::node(&One { node, gpus: &gpus, clock }, parser);
            ("nodes", nodes.iter().map(one).collect())
        }
        "partition" | "partitions" | "partitionname" => {
            let nodes = client.nodes()?.items;
            let pools = select_named(names, client.pools()?.items, |pool| &pool.name, "partition")?;
            let values = pools.iter().map(|pool| json_nodes::partition(&pool.name, &nodes));
            ("partitions", values.collect())
        }
        "licenses" | "lic" => ("licenses", Vec::new()),
        other => return Err(no_such(other).why("as JSON: job, node, partition, licenses")),
    };
    let words: Vec<String> =
        ["show", what].map(str::to_owned).into_iter().chain(names.iter().cloned()).collect();
    parser.print(name, values, &command_line("scontrol", &words), session)
}

fn no_such(what: &str) -> Failure {
    let found = INSTEAD.iter().find(|(theirs, _)| *theirs == what);
    let failure =
        Failure::new(errors::NO_SUCH_VERB, format!("scontrol of gpool can't show {what:?}")).why(
            "it shows job, step, node, partition, reservation, config, licenses, topology, \
                 hostnames, hostlist and hostlistsorted",
        );
    failure.tip(found.map_or("scontrol show job 17", |(_, ours)| *ours))
}

fn jobs(names: &[String], with_details: bool, session: &Session) -> Result<Vec<ScontrolRecord>> {
    let jobs = selected(names, session)?;
    let gpus: Option<Vec<Gpu>> = match with_details {
        true => Some(session.client()?.gpus()?.items),
        false => None,
    };
    Ok(jobs.iter().map(|job| of_job(&SlurmJobRow::of(job, session), gpus.as_deref())).collect())
}

fn select_named<T>(
    names: &[String],
    all: Vec<T>,
    name: impl Fn(&T) -> &str,
    what: &str,
) -> Result<Vec<T>> {
    let names: Vec<String> = names.iter().flat_map(|names| hostlist::expanded(names)).collect();
    let missing = names.iter().find(|wanted| !all.iter().any(|one| name(one) == *wanted));
    if let Some(missing) = missing {
        let there: Vec<&str> = all.iter().map(&name).collect();
        let failure = Failure::new(catalogue::INVALID, format!("there is no {what} {missing:?}"));
        return Err(failure.why(format!("the choices are {}", there.join(", "))));
    }
    let is_wanted = |one: &T| names.is_empty() || names.iter().any(|it| it == name(one));
    Ok(all.into_iter().filter(is_wanted).collect())
}

fn wanted_nodes(names: &[String], session: &Session) -> Result<Vec<Node>> {
    select_named(names, session.client()?.nodes()?.items, |node| &node.name, "node")
}

fn nodes(names: &[String], session: &Session) -> Result<Vec<ScontrolRecord>> {
    let gpus = session.client()?.gpus()?.items;
    let clock = &session.screen.clock;
    let nodes = wanted_nodes(names, session)?;
    Ok(nodes.iter().map(|node| of_node(&One { node, gpus: &gpus, clock })).collect())
}

fn partitions(names: &[String], session: &Session) -> Result<Vec<ScontrolRecord>> {
    let client = session.client()?;
    let pools = select_named(names, client.pools()?.items, |pool| &pool.name, "partition")?;
    let nodes = client.nodes()?.items;
    Ok(pools.iter().map(|pool| of_pool(pool, &nodes)).collect())
}

/// Prints nodes as a list with ranges.
fn host_list(names: &[String], is_sorted: bool, session: &Session) -> Result {
    if names.is_empty() {
        return Err(Failure::new(errors::USAGE, "scontrol show hostlist: the nodes are missing")
            .tip("scontrol show hostlist lab1,lab2"));
    }
    let mut names = hostlist::expanded(&names.join(","));
    if is_sorted {
        hostlist::sort(&mut names);
    }
    print(&format!("{}\n", safe(&hostlist::compressed(&names))), session)
}

/// Prints each node of a list, or of the surrounding job, on its own line.
fn hostnames(names: &[String], session: &Session) -> Result {
    let list = match names.join(",") {
        list if list.is_empty() => std::env::var("SLURM_JOB_NODELIST").unwrap_or_default(),
        list => list,
    };
    if list.is_empty() {
        return Err(Failure::new(errors::USAGE, "scontrol show hostnames: the nodes are missing")
            .why("outside a job, SLURM_JOB_NODELIST is not set")
            .tip("scontrol show hostnames lab1,lab2"));
    }
    let mut text = String::new();
    for name in hostlist::expanded(&list) {
        let _ = writeln!(text, "{}", safe(&name));
    }
    print(&text, session)
}
