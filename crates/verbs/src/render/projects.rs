//! Projects and quotas as tables and pages.

use std::collections::{BTreeMap, BTreeSet};

use gpool_cli::render::clock;
use gpool_cli::render::list::{Column, Noun};
use gpool_cli::render::page::Page;
use gpool_cli::render::safe::safe;
use gpool_cli::render::style::Style;
use gpool_cli::render::table::Cell;
use gpool_cli::render::view::View;
use gpool_cli::render::words::count;
use gpool_wire::{
    Project, ProjectsAnswer, Quantity, QuotaLoan, QuotaOverview, QuotaPart, QuotaReturn, QuotaRow,
    SettingChanged,
};

/// Width of the usage bar.
const BAR: u32 = 8;

pub const PROJECTS: Noun<Project> = Noun {
    columns: PROJECT_COLUMNS,
    table: &["project", "parent", "gpus", "limit", "weight", "held", "jobs", "members"],
    wide: &[
        "project",
        "parent",
        "gpus",
        "limit",
        "weight",
        "prio",
        "held",
        "jobs",
        "members",
        "admins",
        "time_max",
        "preemptible",
        "version",
    ],
    name: |it| it.name.clone(),
    keys: gpool_wire::keys::keys::<Project>,
};

const PROJECT_COLUMNS: &[Column<Project>] = &[
    Column { name: "project", head: "PROJECT", cell: |it, _| name(it) },
    Column {
        name: "parent",
        head: "PARENT",
        cell: |it, _| Cell::new(it.parent.as_deref().unwrap_or("–")),
    },
    Column { name: "gpus", head: "GPUS", cell: |it, _| Cell::new(&guaranteed(it)) },
    Column { name: "limit", head: "LIMIT", cell: |it, _| Cell::new(&or_dash(it.limit.as_ref())) },
    Column { name: "weight", head: "WEIGHT", cell: |it, _| Cell::new(&it.weight.to_string()) },
    Column { name: "prio", head: "PRIO", cell: |it, _| Cell::new(&it.priority.to_string()) },
    Column { name: "held", head: "IN USE", cell: |it, _| Cell::new(&it.gpus_held.to_string()) },
    Column { name: "jobs", head: "JOBS", cell: |it, _| Cell::new(&it.n_jobs.to_string()) },
    Column { name: "members", head: "MEMBERS", cell: |it, _| Cell::new(&members(it)) },
    Column { name: "admins", head: "ADMINS", cell: |it, _| Cell::new(&it.admins.join(",")) },
    Column {
        name: "time_max",
        head: "LONGEST",
        cell: |it, _| Cell::new(&it.time_max_s.map_or_else(|| "–".to_owned(), length)),
    },
    Column {
        name: "preemptible",
        head: "PREEMPTIBLE",
        cell: |it, _| Cell::new(if it.preemptible { "yes" } else { "no" }),
    },
    Column { name: "version", head: "VERSION", cell: |it, _| Cell::new(&it.version.to_string()) },
];

fn name(it: &Project) -> Cell {
    match it.warnings.len() {
        0 => Cell::new(&it.name),
        n => Cell::new(&format!("{} ({n}!)", it.name)).styled(Style::Bad),
    }
}

fn or_dash(amount: Option<&Quantity>) -> String {
    amount.map_or_else(|| "–".to_owned(), ToString::to_string)
}

fn guaranteed(it: &Project) -> String {
    match &it.gpus {
        Some(amount) => amount.to_string(),
        None if it.children.is_empty() => "0".to_owned(),
        None => "–".to_owned(),
    }
}

fn members(it: &Project) -> String {
    it.members.as_ref().map_or_else(|| "all".to_owned(), |members| members.join(","))
}

fn length(seconds: f64) -> String {
    clock::span(seconds).to_string()
}

