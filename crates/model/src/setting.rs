//! The settings of a policy: one row for each, with functions that read and write it.

use crate::budget::{Budgets, OverBudget};
use crate::kind::OnIdle;
use crate::over_limit::OverLimit;
use crate::parse;
use crate::policy::{DeviceStrategy, OrderKey, PlannedStarts, Policy, ShareBetween};
use crate::price::Prices;
use crate::sharer::ShareWith;
use crate::unit::{GpuTime, MilliCpu, Millis};

/// One setting of a policy. To add one, add a field to [`Policy`] and a row to [`Setting::ALL`].
#[derive(Debug)]
pub struct Setting {
    /// Its name, in commands and in files.
    pub key: &'static str,
    /// Whether a pool may have its own value.
    pub of_pool: bool,
    /// Sets it from text. The error describes the fault.
    pub(crate) read: fn(&mut Policy, &str) -> Result<(), String>,
    /// Writes it in a form that `read` accepts.
    pub(crate) write: fn(&Policy) -> String,
}

/// For settings of the whole cluster.
const CLUSTER: bool = false;
/// For settings that a pool may have too.
const POOL: bool = true;

/// The row for a field of [`Policy`].
macro_rules! setting {
    ($field:ident, $of_pool:expr, $read:expr, $write:expr) => {
        Setting {
            key: stringify!($field),
            of_pool: $of_pool,
            read: |policy, text| {
                policy.$field = $read(text)?;
                Ok(())
            },
            write: |policy| $write(&policy.$field),
        }
    };
}

impl Setting {
    /// Every setting, in display order.
    pub const ALL: &'static [Self] = &[
        setting!(order, POOL, order, order_text),
        setting!(escalate_after, POOL, long, span_text),
        setting!(
            device_strategy,
            POOL,
            |text| parse_choice(text, &DeviceStrategy::ALL),
            strategy_text
        ),
        setting!(user_priority_max, CLUSTER, priority, i32::to_string),
        setting!(planned_starts, POOL, planned_starts, planned_starts_text),
        setting!(user_extend_max, CLUSTER, any_span, span_text),
        setting!(save_time_max, CLUSTER, any_span, span_text),
        setting!(
            share_between,
            CLUSTER,
            |text| parse_choice(text, &ShareBetween::ALL),
            |it: &ShareBetween| { it.as_str().to_owned() }
        ),
        setting!(lend, CLUSTER, yes_or_no, yes_or_no_text),
        setting!(reserved_only, CLUSTER, yes_or_no, yes_or_no_text),
        setting!(attained_levels, POOL, levels, levels_text),
        setting!(min_run, POOL, long, span_text),
        setting!(consolidate, POOL, yes_or_no, yes_or_no_text),
        setting!(mig_auto, POOL, yes_or_no, yes_or_no_text),
        setting!(share_with, POOL, |text| parse_choice(text, &ShareWith::ALL), |it: &ShareWith| {
            it.as_str().to_owned()
        }),
        setting!(idle, POOL, |text| parse_choice(text, &OnIdle::ALL), |it: &OnIdle| {
            it.as_str().to_owned()
        }),
        setting!(over_limit, POOL, |text| parse_choice(text, &OverLimit::ALL), |it: &OverLimit| {
            it.as_str().to_owned()
        }),
        setting!(use_half_life, CLUSTER, half_life, span_text),
        setting!(use_weight, CLUSTER, use_weight, |it: &u32| {
            MilliCpu::new(u64::from(*it)).to_string()
        }),
        setting!(prices, CLUSTER, str::parse, Prices::to_string),
        setting!(budgets, CLUSTER, str::parse, Budgets::to_string),
        setting!(
            over_budget,
            CLUSTER,
            |text| parse_choice(text, &OverBudget::ALL),
            |it: &OverBudget| { it.as_str().to_owned() }
        ),
    ];

    /// The setting with this name.
    #[must_use]
    pub fn find(key: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|setting| setting.key == key)
    }

    /// The names of all settings.
    pub fn keys() -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().map(|setting| setting.key)
    }
}

impl PlannedStarts {
    /// The largest number of planned starts other than `all`.
    pub const MOST: u32 = 100;
}

/// The longest duration of a setting.
const YEAR: Millis = Millis::from_hours(24 * 365);

/// A thousandth of an hour of one device.
const MILLI_HOUR: GpuTime = GpuTime::HOUR.div_floor(1000);

/// In thousandths; above this, any usage at all would use up a project's share.
const USE_WEIGHT_MAX: u32 = 10_000;

fn span(text: &str) -> Result<Millis, String> {
    parse::span(text).map_err(|error| error.to_string())
}

