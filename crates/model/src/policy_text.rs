//! Policies as people write them: presets with parameters, and single settings by key.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::id::{PoolName, is_plain_name};
use crate::parse;
use crate::policy::{DeviceStrategy, OrderKey, PlannedStarts, Policy, QuotaRules, ShareBetween};
use crate::unit::{GpuTime, MilliCpu, Millis};

/// A setting that can't be taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{key}: {why}")]
pub struct PolicyError {
    /// Which setting, or `preset`.
    pub key: String,
    /// What is wrong, and what would be right.
    pub why: String,
}

impl PlannedStarts {
    /// Most that may be asked for by number.
    pub const MOST: u32 = 100;
}

impl Policy {
    /// The names of all presets.
    pub const PRESETS: [&'static str; 9] =
        ["fair", "users", "fixed", "priority", "static", "fifo", "valohai", "las", "kai"];

    /// The keys of all settings.
    pub const KEYS: [&'static str; 16] = [
        "order",
        "escalate_after",
        "device_strategy",
        "user_priority_max",
        "planned_starts",
        "user_extend_max",
        "save_time_max",
        "share_between",
        "quota_rules",
        "lend",
        "reserved_only",
        "attained_levels",
        "min_run",
        "consolidate",
        "use_half_life",
        "use_weight",
    ];

    /// Those of them that a pool may have of its own.
    pub const POOL_KEYS: [&'static str; 7] = [
        "order",
        "escalate_after",
        "device_strategy",
        "planned_starts",
        "attained_levels",
        "min_run",
        "consolidate",
    ];

    /// In thousandths; beyond, any use at all would count as too much.
    const USE_WEIGHT_MAX: u32 = 10_000;

    /// Longest time after which jobs may escalate.
    const ESCALATE_MAX: Millis = Millis::from_hours(24 * 365);

    /// The preset of that name, with what is set otherwise behind a colon:
    /// `valohai:escalate_after=24h,planned_starts=all`.
    ///
    /// # Errors
    /// No preset has that name, or a setting can't be taken.
    pub fn from_preset(text: &str) -> Result<Self, PolicyError> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let mut policy = match name {
            "fair" => Self::fair(),
            "valohai" => Self::valohai(),
            "fifo" => Self::fifo(),
            "priority" => Self::priority(),
            "users" => Self::users(),
            "fixed" => Self::fixed(),
            "static" => Self::by_reservation(),
            "las" => Self::las(),
            "kai" => Self::kai(),
            _ => {
                let shown: String = name.chars().take(40).collect();
                let why = format!("there is no {shown:?}; there are {}", Self::PRESETS.join(", "));
                return Err(PolicyError { key: "preset".to_owned(), why });
            }
        };
        for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
            let Some((key, value)) = setting.split_once('=') else {
                let why = format!("{setting:?} sets nothing; write {name}:escalate_after=24h");
                return Err(PolicyError { key: "preset".to_owned(), why });
            };
            // Keys of the order are parted by a plus here, as commas part the settings.
            policy.set(key, &value.replace('+', ","))?;
        }
        Ok(policy)
    }

    /// Changes one setting; of a pool that is to have its own policy as `pool.batch.order`, all of
    /// them at once as `pool.batch`, which is a preset, or `none` for that of the cluster.
    ///
    /// # Errors
    /// There is no such setting, or it can't have that value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), PolicyError> {
        let mut changed = self.clone();
        match key.strip_prefix("pool.") {
            Some(of_pool) => changed.set_of_pool(key, of_pool, value)?,
            None => changed.set_own(key, value)?,
        }
        changed.align_pools();
        changed.check_pools().map_err(|why| PolicyError { key: key.to_owned(), why })?;
        *self = changed;
        Ok(())
    }

    fn set_of_pool(&mut self, key: &str, of_pool: &str, value: &str) -> Result<(), PolicyError> {
        let wrong = |why: String| PolicyError { key: key.to_owned(), why };
        let (name, setting) = match of_pool.rsplit_once('.') {
            Some((name, setting)) if Self::KEYS.contains(&setting) => (name, Some(setting)),
            _ => (of_pool, None),
        };
        if !is_plain_name(name) {
            let why = "the name of a pool stands behind it: pool.batch, pool.batch.order";
            return Err(wrong(why.to_owned()));
        }
        let pool = PoolName::new(name);
        let base = || Self { pools: BTreeMap::new(), ..self.clone() };
        let own = match setting {
            None if value == "none" => None,
            None => Some(Self::from_preset(value).map_err(|error| wrong(error.why))?),
            Some(setting) if Self::POOL_KEYS.contains(&setting) => {
                let mut own = self.pools.get(&pool).cloned().unwrap_or_else(base);
                own.set_own(setting, value).map_err(|error| wrong(error.why))?;
                Some(own)
            }
            Some(setting) => {
                let all = Self::POOL_KEYS.join(", ");
                let why = format!("{setting} is said of the whole cluster; a pool has {all}");
                return Err(wrong(why));
            }
        };
        if own.as_ref().is_some_and(|own| own.quota_rules != self.quota_rules) {
            let why = "kai is a policy of the whole cluster; take another preset";
            return Err(wrong(why.to_owned()));
        }
        match own {
            Some(own) => drop(self.pools.insert(pool, own)),
            None => drop(self.pools.remove(&pool)),
        }
        Ok(())
    }

    fn set_own(&mut self, key: &str, value: &str) -> Result<(), PolicyError> {
        let wrong = |why: String| {
            let example = Self::example(key).map(|value| format!("; write, for example, {value}"));
            PolicyError { key: key.to_owned(), why: why + &example.unwrap_or_default() }
        };
        match key {
            "order" => self.order = order(value).map_err(wrong)?,
            "escalate_after" => {
                let span = parse::span(value).map_err(|error| wrong(error.to_string()))?;
                if span.is_zero() || span > Self::ESCALATE_MAX {
                    return Err(wrong(format!("{value} is not from 1s to 365d")));
                }
                self.escalate_after = span;
            }
            "device_strategy" => {
                self.device_strategy = chosen(value, &DeviceStrategy::ALL).map_err(wrong)?;
            }
            "user_priority_max" => {
                let most = value.parse().ok().filter(|most| (-1000..=1000).contains(most));
                self.user_priority_max =
                    most.ok_or_else(|| wrong(format!("{value:?} is not from -1000 to 1000")))?;
            }
            "user_extend_max" | "save_time_max" => {
                let span = parse::span(value).map_err(|error| wrong(error.to_string()))?;
                if span > Self::ESCALATE_MAX {
                    return Err(wrong(format!("{value} is more than 365d")));
                }
                match key {
                    "save_time_max" => self.save_time_max = span,
                    _ => self.user_extend_max = span,
                }
            }
            "share_between" => {
                self.share_between = chosen(value, &ShareBetween::ALL).map_err(wrong)?;
            }
            "quota_rules" => self.quota_rules = chosen(value, &QuotaRules::ALL).map_err(wrong)?,
            "lend" => self.lend = chosen(value, &YES_OR_NO).map_err(wrong)?,
            "reserved_only" => self.reserved_only = chosen(value, &YES_OR_NO).map_err(wrong)?,
            "consolidate" => self.consolidate = chosen(value, &YES_OR_NO).map_err(wrong)?,
            "attained_levels" => self.attained_levels = levels(value).map_err(wrong)?,
            "min_run" => {
                let span = parse::span(value).map_err(|error| wrong(error.to_string()))?;
                if span.is_zero() || span > Self::ESCALATE_MAX {
                    return Err(wrong(format!("{value} is not from 1s to 365d")));
                }
                self.min_run = span;
            }
            "use_half_life" => {
                let span = parse::span(value).map_err(|error| wrong(error.to_string()))?;
                if span < Millis::from_mins(1) || span > Self::ESCALATE_MAX {
                    return Err(wrong(format!("{value} is not from 1m to 365d")));
                }
                self.use_half_life = span;
            }
            "use_weight" => {
                let weight = parse::gpus(value).ok().and_then(|it| u32::try_from(it.get()).ok());
                let weight = weight.filter(|weight| *weight <= Self::USE_WEIGHT_MAX);
                self.use_weight =
                    weight.ok_or_else(|| wrong(format!("{value:?} is not from 0 to 10")))?;
            }
            "planned_starts" => self.planned_starts = planned_starts(value).map_err(wrong)?,
            _ => {
                let why = format!("there is no such setting; there are {}", Self::KEYS.join(", "));
                return Err(wrong(why));
            }
        }
        Ok(())
    }

    /// A value that a setting can have.
    #[must_use]
    pub fn example(key: &str) -> Option<String> {
        let key = key.rsplit('.').next().unwrap_or(key);
        let all = Self::fair().settings();
        all.into_iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// Every setting as it is written, by key, those of pools with a policy of their own among
    /// them.
    #[must_use]
    pub fn all_settings(&self) -> BTreeMap<String, String> {
        let own = self.settings().map(|(key, value)| (key.to_owned(), value));
        let pools = self.pools.iter().flat_map(|(pool, policy)| {
            let settings = policy.settings().into_iter();
            let settings = settings.filter(|(key, _)| Self::POOL_KEYS.contains(key));
            settings.map(move |(key, value)| (format!("pool.{pool}.{key}"), value))
        });
        own.into_iter().chain(pools).collect()
    }

    /// Every setting as it is written, but those of pools.
    #[must_use]
    pub fn settings(&self) -> [(&'static str, String); 16] {
        let yes_or_no = |answer| if answer { "yes" } else { "no" }.to_owned();
        let order: Vec<&str> = self.order.iter().map(|key| key.as_str()).collect();
        let strategy = DeviceStrategy::ALL.into_iter().find(|(_, it)| *it == self.device_strategy);
        let planned = match self.planned_starts {
            PlannedStarts::AtMost(most) => most.to_string(),
            PlannedStarts::All => "all".to_owned(),
        };
        let thousandths = |bound: &GpuTime| MilliCpu::new(bound.get() / MILLI_HOUR.get());
        let levels = self.attained_levels.iter().map(|bound| thousandths(bound).to_string());
        let levels: Vec<String> = levels.collect();
        [
            ("order", order.join(",")),
            ("escalate_after", exact_span(self.escalate_after)),
            ("device_strategy", strategy.map_or_else(String::new, |(word, _)| word.to_owned())),
            ("user_priority_max", self.user_priority_max.to_string()),
            ("planned_starts", planned),
            ("user_extend_max", exact_span(self.user_extend_max)),
            ("save_time_max", exact_span(self.save_time_max)),
            ("share_between", self.share_between.as_str().to_owned()),
            ("quota_rules", self.quota_rules.as_str().to_owned()),
            ("lend", yes_or_no(self.lend)),
            ("reserved_only", yes_or_no(self.reserved_only)),
            ("attained_levels", levels.join(",")),
            ("min_run", exact_span(self.min_run)),
            ("consolidate", yes_or_no(self.consolidate)),
            ("use_half_life", exact_span(self.use_half_life)),
            ("use_weight", MilliCpu::new(u64::from(self.use_weight)).to_string()),
        ]
    }
}

const YES_OR_NO: [(&str, bool); 2] = [("yes", true), ("no", false)];

/// What a word stands for among others.
fn chosen<T: Copy>(value: &str, known: &[(&'static str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(word, _)| *word == value);
    let all = || known.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
    found.map(|(_, it)| *it).ok_or_else(|| format!("{value:?} is none of {}", all()))
}

fn order(value: &str) -> Result<Vec<OrderKey>, String> {
    let mut keys = Vec::new();
    for word in value.split(',').map(str::trim) {
        let known = OrderKey::ALL.into_iter().find(|(name, _)| *name == word);
        let all = || OrderKey::ALL.map(|(name, _)| name).join(", ");
        let (_, key) = known.ok_or_else(|| format!("{word:?} is none of {}", all()))?;
        if keys.contains(&key) {
            return Err(format!("{word} stands there twice"));
        }
        keys.push(key);
    }
    Ok(keys)
}

/// A thousandth of an hour of one device.
const MILLI_HOUR: GpuTime = GpuTime::HOUR.div_floor(1000);

/// `1,10,100`: hours of one device.
fn levels(value: &str) -> Result<Vec<GpuTime>, String> {
    let hours = |word: &str| {
        let hours = parse::gpus(word.trim()).map_err(|error| error.to_string())?;
        let bound = MILLI_HOUR.checked_mul(hours.get());
        bound.ok_or_else(|| format!("{word:?} are too many GPU-hours"))
    };
    let levels = value.split(',').map(hours).collect::<Result<Vec<_>, _>>()?;
    let grow = levels.is_sorted_by(|one, next| one < next);
    if !grow || levels[0].is_zero() || levels.len() > Policy::LEVELS_MOST {
        let most = Policy::LEVELS_MOST;
        return Err(format!("{value:?} are not up to {most} numbers of GPU-hours that grow"));
    }
    Ok(levels)
}

fn planned_starts(value: &str) -> Result<PlannedStarts, String> {
    if value == "all" {
        return Ok(PlannedStarts::All);
    }
    let most = value.parse().ok().filter(|most| *most <= PlannedStarts::MOST);
    let wrong = || format!("{value:?} is neither all nor from 0 to {}", PlannedStarts::MOST);
    most.map(PlannedStarts::AtMost).ok_or_else(wrong)
}

/// A length of time in the largest unit that says it exactly.
fn exact_span(length: Millis) -> String {
    let length = length.get();
    let units = [(3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    match units.into_iter().find(|(size, _)| length.is_multiple_of(*size)) {
        Some((size, unit)) => format!("{}{unit}", length / size),
        None => format!("{length}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_what_its_settings_say() {
        for name in Policy::PRESETS {
            let preset = Policy::from_preset(name).expect("it is a preset");
            assert_eq!(preset.preset, name);
            let mut again = Policy { preset: name.to_owned(), ..Policy::fair() };
            for (key, value) in preset.settings() {
                again.set(key, &value).expect("settings are read as they are written");
            }
            assert_eq!(again, preset);
            assert_eq!(preset.settings().map(|(key, _)| key), Policy::KEYS);
        }
    }

    #[test]
    fn a_preset_takes_parameters() {
        let text = "valohai:escalate_after=24h,planned_starts=all,order=escalated+age";
        let policy = Policy::from_preset(text).expect("valid");
        assert_eq!(policy.escalate_after, Millis::from_hours(24));
        assert_eq!(policy.planned_starts, PlannedStarts::All);
        assert_eq!(policy.order, [OrderKey::Escalated, OrderKey::Age]);
    }

    #[test]
    fn a_pool_has_settings_of_its_own_and_all_others_of_the_cluster() {
        let mut policy = Policy::fair();
        policy.set("pool.batch.order", "age").expect("valid");
        policy.set("pool.a.b", "las:min_run=1h").expect("valid");
        policy.set("lend", "no").expect("valid");
        policy.set("planned_starts", "3").expect("valid");
        let batch = policy.of_pool(Some(&PoolName::new("batch")));
        assert_eq!((&batch.order[..], batch.lend), (&[OrderKey::Age][..], false));
        // What it began with stays its own.
        assert_eq!(batch.planned_starts, PlannedStarts::AtMost(1));
        let other = policy.of_pool(Some(&PoolName::new("a.b")));
        assert_eq!((other.min_run, other.lend), (Millis::from_hours(1), false));
        assert!(other.asks_attained());
        assert_eq!(policy.of_pool(None), &policy);
        let mut again = Policy::fair();
        for (key, value) in policy.all_settings() {
            again.set(&key, &value).expect("settings are read as they are written");
        }
        assert_eq!(again.all_settings(), policy.all_settings());
        policy.set("pool.batch", "none").expect("valid");
        policy.set("pool.a.b", "none").expect("valid");
        assert!(policy.pools.is_empty());
    }

    #[test]
    fn what_can_not_be_taken_is_refused_by_its_key() {
        for (key, value) in [
            ("order", "age,size"),
            ("order", "age,age"),
            ("order", ""),
            ("escalate_after", "0"),
            ("escalate_after", "soon"),
            ("escalate_after", "400d"),
            ("device_strategy", "best"),
            ("user_priority_max", "1001"),
            ("user_priority_max", "1.5"),
            ("planned_starts", "101"),
            ("planned_starts", "-1"),
            ("share_between", "friends"),
            ("quota_rules", "mine"),
            ("lend", "maybe"),
            ("reserved_only", "1"),
            ("attained_levels", ""),
            ("attained_levels", "10,1"),
            ("attained_levels", "0,1"),
            ("attained_levels", "1,2,3,4,5,6,7,8,9"),
            ("attained_levels", "99999999999999"),
            ("min_run", "0"),
            ("consolidate", "1"),
            ("use_half_life", "1s"),
            ("use_weight", "11"),
            ("use_weight", "-1"),
            ("shape", "round"),
            ("pool.", "fifo"),
            ("pool.4", "fifo"),
            ("pool.batch", "kai"),
            ("pool.batch", "best"),
            ("pool.batch.order", "size"),
            ("pool.batch.lend", "no"),
            ("pool.batch.order.age", "1"),
        ] {
            let mut policy = Policy::fair();
            let error = policy.set(key, value).expect_err(value);
            assert_eq!((error.key.as_str(), &policy), (key, &Policy::fair()), "{value}");
        }
        for text in ["best", "lase", "fair:order", "fair:nothing=1", ""] {
            assert!(Policy::from_preset(text).is_err(), "{text}");
        }
    }
}