#[must_use]
pub fn page(it: &Project, view: &View<'_>) -> String {
    let kind = if it.children.is_empty() { "project" } else { "department" };
    let mut page = Page::new(&format!("{kind} {} · version {}", it.name, it.version));
    page.label_if("parent", it.parent.as_deref());
    page.label_if("below it", Some(it.children.join(", ")).filter(|it| !it.is_empty()).as_deref());
    let limit = it.limit.as_ref().map_or_else(|| "no limit".to_owned(), |it| format!("limit {it}"));
    let guaranteed = match (&it.gpus, it.children.is_empty()) {
        (Some(amount), _) => format!("{amount} guaranteed"),
        (None, true) => "0 guaranteed".to_owned(),
        (None, false) => "guaranteed through its projects".to_owned(),
    };
    page.label("GPUs", &format!("{guaranteed} · {limit} · weight {}", it.weight));
    for (label, gpus, limit) in
        [("GPUs of", &it.gpus_of, &it.limit_of), ("GPUs in", &it.gpus_in, &it.limit_in)]
    {
        let names: BTreeSet<&String> = gpus.keys().chain(limit.keys()).collect();
        let words = |name: &String| {
            let guaranteed = gpus.get(name).map(|it| format!("{it} guaranteed"));
            let limit = limit.get(name).map(|it| format!("limit {it}"));
            let words: Vec<String> = guaranteed.into_iter().chain(limit).collect();
            format!("{name}: {}", words.join(" · "))
        };
        page.labels(label, &names.into_iter().map(words).collect::<Vec<_>>());
    }
    let beside = |guaranteed: &Option<Quantity>, limit: &Option<Quantity>| {
        let guaranteed = guaranteed.as_ref().map(|it| format!("{it} guaranteed"));
        let limit = limit.as_ref().map(|it| format!("limit {it}"));
        let words: Vec<String> = guaranteed.into_iter().chain(limit).collect();
        Some(words.join(" · ")).filter(|words| !words.is_empty())
    };
    page.label_if("CPU cores", beside(&it.cpus, &it.cpus_limit).as_deref());
    let in_words = |amount: &Option<Quantity>| match amount {
        Some(Quantity::Whole(bytes)) => Some(gpool_model::Bytes::new(*bytes).to_string().into()),
        other => other.clone(),
    };
    let mem = beside(&in_words(&it.mem), &in_words(&it.mem_limit));
    page.label_if("memory", mem.as_deref());
    page.label_if("at once", it.jobs_limit.map(|most| format!("at most {most} jobs")).as_deref());
    if it.priority != 0 {
        page.label("priority", &it.priority.to_string());
    }
    let taken = if it.preemptible { "preemptible" } else { "not preemptible" };
    let safe_for = it.min_runtime_s.map(|it| format!("; minimum run time {}", length(it)));
    page.label("jobs", &format!("{} by default{}", taken, safe_for.unwrap_or_default()));
    let limits = [("default", it.time_default_s), ("longest", it.time_max_s)];
    let limits: Vec<String> = limits
        .into_iter()
        .filter_map(|(word, seconds)| Some(format!("{word} {}", length(seconds?))))
        .collect();
    page.label_if("time", Some(limits.join(" · ")).filter(|it| !it.is_empty()).as_deref());
    let waiting = it.user_pending.map(|n| format!("at most {} waiting", count(n, "job")));
    let running = it.user_running.map(|n| format!("at most {} running", count(n, "job")));
    let gpus = it.user_gpus.map(|n| match n {
        1.0 => "at most 1 GPU".to_owned(),
        n => format!("at most {n} GPUs"),
    });
    let most: Vec<String> = waiting.into_iter().chain(running).chain(gpus).collect();
    let most = Some(most.join(" · ")).filter(|it| !it.is_empty());
    page.label_if("one user", most.as_deref());
    page.label("members", &members(it));
    page.label_if("admins", Some(it.admins.join(", ")).filter(|it| !it.is_empty()).as_deref());
    page.label("now", &format!("{} GPUs allocated · {}", it.gpus_held, count(it.n_jobs, "job")));
    page.label_if("created", it.created_at.map(|at| view.clock.full(at)).as_deref());
    page.labels("note", &it.warnings);
    page.text()
}

/// The changes that were or would be made, one line for each project and setting.
#[must_use]
pub fn difference(answer: &ProjectsAnswer) -> String {
    let mut text = String::new();
    for change in &answer.changes {
        let sign = match change.what.as_str() {
            "created" => '+',
            "deleted" => '-',
            _ => '~',
        };
        let version = change.version.map(|it| format!(" (version {it})")).unwrap_or_default();
        text.push_str(&format!("{sign} {} {}{version}\n", safe(&change.project), change.what));
        if change.what != "deleted" {
            text.extend(change.settings.iter().map(setting));
        }
    }
    if text.is_empty() {
        text.push_str("nothing differs\n");
    }
    text
}

fn setting(it: &SettingChanged) -> String {
    let value = |value: &Option<String>| {
        let value = value.as_deref().unwrap_or_default();
        safe(if value.is_empty() { "none" } else { value }).into_owned()
    };
    let before = it.before.as_ref().map(|_| format!("{} → ", value(&it.before)));
    let after = value(&it.after);
    format!("    {:12} {}{after}\n", it.setting, before.unwrap_or_default())
}

