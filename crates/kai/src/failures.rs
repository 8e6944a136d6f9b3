//! Jobs without victims, so that jobs with no smaller requests are not tried.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::cluster::Cluster;
use crate::situation::{GpuAsk, Request};

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
        cluster: &Cluster,
        project: Option<usize>,
        tasks: &[usize],
    ) -> Option<usize> {
        let asks = sorted(cluster, tasks);
        let known = self.known.get(&(project, sites(cluster, &asks)))?;
        known.iter().find(|(_, others)| !easier(cluster, &asks, others)).map(|(job, _)| *job)
    }

    /// Records a job without victims.
    pub(crate) fn remember(
        &mut self,
        cluster: &Cluster,
        project: Option<usize>,
        job: usize,
        tasks: &[usize],
    ) {
        let asks = sorted(cluster, tasks);
        let key = (project, sites(cluster, &asks));
        self.known.entry(key).or_default().push((job, asks));
    }
}

/// What tasks ask for, the largest first.
fn sorted(cluster: &Cluster, tasks: &[usize]) -> Vec<usize> {
    let mut asks: Vec<usize> = tasks.iter().map(|&task| cluster.tasks[task].ask).collect();
    asks.sort_by(|&a, &b| {
        let size = |ask: usize| {
            let ask = &cluster.asks[ask];
            (ask.charge.gpu, ask.request.cpu, ask.request.memory)
        };
        size(b).cmp(&size(a)).then_with(|| {
            let (a, b) = (&cluster.asks[a], &cluster.asks[b]);
            a.request.cmp(&b.request).then(a.site.cmp(&b.site))
        })
    });
    asks
}

fn sites(cluster: &Cluster, asks: &[usize]) -> Vec<Option<usize>> {
    let mut sites: Vec<Option<usize>> = asks.iter().map(|&ask| cluster.asks[ask].site).collect();
    sites.sort_unstable();
    sites.dedup();
    sites
}

/// Whether there are fewer tasks, or one of them asks for less of anything.
fn easier(cluster: &Cluster, asks: &[usize], others: &[usize]) -> bool {
    asks.len() < others.len()
        || asks.iter().zip(others).any(|(&ask, &other)| {
            ask != other && less(&cluster.asks[ask].request, &cluster.asks[other].request)
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