/// A duration, which may be zero.
fn any_span(text: &str) -> Result<Millis, String> {
    let span = span(text)?;
    if span > YEAR { Err(format!("{text} is more than 365d")) } else { Ok(span) }
}

fn long(text: &str) -> Result<Millis, String> {
    let span = span(text)?;
    let fits = !span.is_zero() && span <= YEAR;
    if fits { Ok(span) } else { Err(format!("{text} is not from 1s to 365d")) }
}

fn half_life(text: &str) -> Result<Millis, String> {
    let span = span(text)?;
    let fits = span >= Millis::from_mins(1) && span <= YEAR;
    if fits { Ok(span) } else { Err(format!("{text} is not from 1m to 365d")) }
}

/// In the largest unit that needs no fraction.
fn span_text(length: &Millis) -> String {
    let length = length.get();
    let units = [(3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    match units.into_iter().find(|(size, _)| length.is_multiple_of(*size)) {
        Some((size, unit)) => format!("{}{unit}", length / size),
        None => format!("{length}ms"),
    }
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    parse_choice(text, &[("yes", true), ("no", false)])
}

fn yes_or_no_text(answer: &bool) -> String {
    if *answer { "yes" } else { "no" }.to_owned()
}

/// The value with this name.
fn parse_choice<T: Copy>(text: &str, known: &[(&'static str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(word, _)| *word == text);
    let all = || known.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
    found.map(|(_, it)| *it).ok_or_else(|| format!("{text:?} is not one of {}", all()))
}

fn strategy_text(strategy: &DeviceStrategy) -> String {
    let found = DeviceStrategy::ALL.into_iter().find(|(_, it)| it == strategy);
    found.map_or_else(String::new, |(word, _)| word.to_owned())
}

fn priority(text: &str) -> Result<i32, String> {
    let most = text.parse().ok().filter(|most| (-1000..=1000).contains(most));
    most.ok_or_else(|| format!("{text:?} is not from -1000 to 1000"))
}

fn use_weight(text: &str) -> Result<u32, String> {
    let weight = parse::gpus(text).ok().and_then(|it| u32::try_from(it.get()).ok());
    let weight = weight.filter(|weight| *weight <= USE_WEIGHT_MAX);
    weight.ok_or_else(|| format!("{text:?} is not from 0 to 10"))
}

fn order(text: &str) -> Result<Vec<OrderKey>, String> {
    let mut keys = Vec::new();
    for word in text.split(',').map(str::trim) {
        let key = parse_choice(word, &OrderKey::ALL)?;
        if keys.contains(&key) {
            return Err(format!("{word} is given twice"));
        }
        keys.push(key);
    }
    Ok(keys)
}

fn order_text(keys: &[OrderKey]) -> String {
    keys.iter().map(|key| key.as_str()).collect::<Vec<_>>().join(",")
}

/// `1,10,100`: hours of one device.
fn levels(text: &str) -> Result<Vec<GpuTime>, String> {
    let hours = |word: &str| {
        let hours = parse::gpus(word.trim()).map_err(|error| error.to_string())?;
        let bound = MILLI_HOUR.checked_mul(hours.get());
        bound.ok_or_else(|| format!("{word:?} is too many GPU-hours"))
    };
    let levels = text.split(',').map(hours).collect::<Result<Vec<_>, _>>()?;
    let grow = levels.is_sorted_by(|one, next| one < next);
    if !grow || levels[0].is_zero() || levels.len() > Policy::LEVELS_MOST {
        let most = Policy::LEVELS_MOST;
        return Err(format!(
            "{text:?} is not a list of at most {most} increasing numbers of GPU-hours"
        ));
    }
    Ok(levels)
}

fn levels_text(levels: &[GpuTime]) -> String {
    let thousandths = |bound: &GpuTime| MilliCpu::new(bound.get() / MILLI_HOUR.get());
    let levels = levels.iter().map(|bound| thousandths(bound).to_string());
    levels.collect::<Vec<_>>().join(",")
}

fn planned_starts(text: &str) -> Result<PlannedStarts, String> {
    if text == "all" {
        return Ok(PlannedStarts::All);
    }
    let most = text.parse().ok().filter(|most| *most <= PlannedStarts::MOST);
    let wrong = || format!("{text:?} is not all, or a number from 0 to {}", PlannedStarts::MOST);
    most.map(PlannedStarts::AtMost).ok_or_else(wrong)
}

fn planned_starts_text(starts: &PlannedStarts) -> String {
    match starts {
        PlannedStarts::AtMost(most) => most.to_string(),
        PlannedStarts::All => "all".to_owned(),
    }
}
