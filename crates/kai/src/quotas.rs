//! The division into shares, and the rule for reclaims between projects, with the numbers of a
//! cycle.

use gpool_model::{Amount, Quota, Weight};
use gpool_sched::fairshare::{
    Account, Denied, Feedback, Ledger, Member, Reclaimer, Row, Tree, Victim,
};

use crate::entitled::{Entitled, Entitlements};
use crate::input::{Amounts, Input, Kind, Project};
use crate::settings::Settings;
use crate::shares::{Division, Multiplier, Reclaim};
use crate::state::State;

/// The tree of projects as the rules of shares see it.
#[derive(Debug)]
pub(crate) struct Quotas {
    tree: Tree,
    /// Where each project is in it, if it is in the tree at all.
    rows: Vec<Option<Row>>,
    /// The project of each row.
    projects: Vec<usize>,
    ledger: Ledger,
    reclaim: Reclaim,
    /// Whether the recorded allocations are current.
    current: bool,
}

/// Why a project takes nothing back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Barred {
    /// It would have more than its share.
    Share { project: usize, kind: Kind },
    /// Non-preemptible allocations would exceed the guarantee.
    Guarantee { project: usize, kind: Kind },
    /// What would go is the other's own.
    Own { project: usize },
    /// It would be closer to its share than the other.
    Saturated { project: usize, other: usize, kind: Kind },
}

impl Quotas {
    /// Divides the capacity; the demand follows from the state.
    pub(crate) fn of(
        state: &State<'_>,
        input: &Input,
        settings: &Settings,
    ) -> (Self, Entitlements) {
        let index = state.index;
        let in_tree: Vec<usize> =
            (0..index.projects.len()).filter(|&it| index.projects[it].depth < usize::MAX).collect();
        let members: Vec<Member<usize>> = in_tree
            .iter()
            .map(|&row| {
                let project = &index.projects[row];
                Member {
                    parent: project.parent.and_then(|it| in_tree.binary_search(&it).ok()),
                    priority: clamp(project.priority),
                    created: ordered(project.created),
                    id: row,
                }
            })
            .collect();
        let tree = Tree::new(&members).unwrap_or_default();
        let mut rows = vec![None; index.projects.len()];
        let mut projects = vec![0; tree.len()];
        for (member, &project) in in_tree.iter().enumerate() {
            let row = tree.row(member);
            rows[project] = Some(row);
            projects[row.ix()] = project;
        }
        let mut ledger = Ledger::new(&tree, Kind::ALL.len());
        let given = |row: usize| &input.projects[index.projects[row].given];
        let asked = asked(state);
        for (column, kind) in Kind::ALL.into_iter().enumerate() {
            let quotas: Vec<Quota> = in_tree.iter().map(|&row| quota(given(row), kind)).collect();
            let feedback = u32::try_from(settings.usage_feedback).ok();
            let feedback = feedback.and_then(Feedback::from_thousandths).unwrap_or(Feedback::ONE);
            let step = if kind == Kind::Gpu { 1000 } else { 1 };
            let total = unsigned(index.total[kind]);
            let mut division = Division::new(step, feedback, &tree, &quotas, total);
            for (member, &row) in in_tree.iter().enumerate() {
                let usage = given(row).quota(kind).usage;
                division.set_usage(tree.row(member), u32::try_from(usage).unwrap_or(0));
                if index.projects[row].children.is_empty() {
                    division.request(&tree, tree.row(member), unsigned(asked[row][kind]));
                }
            }
            division.divide(&tree);
            ledger.take_over(column, division.claimants());
        }
        let entitled = (0..index.projects.len())
            .map(|row| entitled(given(row), rows[row].map(|row| ledger.accounts(row))))
            .collect();
        let multiplier = u32::try_from(settings.saturation).ok();
        let multiplier = multiplier.and_then(Multiplier::from_thousandths);
        let reclaim = Reclaim::new(multiplier.unwrap_or(Multiplier::ONE));
        (
            Self { tree, rows, projects, ledger, reclaim, current: false },
            Entitlements::of(index, entitled),
        )
    }

    /// Notes that allocations changed.
    pub(crate) fn changed(&mut self) {
        self.current = false;
    }

    /// Records the current allocations, if they changed.
    pub(crate) fn write_down(&mut self, state: &State<'_>) {
        if std::mem::replace(&mut self.current, true) {
            return;
        }
        for (project, row) in self.rows.iter().enumerate() {
            let Some(row) = *row else { continue };
            for (column, kind) in Kind::ALL.into_iter().enumerate() {
                let account = Account {
                    held: unsigned(state.allocated[project][kind]),
                    held_for_good: unsigned(state.fixed[project][kind]),
                    ..*self.ledger.account(row, column)
                };
                self.ledger.set(row, column, account);
            }
        }
    }

