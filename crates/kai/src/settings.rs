//! The stages of a cycle, and their settings.

/// A stage of a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Allocates free capacity.
    Allocate,
    /// Moves running tasks so that a job fits.
    Consolidate,
    /// Reclaims over-quota resources of other projects.
    Reclaim,
    /// Preempts jobs of lower priority in the same project.
    Preempt,
    /// Ends the rest of gangs below their minimum.
    StaleGangs,
}

impl Stage {
    /// A whole cycle.
    pub const CYCLE: [Self; 5] =
        [Self::Allocate, Self::Consolidate, Self::Reclaim, Self::Preempt, Self::StaleGangs];
}

/// Which of two places is better, by their free capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// The fullest.
    Pack,
    /// The emptiest.
    Spread,
    /// Neither: it does not count.
    Any,
}

/// The settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The stages, in this order.
    pub stages: Vec<Stage>,
    /// Projects have quotas: they are ordered by their shares, and limits and guarantees hold.
    pub quotas: bool,
    /// Jobs of a project are ordered by priority.
    pub job_priority: bool,
    /// Jobs below the least that must run at once come before those above it.
    pub elastic: bool,
    /// Tasks of a job are ordered by priority.
    pub task_priority: bool,
    /// Jobs that began a short while ago are left alone.
    pub min_run: bool,
    /// Which node is better for a task with GPUs.
    pub gpu_nodes: Strategy,
    /// Which node is better for a task without.
    pub cpu_nodes: Strategy,
    /// Which device is better for a share.
    pub devices: Strategy,
    /// A node where it can start at once is better.
    pub prefer_idle: bool,
    /// A node without GPUs is better for a task without.
    pub prefer_cpu_only: bool,
    /// A device that is shared already is better for a share.
    pub prefer_shared: bool,
    /// The node that a task is promised is better.
    pub prefer_nominated: bool,
    /// How much decayed use counts where more than the guarantees is divided, in thousandths.
    pub usage_feedback: i64,
    /// How much closer to its share than those it takes from a project must stay, in thousandths;
    /// at least 1000.
    pub saturation: i64,
    /// How many possible victims consolidation looks at; without it, all.
    pub consolidation_victims: Option<usize>,
    /// How many jobs of a project a stage looks at; without it, all.
    pub depth: Option<usize>,
    /// What can't lead anywhere is not tried, and what did not change is not worked out anew. What
    /// is decided is the same without, only later.
    pub shortcuts: bool,
    /// How long the rest of a gang may stay, in milliseconds; negative is for ever.
    pub stale_grace: i64,
    /// How long a job runs at least before it is preempted, where no project says, in milliseconds.
    pub min_run_preempt: i64,
    /// How long a job runs at least before it is reclaimed, where no project says, in milliseconds.
    pub min_run_reclaim: i64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            stages: Stage::CYCLE.to_vec(),
            quotas: true,
            job_priority: true,
            elastic: true,
            task_priority: true,
            min_run: true,
            gpu_nodes: Strategy::Pack,
            cpu_nodes: Strategy::Pack,
            devices: Strategy::Pack,
            prefer_idle: true,
            prefer_cpu_only: true,
            prefer_shared: true,
            prefer_nominated: true,
            usage_feedback: 1000,
            saturation: 1000,
            consolidation_victims: None,
            depth: None,
            shortcuts: true,
            stale_grace: 60_000,
            min_run_preempt: 0,
            min_run_reclaim: 0,
        }
    }
}
