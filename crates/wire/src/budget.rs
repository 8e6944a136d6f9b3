//! Budgets of the present month.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Time;

/// The budget of a project or user, and the cost of this month.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BudgetRow {
    /// `project` or `user`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Start of the month, in UTC.
    pub since: Time,
    /// The currency.
    pub currency: String,
    /// The budget.
    pub budget: f64,
    /// The cost of this month.
    pub spent: f64,
    /// `ok`, `warn` from 80 % on, `over` if it is used up, `holds` if jobs are held for it.
    pub state: String,
}