    /// Checks whether a project may reclaim for that amount at all, by the recorded allocations.
    ///
    /// # Errors
    /// The rule that forbids it.
    pub(crate) fn gate(
        &mut self,
        project: usize,
        preemptible: bool,
        request: Amounts,
    ) -> Result<(), Barred> {
        let Some(row) = self.rows[project] else { return Ok(()) };
        let unit = columns(request);
        let reclaimer = Reclaimer { project: row, unit: &unit, preemptible };
        let result = self.reclaim.gate(&self.ledger, &reclaimer);
        result.map_err(|denied| self.barred(project, denied, &[]))
    }

    /// Checks whether these pieces may be reclaimed for that amount, by the recorded allocations.
    ///
    /// # Errors
    /// The rule that forbids it.
    pub(crate) fn check(
        &mut self,
        project: usize,
        preemptible: bool,
        request: Amounts,
        pieces: &[(usize, Amounts)],
    ) -> Result<(), Barred> {
        let Some(row) = self.rows[project] else { return Ok(()) };
        let unit = columns(request);
        let amounts: Vec<[u64; 3]> = pieces.iter().map(|(_, piece)| columns(*piece)).collect();
        let victims: Vec<Victim<'_>> = pieces
            .iter()
            .zip(&amounts)
            .filter_map(|((project, _), piece)| {
                self.rows[*project].map(|project| Victim { project, piece })
            })
            .collect();
        let reclaimer = Reclaimer { project: row, unit: &unit, preemptible };
        let result = self.reclaim.check(&self.tree, &self.ledger, &reclaimer, &victims);
        result.map_err(|denied| self.barred(project, denied, pieces))
    }

    fn barred(&self, project: usize, denied: Denied, pieces: &[(usize, Amounts)]) -> Barred {
        let named = |row: Row| self.projects[row.ix()];
        let victim = |it: usize| pieces.get(it).map_or(project, |(project, _)| *project);
        match denied {
            Denied::OverShare { kind } => Barred::Share { project, kind: Kind::ALL[kind] },
            Denied::OverGuaranteed { project, kind } => {
                Barred::Guarantee { project: named(project), kind: Kind::ALL[kind] }
            }
            Denied::Own { victim: it } | Denied::TakenBack { victim: it } => {
                Barred::Own { project: victim(it) }
            }
            Denied::MoreSaturated { project, other, kind } => Barred::Saturated {
                project: named(project),
                other: named(other),
                kind: Kind::ALL[kind],
            },
        }
    }
}

/// What each leaf has and waits for.
fn asked(state: &State<'_>) -> Vec<Amounts> {
    let index = state.index;
    let mut asked = vec![Amounts::default(); index.projects.len()];
    for job in &index.jobs {
        let Some(project) = job.project else { continue };
        for task in job.tasks.clone() {
            let now = state.tasks[task];
            if now.charged || now.state.waits() {
                asked[project] += state.charge(task);
            }
        }
    }
    asked
}

fn quota(project: &Project, kind: Kind) -> Quota {
    let quota = project.quota(kind);
    let weight = u32::try_from(quota.weight).ok().and_then(Weight::from_thousandths);
    Quota {
        guaranteed: Some(amount(quota.guaranteed)),
        limit: amount(quota.limit),
        weight: weight.unwrap_or(Weight::NONE),
    }
}

fn entitled(project: &Project, accounts: Option<&[Account]>) -> Entitled {
    let mut it = Entitled {
        guaranteed: [None; 3],
        limit: [None; 3],
        fair: Amounts::default(),
        allowed: [None; 3],
    };
    for (column, kind) in Kind::ALL.into_iter().enumerate() {
        let quota = project.quota(kind);
        it.guaranteed[column] = quota.guaranteed;
        it.limit[column] = quota.limit;
        if let Some(accounts) = accounts {
            it.fair[kind] = accounts[column].share.finite().map_or(i64::MAX, signed);
            it.allowed[column] = bound(accounts[column].own());
        }
    }
    it
}

fn bound(amount: Amount) -> Option<i64> {
    amount.finite().map(signed)
}

fn amount(bound: Option<i64>) -> Amount {
    bound.map_or(Amount::UNLIMITED, |it| Amount::counted(unsigned(it)))
}

fn columns(amounts: Amounts) -> [u64; 3] {
    Kind::ALL.map(|kind| unsigned(amounts[kind]))
}

fn unsigned(amount: i64) -> u64 {
    u64::try_from(amount).unwrap_or(0)
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// A moment or a rank before zero, in the same order.
fn ordered(created: i64) -> u64 {
    created.abs_diff(i64::MIN)
}

fn clamp(priority: i64) -> i32 {
    i32::try_from(priority.clamp(i64::from(i32::MIN), i64::from(i32::MAX))).unwrap_or(0)
}
