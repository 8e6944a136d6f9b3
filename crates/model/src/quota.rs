//! Quotas of projects, one for each kind of resource. Only data: the scheduler computes fair shares
//! from them.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::parse::{self, ParseError};
use crate::resource::ResourceKind;

/// An amount of one kind of resource in the kind's own unit, or no bound. No number stands for
/// "unlimited".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(u64);

impl Amount {
    /// Nothing at all.
    pub const NOTHING: Self = Self(0);
    /// No bound; more than any other amount.
    pub const UNLIMITED: Self = Self(u64::MAX);
    /// The largest finite amount: 64 PiB, or 72 million million devices. Products of two such
    /// amounts and a weight fit into 128 bits.
    pub const MOST: u64 = 1 << 56;

    /// This amount; `None` above [`Self::MOST`].
    #[must_use]
    pub const fn of(amount: u64) -> Option<Self> {
        if amount <= Self::MOST { Some(Self(amount)) } else { None }
    }

    /// This amount, at most [`Self::MOST`]: for values that were counted, not read.
    #[must_use]
    pub const fn saturating_of(amount: u64) -> Self {
        if amount <= Self::MOST { Self(amount) } else { Self(Self::MOST) }
    }

    /// The number; `None` if it is unlimited.
    #[must_use]
    pub const fn finite(self) -> Option<u64> {
        if self.is_unlimited() { None } else { Some(self.0) }
    }

    /// Whether it is unlimited.
    #[must_use]
    pub const fn is_unlimited(self) -> bool {
        self.0 == u64::MAX
    }

    /// Whether `amount` is at most this.
    #[must_use]
    pub const fn allows(self, amount: u64) -> bool {
        self.is_unlimited() || amount <= self.0
    }

    /// The smaller of `amount` and this.
    #[must_use]
    pub const fn cut(self, amount: u64) -> u64 {
        if self.allows(amount) { amount } else { self.0 }
    }

    /// The sum; unlimited if either is.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        match (self.finite(), other.finite()) {
            (Some(one), Some(two)) => Self::saturating_of(one + two),
            (None, _) | (_, None) => Self::UNLIMITED,
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.finite() {
            Some(amount) => serializer.serialize_u64(amount),
            None => serializer.serialize_str("unlimited"),
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AmountVisitor)
    }
}

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number up to {}, or \"unlimited\"", Amount::MOST)
    }

    fn visit_u64<E: de::Error>(self, amount: u64) -> Result<Amount, E> {
        Amount::of(amount).ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(amount), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
        match text {
            "unlimited" => Ok(Amount::UNLIMITED),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }
}

/// A project's share of the capacity without a guarantee, in thousandths; only the ratio to the
/// weights of its siblings matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Weight(u32);

impl Weight {
    /// No share beyond the guarantee. The project may still use idle capacity.
    pub const NONE: Self = Self(0);
    /// The default weight of a project.
    pub const ONE: Self = Self(1000);
    /// The largest weight: a million.
    pub const MOST: Self = Self(1_000_000_000);

    /// Reads a weight: `2`, `0.5`.
    ///
    /// # Errors
    /// The position of the first character that can't be part of one; more than three decimals;
    /// more than a million.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let expected = "a weight of at most a million";
        let thousandths = u32::try_from(parse::thousandths(text, expected)?).ok();
        let weight = thousandths.and_then(Self::from_thousandths);
        weight.ok_or_else(|| ParseError::new(expected, text, 0, "4 or 0.5"))
    }

    /// A weight in thousandths; `None` above [`Self::MOST`].
    #[must_use]
    pub const fn from_thousandths(thousandths: u32) -> Option<Self> {
        if thousandths <= Self::MOST.0 { Some(Self(thousandths)) } else { None }
    }

    /// In thousandths.
    #[must_use]
    pub const fn thousandths(self) -> u32 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::ONE
    }
}

impl From<Weight> for u32 {
    fn from(weight: Weight) -> Self {
        weight.0
    }
}

impl TryFrom<u32> for Weight {
    type Error = String;

    fn try_from(thousandths: u32) -> Result<Self, String> {
        Self::from_thousandths(thousandths)
            .ok_or_else(|| format!("a weight is at most {} thousandths", Self::MOST.0))
    }
}

/// The quota of a project for one kind of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Quota {
    /// The guarantee: the project gets it whenever it asks. Absent: nothing for a leaf, the sum of
    /// the children's guarantees for a department.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guaranteed: Option<Amount>,
    /// The limit, which the project never exceeds.
    #[serde(default = "no_limit", skip_serializing_if = "is_no_limit")]
    pub limit: Amount,
    /// The weight in the capacity without a guarantee.
    #[serde(default, skip_serializing_if = "is_default_weight")]
    pub weight: Weight,
}

impl Default for Quota {
    fn default() -> Self {
        Self { guaranteed: None, limit: Amount::UNLIMITED, weight: Weight::ONE }
    }
}

fn no_limit() -> Amount {
    Amount::UNLIMITED
}

fn is_no_limit(limit: &Amount) -> bool {
    limit.is_unlimited()
}

fn is_default_weight(weight: &Weight) -> bool {
    *weight == Weight::ONE
}

/// A project's quota of each kind. A kind without a quota is not counted: neither guaranteed nor
/// limited, and shared by weight.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Quotas {
    quotas: BTreeMap<ResourceKind, Quota>,
}

impl Quotas {
    /// The quota of one kind.
    #[must_use]
    pub fn get(&self, kind: &ResourceKind) -> Option<Quota> {
        self.quotas.get(kind).copied()
    }

    /// Sets the quota of one kind.
    pub fn set(&mut self, kind: ResourceKind, quota: Quota) {
        self.quotas.insert(kind, quota);
    }

    /// Sets the quota of one kind; removes it if it is the default.
    pub fn agree(&mut self, kind: ResourceKind, quota: Quota) {
        match quota == Quota::default() {
            true => self.remove(&kind),
            false => self.set(kind, quota),
        }
    }

    /// Removes the quota of one kind.
    pub fn remove(&mut self, kind: &ResourceKind) {
        self.quotas.remove(kind);
    }

    /// The quotas by kind, in the order of [`ResourceKind`].
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceKind, Quota)> {
        self.quotas.iter().map(|(kind, quota)| (kind, *quota))
    }
}

impl Serialize for Quotas {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.quotas.iter())
    }
}

impl<'de> Deserialize<'de> for Quotas {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let quotas = Vec::<(ResourceKind, Quota)>::deserialize(deserializer)?;
        Ok(Self { quotas: quotas.into_iter().collect() })
    }
}
