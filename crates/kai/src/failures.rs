//! Jobs without victims, so that jobs with no smaller requests are not tried.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::index::Index;
use crate::input::{GpuAsk, Request};

/// The jobs without victims, by project and possible places.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    known: BTreeMap<Where, Vec<(usize, Vec<usize>)>>,
}

/// A project, if that counts, and where the tasks may go.
type Where = (Option<usize>, Vec<Option<usize>>);

impl Failures {
    /// Returns a job without victims that is no harder to place than this one.
    pub(crate) fn harder(
        &self,
        index: &Index,
        project: Option<usize>,
        tasks: &[usize],
    ) -> Option<usize> {
        let asks = sorted(index, tasks);
        let known = self.known.get(&(project, sites(index, &asks)))?;
        known.iter().find(|(_, others)| !easier(index, &asks, others)).map(|(job, _)| *job)
    }

    /// Records a job without victims.
    pub(crate) fn remember(
        &mut self,
        index: &Index,
        project: Option<usize>,
        job: usize,
        tasks: &[usize],
    ) {
        let asks = sorted(index, tasks);
        let key = (project, sites(index, &asks));
        self.known.entry(key).or_default().push((job, asks));
    }
}

/// What tasks ask for, the largest first.
fn sorted(index: &Index, tasks: &[usize]) -> Vec<usize> {
    let mut asks: Vec<usize> = tasks.iter().map(|&task| index.tasks[task].ask).collect();
    asks.sort_by(|&a, &b| {
        let size = |ask: usize| {
            let ask = &index.asks[ask];
            (ask.charge.gpu, ask.request.cpu, ask.request.memory)
        };
        size(b).cmp(&size(a)).then_with(|| {
            let (a, b) = (&index.asks[a], &index.asks[b]);
            a.request.cmp(&b.request).then(a.site.cmp(&b.site))
        })
    });
    asks
}

fn sites(index: &Index, asks: &[usize]) -> Vec<Option<usize>> {
    let mut sites: Vec<Option<usize>> = asks.iter().map(|&ask| index.asks[ask].site).collect();
    sites.sort_unstable();
    sites.dedup();
    sites
}

/// Whether there are fewer tasks, or one of them asks for less of anything.
fn easier(index: &Index, asks: &[usize], others: &[usize]) -> bool {
    asks.len() < others.len()
        || asks.iter().zip(others).any(|(&ask, &other)| {
            ask != other && less(&index.asks[ask].request, &index.asks[other].request)
        })
}

fn less(a: &Request, b: &Request) -> bool {
    let gpu = match (&a.gpu, &b.gpu) {
        (GpuAsk::Whole(a), GpuAsk::Whole(b)) => a < b,
        (GpuAsk::Share { milli: a, devices: on_a }, GpuAsk::Share { milli: b, devices: on_b })
        | (
            GpuAsk::Memory { bytes: a, devices: on_a },
            GpuAsk::Memory { bytes: b, devices: on_b },
        ) => a < b || on_a < on_b,
        (GpuAsk::Mig(a), GpuAsk::Mig(b)) => b.iter().any(|other| {
            let same = a.iter().find(|it| it.profile == other.profile);
            same.map_or(0, |it| it.count).cmp(&other.count) == Ordering::Less
        }),
        // Of another kind: it may well fit.
        (a, b) => a != b,
    };
    gpu || a.cpu < b.cpu || a.memory < b.memory
}