pub const QUOTA: Noun<QuotaRow> = Noun {
    columns: QUOTA_COLUMNS,
    table: &["project", "guaranteed", "share", "held", "loan", "used", "lends", "queued"],
    wide: &[
        "project",
        "guaranteed",
        "limit",
        "share",
        "held",
        "in_quota",
        "loan",
        "for_good",
        "used",
        "lends",
        "back",
        "queued",
        "wanted",
    ],
    name: |it| it.project.clone(),
    keys: gpool_wire::keys::keys::<QuotaRow>,
};

const QUOTA_COLUMNS: &[Column<QuotaRow>] = &[
    Column {
        name: "project",
        head: "PROJECT",
        cell: |it, _| {
            let depth = usize::try_from(it.depth).unwrap_or(0).min(16);
            Cell::new(&format!("{}{}", "  ".repeat(depth), it.project))
        },
    },
    Column {
        name: "guaranteed",
        head: "GUARANTEED",
        cell: |it, _| Cell::new(&it.guaranteed.to_string()),
    },
    Column { name: "limit", head: "LIMIT", cell: |it, _| Cell::new(&or_dash(it.limit.as_ref())) },
    Column {
        name: "share",
        head: "SHARE",
        cell: |it, _| Cell::new(&it.share.map_or_else(|| "–".to_owned(), |it| it.to_string())),
    },
    Column { name: "held", head: "IN USE", cell: |it, _| held(it) },
    Column { name: "in_quota", head: "IN QUOTA", cell: |it, _| amount(it.in_quota) },
    Column { name: "loan", head: "BORROWED", cell: |it, _| amount(it.on_loan) },
    Column { name: "for_good", head: "NOT PREEMPTIBLE", cell: |it, _| amount(it.for_good) },
    Column { name: "used", head: "USED", cell: |it, _| hours(it.used) },
    Column { name: "lends", head: "BORROWS / LENDS", cell: |it, _| Cell::new(&loans(it)) },
    Column { name: "back", head: "RETURNED", cell: |it, view| Cell::new(&returns(it, view)) },
    Column { name: "queued", head: "QUEUED", cell: |it, _| Cell::new(&it.n_pending.to_string()) },
    Column { name: "wanted", head: "WANTED", cell: |it, _| amount(it.pending) },
];

/// GPU-hours with one decimal.
fn hours(hours: f64) -> Cell {
    if hours >= 0.05 { Cell::new(&format!("{hours:.1} h")) } else { Cell::new("–") }
}

fn amount(gpus: f64) -> Cell {
    if gpus > 0.0 { Cell::new(&gpus.to_string()) } else { Cell::new("–") }
}

/// Usage as a bar: GPUs within the guarantee, then the rest of the guarantee or the loan.
pub fn held(it: &QuotaRow) -> Cell {
    let guaranteed: f64 = it.guaranteed.to_string().parse().unwrap_or(it.held);
    let whole = it.held.max(guaranteed);
    let columns = |gpus: f64| {
        // At most one column per GPU and `BAR` columns in total.
        let most = f64::from(BAR).min(whole.ceil());
        let n = if whole > 0.0 { (gpus / whole * most).round() } else { 0.0 };
        (0..BAR).take_while(|at| f64::from(*at) < n).count()
    };
    let own = "█".repeat(columns(it.in_quota));
    let rest = match it.on_loan > 0.0 {
        true => format!("┃{}", "█".repeat(columns(it.on_loan).max(1))),
        false => "░".repeat(columns(whole).saturating_sub(columns(it.in_quota))),
    };
    Cell::new(&format!("{own}{rest} {}", it.held)).or_shorter(&it.held.to_string())
}

