//! The output of lists and pages; no name reaches a terminal raw.

use std::collections::{BTreeMap, BTreeSet};

use gpool_cli::args::list::{Format, ListFlags};
use gpool_cli::hand_in::waits;
use gpool_cli::render::clock::Clock;
use gpool_cli::render::list::{Appearance, Noun, select};
use gpool_cli::render::nodes::NODES;
use gpool_cli::render::view::View;
use gpool_model::Millis;
use gpool_verbs::render::cost::{self, COST};
use gpool_verbs::render::gpus::GPUS;
use gpool_verbs::render::jobs::JOBS;
use gpool_verbs::render::usage::USAGE;
use gpool_verbs::render::{events, gpus, job, jobs, recovery, status, up, why};
use gpool_wire::cost::CostRow;
use gpool_wire::usage::UsageRow;
use gpool_wire::{Before, Event, RecoveredJob, Recovery};
use insta::assert_snapshot;
use serde::Serialize;
use serde_json::json;

use crate::things::{self, NASTY};

fn with_view<T>(then: impl FnOnce(View<'_>) -> T) -> T {
    let clock = Clock::new(true);
    then(View { clock: &clock, now: things::now(), me: "ana" })
}

fn list<T: Serialize>(noun: &Noun<T>, items: Vec<T>, form: Format, footer: &str) -> String {
    with_view(|view| {
        let rows = select(noun, items, &ListFlags::default()).unwrap();
        noun.text(
            &rows,
            form,
            &[],
            &Appearance {
                view,
                width: None,
                colors: false,
                footer,
                marked: &BTreeSet::new(),
                title: "<title>",
                bars: None,
            },
        )
        .unwrap()
    })
}

#[test]
fn the_queue_as_a_table() {
    let footer = jobs::footer(6, Some(1234), Some(&things::status()));
    assert_snapshot!(list(&JOBS, things::jobs(), Format::Table, &footer));
}

#[test]
fn the_queue_in_every_other_form() {
    assert_snapshot!("wide", list(&JOBS, things::jobs(), Format::Wide, ""));
    assert_snapshot!("csv", list(&JOBS, things::jobs(), Format::Csv, ""));
    assert_snapshot!("names", list(&JOBS, things::jobs(), Format::Name, ""));
    let one = || vec![things::jobs().remove(2)];
    assert_snapshot!("json", list(&JOBS, one(), Format::Json, "not here"));
    assert_snapshot!("jsonl", list(&JOBS, one(), Format::Jsonl, "not here"));
}

#[test]
fn names_are_no_markup_of_a_page() {
    let mut jobs = things::jobs();
    jobs[0].name = "<img src=x onerror=alert(1)>&\"'".to_owned();
    let page = list(&JOBS, jobs, Format::Html, "<i>below</i>");
    assert!(
        page.contains("<td>&#60;img src=x onerror=alert(1)&#62;&#38;&#34;&#39;</td>"),
        "{page}"
    );
    assert!(page.contains("<h1>&#60;title&#62;</h1>") && !page.contains("<i>below"), "{page}");
    assert!(page.contains("<th scope=\"col\">ID</th>") && !page.contains("PARAMS"), "{page}");
    assert!(!page.contains("<img") && !page.contains("href") && !page.contains("src=\""), "{page}");
}

#[test]
fn costs_as_a_table_and_as_csv() {
    let row = |user: &str, currency: &str, cost: f64| -> CostRow {
        let row = json!({
            "start": "2026-11-20T00:00:00Z", "user": user, "gpu_hours": 4.0,
            "measured_gpu_hours": 4.0, "busy_gpu_hours": 3.0, "useful_gpu_hours": null,
            "waited_gpu_hours": 2.0, "energy_kwh": 1.5, "currency": currency, "cost": cost,
            "idle_cost": 2.5, "energy_cost": null, "waited_cost": 5.0,
            "unpriced_gpu_hours": if currency.is_empty() { 4.0 } else { 0.0 },
        });
        serde_json::from_value(row).unwrap()
    };
    let rows = || vec![row("ana", "EUR", 10.0), row("=SUM(A1)", "EUR", 1.0), row("-2", "", 0.0)];
    let table = list(&COST, rows(), Format::Table, &cost::footer(&rows()));
    let expected = "\
GROUP     GPU-H  COST       IDLE      ENERGY  WAITED
ana       4.00   10.00 EUR  2.50 EUR  –       5.00 EUR
=SUM(A1)  4.00   1.00 EUR   2.50 EUR  –       5.00 EUR
-2        4.00   –          –         –       –
11.00 EUR · idle 5.00 · waited for 10.00
4.00 GPU-h have no price
";
    assert_eq!(table, expected);
    // A spreadsheet must not compute names; numbers stay numbers.
    let csv = list(&COST, rows(), Format::Csv, "");
    let at = csv.split(',').position(|column| column == "group").unwrap();
    let groups: Vec<&str> = csv.lines().filter_map(|line| line.split(',').nth(at)).collect();
    assert_eq!(groups, ["group", "ana", "'=SUM(A1)", "-2"]);
}

#[test]
fn use_outside_gpool_is_marked_in_tables_and_in_csv() {
    let row = |kind: Option<&str>, is_outside: bool| -> UsageRow {
        let row = json!({
            "start": "2026-11-20T00:00:00Z", "user": "ana", "kind": kind, "gpu_hours": 4.0,
            "measured_gpu_hours": 4.0, "busy_gpu_hours": 3.0, "useful_gpu_hours": null,
            "waited_gpu_hours": 2.0, "is_outside": is_outside,
        });
        serde_json::from_value(row).unwrap()
    };
    let rows = || vec![row(None, false), row(None, true), row(Some("unmanaged"), true)];
    let table = list(&USAGE, rows(), Format::Table, "");
    let groups: Vec<&str> = table.lines().skip(1).filter_map(|it| it.split("  ").next()).collect();
    assert_eq!(groups, ["ana", "ana (outside gpool)", "ana unmanaged"], "{table}");
    let csv = list(&USAGE, rows(), Format::Csv, "");
    let at = csv.lines().next().unwrap().split(',').position(|column| column == "is_outside");
    let marks: Vec<&str> =
        csv.lines().skip(1).filter_map(|line| line.split(',').nth(at.unwrap())).collect();
    assert_eq!(marks, ["false", "true", "true"], "{csv}");
}

#[test]
fn gpus_as_a_table() {
    let left = BTreeMap::from([("1839".to_owned(), Millis::from_mins(75))]);
    let rows = gpus::rows(things::gpus(), &left);
    let footer = gpus::footer(&rows);
    assert_snapshot!(list(&GPUS, gpus::folded(rows), Format::Table, &footer));
}

#[test]
fn gpus_as_csv_have_neither_bars_nor_padding() {
    let left = BTreeMap::from([("1839".to_owned(), Millis::from_mins(75))]);
    let csv = list(&GPUS, gpus::rows(things::gpus(), &left), Format::Csv, "");
    let is_bar = |c: char| ('\u{2580}'..='\u{259f}').contains(&c);
    assert!(!csv.contains(is_bar) && !csv.contains("  ") && !csv.contains('–'), "{csv}");
    let heads: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let of = |name: &str| {
        let at = heads.iter().position(|head| *head == name).unwrap();
        csv.lines().nth(1).unwrap().split(',').nth(at).unwrap()
    };
    let figures = [of("util"), of("mem")];
    assert!(figures.iter().all(|figure| figure.starts_with(|c: char| c.is_ascii_digit())), "{csv}");
}

/// The first cells of the rows, sorted.
fn sorted<T: Serialize>(noun: &Noun<T>, items: Vec<T>, by: &str) -> Vec<String> {
    let flags = ListFlags { sort: Some(by.to_owned()), ..ListFlags::default() };
    let rows = select(noun, items, &flags).unwrap_or_else(|failure| panic!("{by}: {failure:?}"));
    rows.iter().map(|row| (noun.name)(&row.item)).collect()
}

#[test]
fn rows_are_sorted_by_every_column_that_is_shown() {
    fn each<T: Serialize>(noun: &Noun<T>, items: fn() -> Vec<T>) {
        for column in noun.columns {
            for name in [column.name, column.head, &column.head.to_lowercase()] {
                let mut turned = sorted(noun, items(), &format!("-{name}"));
                turned.reverse();
                let (mut up, n) = (sorted(noun, items(), name), items().len());
                assert_eq!((up.len(), turned.len()), (n, n));
                up.sort();
                turned.sort();
                assert_eq!(up, turned, "{name}");
            }
        }
    }
    each(&JOBS, things::jobs);
    each(&GPUS, || gpus::rows(things::gpus(), &BTreeMap::new()));
    each(&NODES, || vec![things::node(json!({}))]);
    each(&COST, Vec::new);
    each(&USAGE, Vec::new);
    let by_use = sorted(&GPUS, gpus::rows(things::gpus(), &BTreeMap::new()), "-UTIL");
    let busiest = things::gpus().into_iter().max_by(|a, b| {
        let part = |gpu: &gpool_wire::Gpu| gpu.utilization.unwrap_or(-1.0);
        part(a).total_cmp(&part(b))
    });
    assert_eq!(by_use[0], format!("lab1:{}", busiest.unwrap().index));
    let mut jobs = things::jobs();
    jobs[0].wait.waited_s = 7200.0;
    let id = jobs[0].id.clone();
    assert_eq!(sorted(&JOBS, jobs, "-waited")[0], id);
    let flags = ListFlags { sort: Some("waitd".to_owned()), ..ListFlags::default() };
    let failure = select(&JOBS, things::jobs(), &flags).err().unwrap();
    assert!(failure.text(false).contains("waited"), "{}", failure.text(false));
}

#[test]
fn gpus_in_full() {
    let pages = with_view(|view| {
        let gpus = things::gpus();
        [gpus::page(&gpus[2], &view), gpus::page(&gpus[3], &view), gpus::page(&gpus[6], &view)]
    });
    assert_snapshot!(pages.join("\n"));
}

#[test]
fn nodes_as_a_table() {
    let nodes = vec![things::node(json!({})), things::node(json!({"connected": false}))];
    assert_snapshot!(list(&NODES, nodes, Format::Table, ""));
}

#[test]
fn one_job_as_a_page() {
    let pages = with_view(|view| {
        things::jobs().iter().map(|job| job::page(job, None, &view)).collect::<Vec<_>>()
    });
    assert_snapshot!(pages.join("\n"));
}

#[test]
fn why_a_job_waits() {
    let jobs = things::jobs();
    let text = with_view(|view| {
        let pages = [&jobs[2], &jobs[1]].map(|job| why::page(&things::why(job), &view));
        pages.join("\n")
    });
    assert_snapshot!(text);
}

#[test]
fn why_shows_blocking_reasons_in_80_columns() {
    let mut why = things::why(&things::jobs()[2]);
    why.reasons[0].text = "A reason with unusually many words, ".repeat(4);
    why.reasons[1].blocking = false;
    let page = with_view(|view| why::page(&why, &view));
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    assert!(!page.contains("1841"), "{page}");
    why.reasons[0].blocking = false;
    let page = with_view(|view| why::page(&why, &view));
    assert!(page.contains("  Job 1841 is before it in the queue.\n"), "{page}");
}

#[test]
fn the_server_on_a_page() {
    assert_snapshot!(with_view(|view| status::page(&things::status(), &things::recovery(), &view)));
}

#[test]
fn what_doctor_says_of_the_last_start() {
    let text = with_view(|view| {
        let lines = recovery::lines(&things::recovery(), &view).into_iter();
        let lines = lines.map(|line| format!("{:<14}{}\n", line.what, line.text));
        lines.collect::<String>()
    });
    assert_snapshot!(text);
}

#[test]
fn a_start_is_told_of_in_short_only_if_there_is_something_to_tell() {
    let calm = |before: Before, jobs: Vec<RecoveredJob>| Recovery {
        before,
        jobs,
        rebooted_at: None,
        n_waiting: 0,
        unexpected: Vec::new(),
        ..things::recovery()
    };
    let in_short = |recovery: &Recovery| with_view(|view| recovery::in_short(recovery, &view));
    assert_eq!(in_short(&calm(Before::Nothing, vec![])), None);
    assert_eq!(in_short(&calm(Before::Stopped, vec![])), None);
    let went_on = things::recovery().jobs.swap_remove(0);
    let text = in_short(&calm(Before::Stopped, vec![went_on.clone()]));
    assert_eq!(text.as_deref(), Some("took over 1 running job"));
    let text = in_short(&calm(Before::Killed, vec![]));
    assert_eq!(text.as_deref(), Some("no job was running or waiting: gpool doctor"));
    let text = in_short(&things::recovery());
    assert_eq!(
        text.as_deref(),
        Some(
            "took over 1 running job; started 1 job again; 1 ended in the meantime; 1 was lost to \
             the reboot at 07:59; 2 are waiting: gpool doctor"
        )
    );
}

#[test]
fn what_up_says() {
    let (node, status, gpus) = (things::node(json!({})), things::status(), things::gpus());
    let started = up::Started {
        version: "0.1.0",
        nodes: &[node],
        gpus: &gpus,
        status: &status,
        recovery: None,
        is_root: true,
    };
    assert_snapshot!(up::text(&started));
}

#[test]
fn the_first_job_after_up_works_on_simulated_gpus() {
    let (node, status) = (things::node(json!({})), things::status());
    let mut gpus = things::gpus();
    gpus[0].uuid = "GPU-sim-0123456789abcdef-00".to_owned();
    let started = up::Started {
        version: "0.1.0",
        nodes: &[node],
        gpus: &gpus,
        status: &status,
        recovery: None,
        is_root: true,
    };
    let text = up::text(&started);
    assert!(text.contains("Try: gpool run --gpus 1 -- sh -c 'echo GPU $GPOOL_GPUS'"), "{text}");
}

#[test]
fn gpus_that_are_not_named_belong_to_their_users() {
    let mut why = things::why(&things::jobs()[2]);
    let device = |index: u32, user: &str| {
        let job = Some((index + 10).to_string());
        let json = json!({"index": index, "model": "A100-80G", "state": "busy", "matches": true,
                          "job": job, "user": user});
        serde_json::from_value(json).unwrap()
    };
    why.nodes[0].devices = (0..9).map(|n| device(n, if n == 8 { "bo" } else { "ana" })).collect();
    let page = with_view(|view| why::page(&why, &view));
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains("your jobs use GPUs 4–7; jobs of other users use GPU 8"), "{page}");
}

