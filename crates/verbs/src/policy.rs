//! `gpool policy`: shows, changes and compares the settings of the scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use gpool_cli::errors::INVALID;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::json;
use gpool_cli::render::safe::safe;
use gpool_cli::render::view::View;
use gpool_cli::session::Session;
use gpool_model::{Policy, Setting};
use gpool_wire::{PolicyInfo, PolicyPatch, StartChange, Time};

#[derive(Debug, Clone, Args)]
pub struct PolicyArgs {
    #[command(subcommand)]
    verb: PolicyAction,
}

#[derive(Debug, Clone, Subcommand)]
enum PolicyAction {
    /// Show every setting with its value
    Show {
        /// Print a file for policy set --file
        #[arg(long)]
        toml: bool,
    },
    /// Change settings; the next decision uses them
    Set {
        /// Settings, e.g. escalate_after=2h; of one pool, e.g. pool.batch=fifo or
        /// pool.batch.order=age
        #[arg(value_name = "KEY=VALUE", required_unless_present_any = ["preset", "file"])]
        settings: Vec<String>,
        /// Preset to start from: fair, users, fixed, priority, static, fifo, valohai or las; with
        /// changes e.g. valohai:escalate_after=24h
        #[arg(long, value_name = "NAME")]
        preset: Option<String>,
        /// File with settings, as policy show --toml prints it
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Show the changes without making them
        #[arg(long)]
        dry_run: bool,
    },
    /// Compare the settings with a preset or a file
    Diff {
        /// Preset or file (default: the preset in use)
        #[arg(value_name = "PRESET|FILE")]
        with: Option<String>,
    },
}

/// Runs the verb.
pub fn run(args: PolicyArgs, session: &Session) -> Result {
    let client = session.client()?;
    match args.verb {
        PolicyAction::Show { toml } => {
            let policy = client.policy()?;
            let text = match (session.global.json, toml) {
                (true, _) => json::one(&policy),
                (_, true) => as_toml(&policy),
                _ => as_text(&policy),
            };
            session.screen.data(&text)?;
        }
        PolicyAction::Set { settings, preset, file, dry_run } => {
            let mut set = BTreeMap::new();
            let mut preset = preset;
            if let Some(file) = file {
                let (of_file, from) = read(&file)?;
                preset = preset.or(from);
                set.extend(of_file);
            }
            for setting in settings {
                let Some((key, value)) = setting.split_once('=') else {
                    let what = format!("{setting:?} sets nothing");
                    return Err(usage(what).tip("write KEY=VALUE: escalate_after=2h"));
                };
                set.insert(key.trim().to_owned(), value.trim().to_owned());
            }
            set.keys().try_for_each(|key| check_key(key))?;
            let before = client.policy()?;
            let patch = PolicyPatch { preset, set, dry_run, ..PolicyPatch::default() };
            let after = client.change_policy(&patch)?;
            show(&before, &after, session)?;
            after.notes.iter().for_each(|note| session.screen.note(&safe(note)));
            let pools: Vec<String> = client.pools()?.items.into_iter().map(|it| it.name).collect();
            for pool in pools_of(&patch.set).filter(|pool| !pools.contains(pool)) {
                session.screen.note(&format!("no node is in pool {pool} yet"));
            }
        }
        PolicyAction::Diff { with } => {
            let policy = client.policy()?;
            let other = other(with.as_deref().unwrap_or(&policy.preset))?;
            show(&other, &policy, session)?;
        }
    }
    Ok(Exit::OK)
}

/// The pools with own settings.
fn pools_of(set: &BTreeMap<String, String>) -> impl Iterator<Item = String> {
    let of = |key: &String| {
        let of_pool = key.strip_prefix("pool.")?;
        let named = of_pool.rsplit_once('.').filter(|(_, last)| Setting::find(last).is_some());
        Some(named.map_or(of_pool, |(pool, _)| pool).to_owned())
    };
    let pools: BTreeSet<String> = set.keys().filter_map(of).collect();
    pools.into_iter()
}

/// Prints the differences; as JSON, the policies before and after.
fn show(before: &PolicyInfo, after: &PolicyInfo, session: &Session) -> Result<()> {
    let text = match session.global.json {
        true => json::one(serde_json::json!({ "before": before, "after": after })),
        false => changes(before, after) + &starts(after, &session.view()),
    };
    session.screen.data(&text)
}

