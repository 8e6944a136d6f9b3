//! The earliest time at which all parts of a job fit at once.

use std::collections::BTreeSet;

use gpool_model::{JobId, PlannedStart, Timestamp};

use super::{Planned, StartCandidate, StartSearch, Timeline, first_best, held};
use crate::capacity::cluster::Capacity;
use crate::capacity::demand::Demand;
use crate::capacity::departures::Departure;
use crate::capacity::holds::{Hold, Holds};
use crate::capacity::task_spread::{most_times, share_out};

/// The most times at which a start is tried.
const TIMES_MAX: usize = 512;

/// A planned start of all parts, and the position of the demand that each part gets.
pub(crate) type PlannedParts<'a> = (Planned<'a>, Vec<usize>);

impl<'a> Timeline<'a> {
    /// Returns the earliest start of a job with parts. `parts` are the demands of each part, the
    /// preferred ones first; they are placed in this `order`, each beside those before it.
    pub fn plan_parts(
        &self,
        capacity: &Capacity<'a>,
        holds: &Holds<'a>,
        (parts, order): (&[Vec<Demand<'_>>], &[usize]),
        job: JobId,
    ) -> Option<PlannedParts<'a>> {
        let n_nodes = capacity.nodes.len();
        let by_node: Vec<Vec<Departure>> =
            (0..n_nodes).map(|node_pos| self.on_node(capacity, node_pos)).collect();
        let now = self.snapshot.now;
        let mut times: BTreeSet<Timestamp> = by_node.iter().flatten().map(|it| it.end.at).collect();
        times.insert(now);
        // Holds recur, so the releases after each time are added twice.
        for _ in 0..2 {
            let releases = |at: &Timestamp| {
                holds.nodes(n_nodes).flat_map(|node_pos| holds.releases(node_pos, *at)).collect()
            };
            let more: Vec<Vec<Timestamp>> = times.iter().map(releases).collect();
            times.extend(more.into_iter().flatten());
        }
        let later = times.into_iter().filter(|at| *at > now).take(TIMES_MAX);
        let mut tries =
            later.map(|at| self.parts_at(capacity, holds, (parts, order), &by_node, (job, at)));
        tries.find_map(|found| found)
    }

    /// The places of all parts at a time.
    fn parts_at(
        &self,
        capacity: &Capacity<'a>,
        holds: &Holds<'a>,
        (parts, order): (&[Vec<Demand<'_>>], &[usize]),
        by_node: &[Vec<Departure>],
        (job, at): (JobId, Timestamp),
    ) -> Option<PlannedParts<'a>> {
        let (mut present, mut own) = (holds.clone(), Vec::new());
        let mut placements = vec![Vec::new(); parts.len()];
        let mut chosen = vec![0; parts.len()];
        let mut basis = None;
        for part in order {
            let found = parts[*part].iter().enumerate().find_map(|(ix, demand)| {
                let search = StartSearch { capacity, holds: &present, demand: *demand };
                Some((ix, self.places_of_part(search, by_node, at)?))
            });
            let (ix, places) = found?;
            let demand = &parts[*part][ix];
            chosen[*part] = ix;
            for place in places {
                basis = basis.max(Some(place.basis));
                let node = &capacity.nodes[place.placed.node_pos].row.node;
                placements[*part].extend(place.placed.placements(demand.fit(), node));
                let held = held(capacity, job, demand.shape, &place.placed);
                let hold = Hold::Start { job, held, run: demand.run(at) };
                present.add(place.placed.node_pos, hold.clone());
                own.push((place.placed.node_pos, hold));
            }
        }
        let placements = placements.concat();
        let start = PlannedStart { job, at, placements, basis: basis? };
        Some((Planned { start, holds: own }, chosen))
    }

    /// The places of one part at a time, in the order of nodes.
    fn places_of_part(
        &self,
        search: StartSearch<'a, '_>,
        by_node: &[Vec<Departure>],
        at: Timestamp,
    ) -> Option<Vec<StartCandidate>> {
        let takes = |node_pos: &usize| search.capacity.nodes[*node_pos].takes(search.demand.fit());
        let nodes: Vec<usize> = (0..by_node.len()).filter(takes).collect();
        let place =
            |search, node_pos: usize| self.on_held(search, node_pos, &by_node[node_pos], at);
        if search.demand.is_of_one_node() {
            let places = nodes.iter().filter_map(|node_pos| place(search, *node_pos));
            return Some(vec![first_best(places)?]);
        }
        search.demand.models().into_iter().find_map(|model| {
            let search = StartSearch { demand: search.demand.of_model(model), ..search };
            let fits = |node_pos: usize| {
                let most = search.most(node_pos);
                most_times(most, |times| place(search.times(times), node_pos).is_some())
            };
            let fitting: Vec<(usize, u32)> = nodes.iter().map(|it| (*it, fits(*it))).collect();
            let mut nodes = share_out(search.demand.n_units(), &fitting)?;
            nodes.sort_unstable();
            nodes
                .into_iter()
                .map(|(node_pos, times)| place(search.times(times), node_pos))
                .collect()
        })
    }
}