#[test]
fn what_run_says_first() {
    let texts: Vec<String> = things::jobs().iter().map(job::headline).collect();
    let waits = with_view(|view| {
        let jobs = things::jobs();
        jobs.iter().filter_map(|job| waits(job, &view)).collect::<Vec<_>>()
    });
    assert_snapshot!(format!("{}\n\n{}", texts.join("\n"), waits.join("\n")));
}

#[test]
fn events_as_lines() {
    let event = |kind: serde_json::Value| {
        let mut event = json!({"id": "1-2", "seq": 7, "time": "2026-11-20T14:49:59Z"});
        event.as_object_mut().unwrap().extend(kind.as_object().unwrap().clone());
        let event: Event = serde_json::from_value(event).unwrap();
        with_view(|view| events::line(&event, &view))
    };
    let lines = [
        event(json!({"type": "job_state", "job": "7", "state": "timed_out", "exit_code": 143})),
        event(json!({"type": "job_state", "job": NASTY, "state": "running", "exit_code": null})),
        event(json!({"type": "node_changed", "node": NASTY})),
        event(json!({"type": "resync"})),
        event(json!({"type": "of_a_newer_version"})),
    ];
    assert_snapshot!(lines.into_iter().flatten().collect::<Vec<_>>().join("\n"));
}