/// Refuses an unknown setting and suggests the nearest.
fn check_key(key: &str) -> Result<()> {
    // The server has better messages for settings of pools.
    if Setting::find(key).is_some() || key.starts_with("pool.") {
        return Ok(());
    }
    let shown: String = key.chars().take(40).collect();
    let failure = usage(format!("there is no setting {shown:?}"));
    let failure =
        failure.why(format!("the settings are {}", Setting::keys().collect::<Vec<_>>().join(", ")));
    Err(match gpool_wire::json::nearest(key, Setting::keys()) {
        Some(near) => failure.tip(format!("{near}={}", Policy::example(near).unwrap_or_default())),
        None => failure,
    })
}

fn usage(what: String) -> Failure {
    Failure::new(INVALID, what)
}

/// The policy of a preset or a file.
fn other(name: &str) -> Result<PolicyInfo> {
    let path = Path::new(name);
    if !path.is_file() {
        let policy = Policy::from_preset(name).map_err(|error| usage(error.to_string()))?;
        return Ok(PolicyInfo::from(&policy));
    }
    let (settings, preset) = read(path)?;
    let preset = preset.unwrap_or_else(|| "fair".to_owned());
    let wrong = |error: gpool_model::policy_text::PolicyError| usage(error.to_string());
    let mut policy = Policy::from_preset(&preset).map_err(wrong)?;
    for (key, value) in settings {
        policy.set(&key, &value).map_err(wrong)?;
    }
    Ok(PolicyInfo::from(&policy))
}

/// The settings of a file, and the preset that it starts from.
fn read(path: &Path) -> Result<(BTreeMap<String, String>, Option<String>)> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| usage(format!("can't read {shown}: {error}")))?;
    let table: toml::Table =
        text.parse().map_err(|error| usage(format!("{shown} is not TOML: {error}")))?;
    let mut settings = BTreeMap::new();
    let mut preset = None;
    let mut left: Vec<(String, toml::Value)> = table.into_iter().collect();
    while let Some((key, value)) = left.pop() {
        let value = match value {
            toml::Value::Table(inner) => {
                left.extend(inner.into_iter().map(|(at, value)| (format!("{key}.{at}"), value)));
                continue;
            }
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Array(list) => {
                let words = list.iter().map(|word| word.as_str().map(str::to_owned));
                let words: Option<Vec<String>> = words.collect();
                words
                    .ok_or_else(|| usage(format!("{shown}: {key} is not a list of words")))?
                    .join(",")
            }
            _ => return Err(usage(format!("{shown}: {key} is not text or a number"))),
        };
        match key.as_str() {
            "preset" => preset = Some(value),
            _ => drop(settings.insert(key, value)),
        }
    }
    Ok((settings, preset))
}

/// The policy as a settings file.
fn as_toml(policy: &PolicyInfo) -> String {
    let mut text = format!("preset = {:?}\n", policy.preset);
    for (key, value) in &policy.settings {
        text.push_str(&match value.parse::<i64>() {
            Ok(number) => format!("{key} = {number}\n"),
            Err(_) => format!("{key} = {value:?}\n"),
        });
    }
    text
}

fn as_text(policy: &PolicyInfo) -> String {
    let mut text = format!("{:18} {}\n", "preset", policy.preset);
    for (key, value) in &policy.settings {
        text.push_str(&format!("{key:18} {value}\n"));
    }
    text
}

/// The jobs that would start at another time, one line each.
fn starts(after: &PolicyInfo, view: &View<'_>) -> String {
    let moment = |at: Option<Time>| {
        at.map_or_else(|| "unknown".to_owned(), |at| view.clock.short(at, view.now))
    };
    let line = |it: &StartChange| {
        let (job, user) = (&it.job, safe(&it.user));
        let (before, after) = (moment(it.before), moment(it.after));
        let way = match (it.before, it.after) {
            (Some(before), Some(after)) if after < before => "earlier",
            (None, Some(_)) => "earlier",
            _ => "later",
        };
        format!("job {job} ({user}) would start {way}: {before} → {after}\n")
    };
    after.starts.iter().map(line).collect()
}

/// The differences, one line each: the setting, its value before and after.
fn changes(before: &PolicyInfo, after: &PolicyInfo) -> String {
    let mut text = String::new();
    if before.preset != after.preset {
        text.push_str(&format!("{:18} {} → {}\n", "preset", before.preset, after.preset));
    }
    for (key, value) in &after.settings {
        let was = before.settings.get(key).map_or("", String::as_str);
        if was != value {
            text.push_str(&format!("{key:18} {was} → {value}\n"));
        }
    }
    for (key, was) in before.settings.iter().filter(|(key, _)| !after.settings.contains_key(*key)) {
        text.push_str(&format!("{key:18} {was} → as in the cluster\n"));
    }
    if text.is_empty() {
        text.push_str("nothing differs\n");
    }
    text
}
