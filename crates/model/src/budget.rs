//! Budgets of projects and users for a calendar month of UTC, and those that are used up.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{ProjectName, is_plain_name};
use crate::price::Money;
use crate::unit::Timestamp;

/// The project or user that a budget limits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payer {
    /// A project with all projects below it.
    Project(ProjectName),
    /// A user in all projects.
    User(Arc<str>),
}

impl Payer {
    /// Its kind: `project` or `user`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Project(_) => "project",
            Self::User(_) => "user",
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Project(name) => name.as_str(),
            Self::User(name) => name,
        }
    }

    /// Its key in the store: `project:nlp`, `user:ana`.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}:{}", self.kind(), self.name())
    }

    /// The payer with this key.
    #[must_use]
    pub fn of_key(key: &str) -> Option<Self> {
        match key.split_once(':')? {
            ("project", name) => Some(Self::Project(ProjectName::new(name))),
            ("user", name) => Some(Self::User(Arc::from(name))),
            _ => None,
        }
    }
}

impl fmt::Display for Payer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.name())
    }
}

/// Budgets of a month, in the currency of the prices. Written as one setting:
/// `project.nlp=5000,user.ana=200,users=100`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Budgets {
    /// Budgets by payer.
    pub of: BTreeMap<Payer, Money>,
    /// The budget of each user without one of their own.
    pub users: Option<Money>,
}

impl Budgets {
    const EXAMPLE: &str = "project.nlp=5000,user.ana=200,users=100";
    const NONE: &str = "none";

    /// Whether there are none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The budget of a payer.
    #[must_use]
    pub fn budget_of(&self, payer: &Payer) -> Option<Money> {
        let usual = match payer {
            Payer::User(_) => self.users,
            Payer::Project(_) => None,
        };
        self.of.get(payer).copied().or(usual)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let budget = Money::parse(value)?;
        let payer = match key.split_once('.') {
            None if key == "users" => {
                self.users = Some(budget);
                return Ok(());
            }
            Some(("project", name)) if is_plain_name(name) => {
                Payer::Project(ProjectName::new(name))
            }
            Some(("user", name)) if !name.is_empty() => Payer::User(Arc::from(name)),
            _ => return Err(format!("there is no budget of {key:?}")),
        };
        self.of.insert(payer, budget);
        Ok(())
    }
}

impl FromStr for Budgets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut budgets = Self::default();
        for part in text.split(',').map(str::trim).filter(|_| text != Self::NONE) {
            let shown: String = part.chars().take(60).collect();
            let example = |why: String| format!("{why}; an example is {}", Self::EXAMPLE);
            let Some((key, value)) = part.split_once('=') else {
                return Err(example(format!("{shown:?} sets no budget")));
            };
            budgets.set(key.trim(), value.trim()).map_err(example)?;
        }
        Ok(budgets)
    }
}

impl TryFrom<String> for Budgets {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Budgets> for String {
    fn from(budgets: Budgets) -> Self {
        budgets.to_string()
    }
}

impl fmt::Display for Budgets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.pad(Self::NONE);
        }
        let of = self.of.iter().map(|(payer, budget)| match payer {
            Payer::Project(name) => format!("project.{name}={budget}"),
            Payer::User(name) => format!("user.{name}={budget}"),
        });
        let users = self.users.map(|budget| format!("users={budget}"));
        f.pad(&of.chain(users).collect::<Vec<_>>().join(","))
    }
}

/// The action on jobs when their budget is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverBudget {
    /// Nothing: budgets are only shown.
    #[default]
    Warn,
    /// Jobs that have not started are held until the next month, or a higher budget. Running jobs
    /// continue.
    Hold,
}

impl OverBudget {
    /// Every value with its name.
    pub const ALL: [(&'static str, Self); 2] = [("warn", Self::Warn), ("hold", Self::Hold)];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Hold => "hold",
        }
    }

    /// Whether it is the default.
    #[must_use]
    pub fn is_warn(&self) -> bool {
        *self == Self::Warn
    }
}

/// A budget that is used up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Overspent {
    /// Its project or user.
    pub payer: Payer,
    /// The cost of this month, when the server found that the budget is used up.
    pub spent: Money,
    /// The budget.
    pub budget: Money,
    /// The currency.
    pub currency: Arc<str>,
}

/// A part of a budget that is reported once it is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetStep {
    /// 80 % of it.
    Most,
    /// All of it.
    All,
}

impl BudgetStep {
    /// The highest step that this cost has reached.
    #[must_use]
    pub fn of(spent: Money, budget: Money) -> Option<Self> {
        let (spent, budget) = (u128::from(spent.get()), u128::from(budget.get()));
        if spent >= budget {
            return Some(Self::All);
        }
        (spent * 100 >= budget * u128::from(Self::Most.percent())).then_some(Self::Most)
    }

    /// The part of the budget in percent.
    #[must_use]
    pub fn percent(self) -> u8 {
        match self {
            Self::Most => 80,
            Self::All => 100,
        }
    }
}

/// The cost of a project or user in a month, and the budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MonthSpending {
    /// The project or user.
    pub payer: Payer,
    /// The start of the month, in UTC.
    pub month: Timestamp,
    /// The cost up to now.
    pub spent: Money,
    /// The budget.
    pub budget: Money,
    /// The currency.
    pub currency: Arc<str>,
}

impl MonthSpending {
    /// The highest step of the budget that the cost has reached.
    #[must_use]
    pub fn step(&self) -> Option<BudgetStep> {
        BudgetStep::of(self.spent, self.budget)
    }
}
