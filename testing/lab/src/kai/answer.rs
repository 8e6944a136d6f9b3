//! The recorded answers of KAI's rules.

use std::collections::BTreeMap;

const ANSWERS: &str = include_str!("answers.txt");

/// On which nodes the tasks of jobs run, by name of the job.
pub type Running = BTreeMap<String, Vec<String>>;

/// The answer of one scenario.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The jobs that run in the end.
    pub running: Running,
    /// Whether running jobs were moved on the way.
    pub moves: bool,
}

impl Answer {
    /// The recorded answer of a scenario.
    #[must_use]
    pub fn of(id: &str) -> Option<Self> {
        let mut lines = ANSWERS.lines().filter(|line| !line.starts_with('#'));
        let head = lines.find(|line| line.split("  ").next() == Some(id))?;
        Some(Self { moves: head.ends_with("  moves"), ..Self::read(lines) })
    }

    /// Reads the lines of jobs, up to the first other line: `  JOB  NODE NODE`.
    pub fn read<'t>(lines: impl Iterator<Item = &'t str>) -> Self {
        let jobs = lines.map_while(|line| line.strip_prefix("  ")?.split_once("  "));
        let nodes = |nodes: &str| nodes.split(' ').map(str::to_owned).collect();
        let running = jobs.map(|(job, on)| (job.to_owned(), nodes(on))).collect();
        Self { running, moves: false }
    }
}
