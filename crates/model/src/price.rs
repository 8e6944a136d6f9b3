//! Prices of GPU time and energy, each for its time: a change does not apply to earlier time.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::{NodeName, PoolName, is_plain_name};
use crate::pattern::ModelPattern;
use crate::unit::Timestamp;

/// An amount of money, in millionths of the currency.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Money(u64);

impl Money {
    /// One unit of the currency.
    const ONE: u64 = 1_000_000;
    /// The largest amount; a larger one is a typing error.
    const MOST: u64 = 1_000_000_000_000 * Self::ONE;

    /// The amount in millionths of the currency.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }

    /// This number of millionths of the currency.
    #[must_use]
    pub fn from_millionths(millionths: u64) -> Self {
        Self(millionths)
    }

    /// Reads an amount such as `2` or `0.25`.
    ///
    /// # Errors
    /// It is not a number with at most six decimals, or too large.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{:?} is not an amount of money; write 2 or 0.25", excerpt(text));
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !is_number(whole) || !is_number(part) || part.len() > 6 {
            return Err(wrong());
        }
        let whole: u64 = whole.parse().map_err(|_| wrong())?;
        let part: u64 = format!("{part:0<6}").parse().map_err(|_| wrong())?;
        let amount = whole.checked_mul(Self::ONE).and_then(|it| it.checked_add(part));
        amount.filter(|amount| *amount <= Self::MOST).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0.div_euclid(Self::ONE), self.0 % Self::ONE);
        let text = format!("{whole}.{part:06}");
        f.pad(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Prices of an hour of one GPU and of a kilowatt-hour. Written as one setting:
/// `currency=EUR,gpu=1,model.h100=2.5,pool.spare=0.5,node.lab7=0,energy=0.25`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Prices {
    /// The currency, such as `EUR`.
    pub currency: String,
    /// The price of GPUs without another price.
    pub gpu: Option<Money>,
    /// Prices by model.
    pub models: BTreeMap<ModelPattern, Money>,
    /// Prices by pool.
    pub pools: BTreeMap<PoolName, Money>,
    /// Prices by node.
    pub nodes: BTreeMap<NodeName, Money>,
    /// The price of a kilowatt-hour.
    pub energy: Option<Money>,
}

impl Prices {
    const EXAMPLE: &str = "currency=EUR,gpu=1,model.h100=2.5,pool.spare=0.5,energy=0.25";
    const NONE: &str = "none";

    /// Whether nothing has a price.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The price of an hour of a GPU. The most specific one applies: of its node, its pool, its
    /// model, any GPU; of two models, the longer text.
    #[must_use]
    pub fn of(&self, node: &str, pool: &str, model: &str) -> Option<Money> {
        let of_model = || {
            let models = self.models.iter().filter(|(pattern, _)| pattern.matches(model));
            models.max_by_key(|(pattern, _)| pattern.as_str().len()).map(|(_, price)| price)
        };
        let of_node = self.nodes.iter().find(|(name, _)| name.as_str() == node);
        let of_pool = || self.pools.iter().find(|(name, _)| name.as_str() == pool);
        let of_place = of_node.map(|(_, price)| price).or_else(|| of_pool().map(|(_, it)| it));
        of_place.or_else(of_model).copied().or(self.gpu)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        if key == "currency" {
            let is_code = value.len() == 3 && value.bytes().all(|b| b.is_ascii_uppercase());
            self.currency = match is_code {
                true => value.to_owned(),
                false => return Err(format!("{:?} is not a currency; write EUR", excerpt(value))),
            };
            return Ok(());
        }
        let price = Money::parse(value)?;
        let named = |name: &str| match is_plain_name(name) {
            true => Ok(name.to_owned()),
            false => Err(format!("{:?} is not a name", excerpt(name))),
        };
        match key.split_once('.') {
            None if key == "gpu" => self.gpu = Some(price),
            None if key == "energy" => self.energy = Some(price),
            // A model may be a number.
            Some(("model", model)) if is_plain_name(&format!("m{model}")) => {
                self.models.insert(ModelPattern::new(model), price);
            }
            Some(("pool", pool)) => drop(self.pools.insert(PoolName::new(named(pool)?), price)),
            Some(("node", node)) => drop(self.nodes.insert(NodeName::new(named(node)?), price)),
            _ => {
                return Err(format!(
                    "there is no price of {:?}; write gpu, model.NAME, pool.NAME, node.NAME, \
                     energy or currency",
                    excerpt(key)
                ));
            }
        }
        Ok(())
    }
}

fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
}

impl FromStr for Prices {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut prices = Self::default();
        if text == Self::NONE {
            return Ok(prices);
        }
        for part in text.split(',').map(str::trim) {
            let example = |why: String| format!("{why}; an example is {}", Self::EXAMPLE);
            let Some((key, value)) = part.split_once('=') else {
                return Err(example(format!("{:?} sets no price", excerpt(part))));
            };
            prices.set(key.trim(), value.trim()).map_err(example)?;
        }
        if prices.currency.is_empty() {
            return Err(format!("it has no currency; an example is {}", Self::EXAMPLE));
        }
        Ok(prices)
    }
}

impl TryFrom<String> for Prices {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Prices> for String {
    fn from(prices: Prices) -> Self {
        prices.to_string()
    }
}

impl fmt::Display for Prices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.pad(Self::NONE);
        }
        write!(f, "currency={}", self.currency)?;
        if let Some(price) = self.gpu {
            write!(f, ",gpu={price}")?;
        }
        for (model, price) in &self.models {
            write!(f, ",model.{}={price}", model.as_str())?;
        }
        for (pool, price) in &self.pools {
            write!(f, ",pool.{pool}={price}")?;
        }
        for (node, price) in &self.nodes {
            write!(f, ",node.{node}={price}")?;
        }
        if let Some(price) = self.energy {
            write!(f, ",energy={price}")?;
        }
        Ok(())
    }
}

/// Prices that applied until another list replaced them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastPrices {
    /// When they were replaced.
    pub until: Timestamp,
    /// The prices.
    pub prices: Prices,
}