/// The loans of a project in a few words.
#[must_use]
pub fn loans(it: &QuotaRow) -> String {
    let words = |verb: &str, way: &str, loans: &[QuotaLoan]| -> Option<String> {
        let loan = |it: &QuotaLoan| match &it.project {
            Some(project) => format!("{} {way} {project}", it.gpus),
            None => format!("{} unassigned", it.gpus),
        };
        let words: Vec<String> = loans.iter().map(loan).collect();
        (!words.is_empty()).then(|| format!("{verb} {}", words.join(", ")))
    };
    let both = [words("borrows", "from", &it.borrows), words("lends", "to", &it.lends)];
    both.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// When each loan is returned, with the other project.
fn returns(it: &QuotaRow, view: &View<'_>) -> String {
    let word = |it: &QuotaLoan| {
        let project = it.project.as_deref().unwrap_or("unassigned");
        format!("{project} {}", given_back(it, view))
    };
    it.borrows.iter().chain(&it.lends).map(word).collect::<Vec<_>>().join("; ")
}

fn given_back(it: &QuotaLoan, view: &View<'_>) -> String {
    let by = it.until.map(|until| {
        let how = if it.basis.as_deref() == Some("limit") { "time limit" } else { "predicted" };
        format!("by {} ({how})", view.clock.short(until, view.now))
    });
    let by = by.unwrap_or_else(|| "at an unknown time".to_owned());
    match it.when_asked {
        true => format!("on demand, otherwise {by}"),
        false => format!("{by}, only partly on demand"),
    }
}

/// One line for each loan of these projects: both projects and the time of return.
#[must_use]
pub fn loan_lines(rows: &[QuotaRow], view: &View<'_>) -> String {
    let mut lines = Vec::new();
    for row in rows {
        let name = safe(&row.project);
        lines.extend(row.parts.iter().map(|it| format!("{name} {}", part_words(it))));
        for it in &row.borrows {
            let from = it.project.as_ref().map(|from| format!("{} from {}", it.gpus, safe(from)));
            let from = from.unwrap_or_else(|| format!("{} unassigned", it.gpus));
            lines.push(format!("{name} borrows {from}: returned {}", given_back(it, view)));
        }
        let is_shown = |name: &String| rows.iter().any(|row| row.project == *name);
        for it in row.lends.iter().filter(|it| !it.project.as_ref().is_some_and(is_shown)) {
            let to = safe(it.project.as_deref().unwrap_or_default());
            let back = given_back(it, view);
            lines.push(format!("{name} lends {} to {to}: returned {back}", it.gpus));
        }
    }
    lines.join("\n")
}

/// Quota and usage of a project for one model or in one pool.
fn part_words(it: &QuotaPart) -> String {
    let part = match (&it.model, &it.pool) {
        (Some(model), _) => format!("of {}", safe(&model.to_uppercase())),
        (None, pool) => format!("in pool {}", safe(pool.as_deref().unwrap_or_default())),
    };
    let guaranteed = it.guaranteed.as_ref().map(|it| format!("{it} guaranteed"));
    let limit = it.limit.as_ref().map(|it| format!("limit {it}"));
    let share = it.share.map(|it| format!("share {it}"));
    let words: Vec<String> = guaranteed.into_iter().chain(limit).chain(share).collect();
    let holds = format!("{} in use", it.held);
    format!("{part}: {}", words.into_iter().chain([holds]).collect::<Vec<_>>().join(" · "))
}

/// One line for each job that returns GPUs: the GPUs, the new job and the latest time.
pub fn return_lines(returns: &[QuotaReturn], view: &View<'_>) -> Vec<String> {
    let line = |it: &QuotaReturn| {
        let mut by_node = BTreeMap::<&str, Vec<String>>::new();
        for gpu in &it.gpus {
            by_node.entry(&gpu.node).or_default().push(gpu.gpu.to_string());
        }
        let gpus = by_node.iter().map(|(node, all)| format!("{}:{}", safe(node), all.join(",")));
        let gpus = gpus.collect::<Vec<_>>().join(" ");
        let to = it.beneficiary_project.as_deref().map(|to| format!(" of {}", safe(to)));
        format!(
            "job {} of {} ({}) returns GPUs {gpus} to job {}{}, at {} at the latest",
            it.job,
            safe(view.user(&it.user)),
            safe(&it.project),
            it.beneficiary,
            to.unwrap_or_default(),
            view.clock.short(it.until, view.now),
        )
    };
    returns.iter().map(line).collect()
}

#[must_use]
pub fn quota_footer(all: &QuotaOverview, view: &View<'_>) -> String {
    let mut lines = Vec::new();
    let gpus = if (all.gpus - 1.0).abs() < f64::EPSILON { "GPU" } else { "GPUs" };
    let what = match (all.shared, all.projects.iter().any(|it| it.on_loan > 0.0)) {
        (false, _) => "projects do not share GPUs: there is no quota, or the policy ignores quotas",
        (true, true) => "gpool reclaims borrowed GPUs when their project needs them",
        (true, false) => "no project borrows GPUs",
    };
    lines.push(format!("{} {gpus} · {what}", all.gpus));
    lines.extend(return_lines(&all.returns, view));
    lines.extend(all.warnings.iter().map(|warning| format!("note: {}", safe(warning))));
    lines.join("\n")
}
