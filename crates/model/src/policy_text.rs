//! Policies as text: presets with parameters, and single settings by key.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::id::{PoolName, is_plain_name};
use crate::policy::Policy;
use crate::setting::Setting;

/// A setting that is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{key}: {why}")]
pub struct PolicyError {
    /// The setting, or `preset`.
    pub key: String,
    /// The error and a correction.
    pub why: String,
}

impl Policy {
    /// The names of all presets.
    pub const PRESETS: [&'static str; 8] =
        ["fair", "users", "fixed", "priority", "static", "fifo", "valohai", "las"];

    /// Why preset `kai` is refused.
    const NO_KAI: &str = "gpool has no preset kai; preset fair guarantees quotas, lends idle GPUs \
                          and reclaims them, and gpool help runai lists its differences from \
                          Run:ai and KAI";

    /// The preset with this name, with changed settings after a colon:
    /// `valohai:escalate_after=24h,planned_starts=all`.
    ///
    /// # Errors
    /// No preset has that name, or a setting is invalid.
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
            "kai" => {
                let why = Self::NO_KAI.to_owned();
                return Err(PolicyError { key: "preset".to_owned(), why });
            }
            _ => {
                let shown: String = name.chars().take(40).collect();
                let why = format!(
                    "there is no preset {shown:?}; the presets are {}",
                    Self::PRESETS.join(", ")
                );
                return Err(PolicyError { key: "preset".to_owned(), why });
            }
        };
        for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
            let Some((key, value)) = setting.split_once('=') else {
                let why = format!("{setting:?} has no value; write {name}:escalate_after=24h");
                return Err(PolicyError { key: "preset".to_owned(), why });
            };
            // The keys of the order are separated by `+` here, because commas separate the
            // settings.
            policy.set(key, &value.replace('+', ","))?;
        }
        Ok(policy)
    }

    /// Changes one setting. `pool.batch.order` sets it for a pool with a policy of its own;
    /// `pool.batch` sets the whole policy of the pool: a preset, or `none` for the cluster's
    /// policy.
    ///
    /// # Errors
    /// There is no such setting, or the value is invalid.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), PolicyError> {
        let mut changed = self.clone();
        match key.strip_prefix("pool.") {
            Some(of_pool) => changed.set_of_pool(key, of_pool, value)?,
            None => changed.set_own(key, value)?,
        }
        changed.align_pools();
        *self = changed;
        Ok(())
    }

    fn set_of_pool(&mut self, key: &str, of_pool: &str, value: &str) -> Result<(), PolicyError> {
        let wrong = |why: String| PolicyError { key: key.to_owned(), why };
        let (name, setting) = match of_pool.rsplit_once('.') {
            Some((name, key)) if Setting::find(key).is_some() => (name, Setting::find(key)),
            _ => (of_pool, None),
        };
        if !is_plain_name(name) {
            let why = "pool. needs the name of a pool: pool.batch, pool.batch.order";
            return Err(wrong(why.to_owned()));
        }
        let pool = PoolName::new(name);
        let base = || Self { pools: BTreeMap::new(), ..self.clone() };
        let own = match setting {
            None if value == "none" => None,
            None => Some(Self::from_preset(value).map_err(|error| wrong(error.why))?),
            Some(setting) if setting.of_pool => {
                let mut own = self.pools.get(&pool).cloned().unwrap_or_else(base);
                own.set_own(setting.key, value).map_err(|error| wrong(error.why))?;
                Some(own)
            }
            Some(setting) => {
                let of_pools = Setting::ALL.iter().filter(|it| it.of_pool).map(|it| it.key);
                let all = of_pools.collect::<Vec<_>>().join(", ");
                let why = format!(
                    "{} can only be set for the whole cluster; settings of pools are {all}",
                    setting.key
                );
                return Err(wrong(why));
            }
        };
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
        let Some(setting) = Setting::find(key) else {
            let all = Setting::keys().collect::<Vec<_>>().join(", ");
            return Err(wrong(format!("there is no such setting; the settings are {all}")));
        };
        (setting.read)(self, value).map_err(wrong)
    }

    /// A valid value of a setting.
    #[must_use]
    pub fn example(key: &str) -> Option<String> {
        let key = key.rsplit('.').next().unwrap_or(key);
        let all = Self::fair().settings();
        all.into_iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// Every setting as text, by key, including those of pools.
    #[must_use]
    pub fn all_settings(&self) -> BTreeMap<String, String> {
        let own = self.settings().into_iter().map(|(key, value)| (key.to_owned(), value));
        let pools = self.pools.iter().flat_map(|(pool, policy)| {
            let settings = policy.settings().into_iter();
            let settings = settings
                .filter(|(key, _)| Setting::find(key).is_some_and(|setting| setting.of_pool));
            settings.map(move |(key, value)| (format!("pool.{pool}.{key}"), value))
        });
        own.into_iter().chain(pools).collect()
    }

    /// Every setting as text, except those of pools.
    #[must_use]
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        Setting::ALL.iter().map(|setting| (setting.key, (setting.write)(self))).collect()
    }
}