#[test]
fn what_is_new_of_gpus_is_said_once() {
    let mut said = events::GpuTroubles::default();
    let mut gpus = things::gpus();
    assert_snapshot!(said.news(&gpus).join("\n"));
    assert_eq!(said.news(&gpus), Vec::<String>::new());
    for gpu in &mut gpus {
        gpu.health_why = None;
        gpu.unmanaged.clear();
        gpu.strays.clear();
    }
    let news = said.news(&gpus);
    assert!(news.iter().all(|line| line.ends_with("works again")), "{news:?}");
    assert!(!news.is_empty());
}

/// Whether a terminal would interpret a part of it.
fn is_raw(text: &str) -> bool {
    text.chars()
        .any(|c| (c.is_control() && c != '\n' && c != '\t') || "\u{202e}\u{200b}".contains(c))
}

#[test]
fn no_name_reaches_a_terminal_raw() {
    let nasty_job = || {
        things::job(json!({
            "id": NASTY, "name": NASTY, "user": NASTY, "project": NASTY,
            "request": {"gpus": NASTY, "note": NASTY, "command": [NASTY, NASTY],
                        "directory": NASTY, "stdout": NASTY, "after": [NASTY]},
            "placement": [{"node": NASTY, "devices": [0], "uuids": [NASTY]}],
            "run": {"cause_text": NASTY},
            "wait": {"reasons": [{"code": NASTY, "blocking": true, "text": NASTY, "node": NASTY}]},
        }))
    };
    let nasty_gpu = || {
        things::gpu(
            0,
            json!({
                "node": NASTY, "uuid": NASTY, "model": NASTY, "model_short": NASTY, "job": NASTY,
                "state": "busy", "user": NASTY, "project": NASTY, "pci_bus": NASTY,
                "health_why": NASTY, "links": {NASTY: NASTY},
                "unmanaged": [{"pid": 1, "user": NASTY, "name": NASTY, "memory": null,
                               "seen_since": "2026-11-20T10:50:00Z"}],
            }),
        )
    };
    let nasty_node = || {
        things::node(json!({
            "name": NASTY, "pool": NASTY, "system": NASTY, "devices_from": NASTY, "version": NASTY,
        }))
    };
    let forms =
        [Format::Table, Format::Wide, Format::Json, Format::Jsonl, Format::Csv, Format::Name];
    for form in forms {
        let gpus = gpus::rows(vec![nasty_gpu()], &BTreeMap::new());
        for text in [
            list(&JOBS, vec![nasty_job()], form, ""),
            list(&GPUS, gpus, form, ""),
            list(&NODES, vec![nasty_node()], form, ""),
        ] {
            assert!(!is_raw(&text), "{form:?}: {text:?}");
            if !matches!(form, Format::Json) {
                let n_lines = text.lines().count();
                assert!(n_lines <= 2, "{form:?}: {n_lines} lines: {text:?}");
            }
        }
    }
    let (node, status, gpus) = (nasty_node(), things::status(), [nasty_gpu()]);
    let recovery = Some(NASTY.to_owned());
    let (gpus, is_root) = (&gpus, false);
    let started =
        up::Started { version: "0", nodes: &[node], gpus, status: &status, recovery, is_root };
    let pages = with_view(|view| {
        vec![
            job::page(&nasty_job(), None, &view),
            job::headline(&nasty_job()),
            waits(&nasty_job(), &view).unwrap(),
            why::page(&things::why(&nasty_job()), &view),
            gpus::page(&nasty_gpu(), &view),
            up::text(&started),
        ]
    });
    for page in pages {
        assert!(!is_raw(&page), "{page:?}");
    }
}
