//! `gctl reserve`: reservations of GPUs for a user.

use gpool_cli::args::list::ListFlags;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::FlagSupport::Covered;
use gpool_cli::foreign::flag::Takes::{Nothing, Value};
use gpool_cli::foreign::flag::{Flag, ParsedArgs, Spoken, row};
use gpool_cli::listing::{Listing, show};
use gpool_cli::render::clock::Clock;
use gpool_cli::render::list::{Row, select};
use gpool_cli::render::reserve::{RESERVATIONS, timeline};
use gpool_cli::session::Session;
use gpool_wire::{Reservation, Time, catalogue};

use crate::shim::{below, gpool, gpool_line, print, read_words};

static OF_CREATE: &[Flag] = &[
    row("duration", '\0', Value, Covered, "--for"),
    row("gpu-spec", '\0', Value, Covered, "--devices NODE:GPUS, if there is one node"),
    row("gpus", '\0', Value, Covered, "--gpus"),
    row("start", '\0', Value, Covered, "--from"),
    row("timezone", '\0', Value, Covered, "the time zone of --start"),
    row("user", '\0', Value, Covered, "--user"),
];

static OF_LIST: &[Flag] = &[
    row("active", '\0', Nothing, Covered, "only active ones"),
    row("from", '\0', Value, Covered, "only those that end after this time"),
    row("range", '\0', Value, Covered, "only those in this range: 48h, -24h, -24h:+24h"),
    row("status", '\0', Value, Covered, "pending or active; gpool removes ended ones"),
    row("timeline", '\0', Nothing, Covered, "--timeline"),
    row("to", '\0', Value, Covered, "only those that begin before this time"),
    row("user", '\0', Value, Covered, "only those for this user"),
];

macro_rules! spoken {
    ($name:ident, $text:literal, $about:literal, $flags:expr, $words:literal) => {
        pub(super) static $name: Spoken =
            Spoken { name: $text, about: $about, flags: $flags, words: $words };
    };
}

spoken!(CREATE, "gctl reserve create", "Reserve GPUs: gpool reserve create", &[OF_CREATE], "");
spoken!(LIST, "gctl reserve list", "List reservations: gpool reserve list", &[OF_LIST], "");
spoken!(GET, "gctl reserve get", "Show a reservation: gpool reserve show", &[], "ID");
spoken!(CANCEL, "gctl reserve cancel", "End a reservation: gpool reserve cancel", &[], "ID");

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    let (word, rest) = below("gctl reserve", words, &["create", "list", "get", "cancel"])?;
    match word {
        "create" => {
            let Some(args) = read_words(&CREATE, rest, 0, session)? else { return Ok(Exit::OK) };
            create(&args, session)
        }
        "list" => {
            let Some(args) = read_words(&LIST, rest, 0, session)? else { return Ok(Exit::OK) };
            list(&args, session)
        }
        "get" => {
            let Some(args) = read_words(&GET, rest, 1, session)? else { return Ok(Exit::OK) };
            gpool_line(&["reserve", "show", &name(&args.words[0])], session)
        }
        _ => {
            let Some(args) = read_words(&CANCEL, rest, 1, session)? else { return Ok(Exit::OK) };
            gpool_line(&["reserve", "cancel", &name(&args.words[0])], session)
        }
    }
}

/// The name of a reservation: `r1` for the number `1`.
fn name(id: &str) -> String {
    let is_number = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { format!("r{id}") } else { id.to_owned() }
}

fn invalid(what: &str) -> Failure {
    Failure::new(catalogue::INVALID, format!("gctl reserve: {what}"))
}

fn create(args: &ParsedArgs, session: &Session) -> Result {
    let mut words = vec!["reserve".to_owned(), "create".to_owned()];
    for (theirs, ours) in [("gpus", "gpus"), ("user", "user"), ("duration", "for")] {
        words.extend(args.value(theirs).map(|value| format!("--{ours}={value}")));
    }
    if let Some(devices) = args.value("gpu-spec") {
        let nodes = session.client()?.nodes()?.items;
        let [node] = nodes.as_slice() else {
            let what = format!("there are {} nodes, and --gpu-spec has no node", nodes.len());
            return Err(
                invalid(&what).tip(format!("gpool reserve create --devices NODE:{devices}"))
            );
        };
        words.push(format!("--devices={}:{devices}", node.name));
    }
    if let Some(start) = args.value("start") {
        let from = match args.value("timezone") {
            None | Some("local") => start.to_owned(),
            Some(zone) => {
                let zone =
                    gpool_cli::render::clock::zone_name(zone).map_err(|why| invalid(&why))?;
                let clock = Clock::of(Some(zone));
                let at = clock.read_ahead(start, session.view().now);
                at.map_err(|why| invalid(&format!("--start: {why}")))?.to_string()
            }
        };
        words.push(format!("--from={from}"));
    }
    gpool(&words, session)
}

fn list(args: &ParsedArgs, session: &Session) -> Result {
    let status = match args.value("status") {
        Some("pending") => Some("planned"),
        Some("active") => Some("active"),
        None => args.has("active").then_some("active"),
        Some(other) => {
            return Err(invalid(&format!(
                "--status {other}: gpool removes reservations when they end"
            ))
            .tip("gctl reserve list --status active"));
        }
    };
    let (from, to) = bounds(args, session)?;
    let is_meant = |it: &Reservation| {
        it.kind == "reservation"
            && status.is_none_or(|status| it.state == status)
            && args.value("user").is_none_or(|user| it.beneficiary.as_deref() == Some(user))
            && from.is_none_or(|from| it.until.is_none_or(|until| until >= from))
            && to.is_none_or(|to| it.from <= to)
    };
    let client = session.client()?;
    let rows: Vec<Reservation> =
        client.reservations()?.items.into_iter().filter(is_meant).collect();
    if args.has("timeline") {
        return print(&timeline(&rows, &session.view(), session.screen.ascii), session);
    }
    let flags = ListFlags::default();
    show(&RESERVATIONS, &flags, session, || {
        let rows: Vec<Row<Reservation>> = select(&RESERVATIONS, rows.clone(), &flags)?;
        Ok(Listing::new(rows, String::new()))
    })
}

/// The time range of `--range`, or of `--from` and `--to`.
fn bounds(args: &ParsedArgs, session: &Session) -> Result<(Option<Time>, Option<Time>)> {
    let now = session.view().now;
    let clock = &session.screen.clock;
    let read = |text: &str| {
        let signed = match text.strip_prefix(['+', '-']) {
            Some(length) if text.starts_with('-') => format!("now-{length}"),
            Some(length) => format!("now+{length}"),
            None => text.to_owned(),
        };
        clock.read_ahead(&signed, now).map_err(|why| invalid(&why))
    };
    let Some(range) = args.value("range") else {
        let one = |long| args.value(long).map(read).transpose();
        return Ok((one("from")?, one("to")?));
    };
    let (from, to) = match range.split_once(':') {
        Some((from, to)) => (read(from)?, read(to)?),
        None if range.starts_with('-') => (read(range)?, now),
        None => (now, read(range)?),
    };
    if to < from {
        return Err(Failure::new(
            errors::INVALID,
            format!("--range {range} ends before it begins"),
        ));
    }
    Ok((Some(from), Some(to)))
}
