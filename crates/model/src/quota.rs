//! What a project is promised and forbidden, one quota for each kind of resource. Words only: what
//! a project may have at a moment is worked out from them by the scheduler.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::parse::{self, ParseError};
use crate::resource::ResourceKind;

/// How much of one kind, in the kind's own unit, or as much as there is. Nothing and no bound are
/// two values of one type, and no number stands for either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(u64);

impl Amount {
    /// Nothing at all.
    pub const NOTHING: Self = Self(0);
    /// As much as there is; more than any other amount.
    pub const UNLIMITED: Self = Self(u64::MAX);
    /// The largest amount that can be named: 64 PiB, or 72 million million devices. Products of
    /// two such amounts and a weight stay within 128 bits.
    pub const MOST: u64 = 1 << 56;

    /// So much; `None` above [`Self::MOST`], which nobody can mean.
    #[must_use]
    pub const fn of(amount: u64) -> Option<Self> {
        if amount <= Self::MOST { Some(Self(amount)) } else { None }
    }

    /// So much, at most [`Self::MOST`]: for what was counted, not for what was written.
    #[must_use]
    pub const fn counted(amount: u64) -> Self {
        if amount <= Self::MOST { Self(amount) } else { Self(Self::MOST) }
    }

    /// How much; `None` if it is unlimited.
    #[must_use]
    pub const fn finite(self) -> Option<u64> {
        if self.is_unlimited() { None } else { Some(self.0) }
    }

    /// True if there is no bound.
    #[must_use]
    pub const fn is_unlimited(self) -> bool {
        self.0 == u64::MAX
    }

    /// True if that much is not more than this.
    #[must_use]
    pub const fn allows(self, amount: u64) -> bool {
        self.is_unlimited() || amount <= self.0
    }

    /// That much, cut down to this.
    #[must_use]
    pub const fn cut(self, amount: u64) -> u64 {
        if self.allows(amount) { amount } else { self.0 }
    }

    /// Both together; unlimited if either is.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        match (self.finite(), other.finite()) {
            (Some(one), Some(two)) => Self::counted(one + two),
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

/// A project's part of what is left over, in thousandths; only its proportion to the weights of
/// its siblings matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Weight(u32);

impl Weight {
    /// The project claims nothing beyond what it is guaranteed. It may use what stands idle.
    pub const NONE: Self = Self(0);
    /// The weight of a project for which none was written.
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

    /// So many thousandths; `None` above [`Self::MOST`].
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

/// What a project is promised and forbidden of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Quota {
    /// What it gets whenever it asks. Absent: nothing for a leaf, for a department what its
    /// children are guaranteed together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guaranteed: Option<Amount>,
    /// What it never exceeds.
    #[serde(default = "no_limit", skip_serializing_if = "is_no_limit")]
    pub limit: Amount,
    /// Its part of what is left over.
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

/// A project's quota of each kind. A kind that is not named is not counted: neither guaranteed nor
/// limited, and shared by weight.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Quotas {
    quotas: BTreeMap<ResourceKind, Quota>,
}

impl Quotas {
    /// What is agreed about one kind.
    #[must_use]
    pub fn get(&self, kind: &ResourceKind) -> Option<Quota> {
        self.quotas.get(kind).copied()
    }

    /// Replaces what is agreed about one kind.
    pub fn set(&mut self, kind: ResourceKind, quota: Quota) {
        self.quotas.insert(kind, quota);
    }

    /// Replaces what is agreed about one kind, which may be nothing.
    pub fn agree(&mut self, kind: ResourceKind, quota: Quota) {
        match quota == Quota::default() {
            true => self.remove(&kind),
            false => self.set(kind, quota),
        }
    }

    /// Forgets what is agreed about one kind.
    pub fn remove(&mut self, kind: &ResourceKind) {
        self.quotas.remove(kind);
    }

    /// Each kind about which something is agreed, in the order of [`ResourceKind`].
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
