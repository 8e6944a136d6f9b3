//! The board run forward for a job of several nodes: the earliest moment at which as many as it
//! needs have room at once.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::Timestamp;

use crate::ahead::{Ahead, Ask, GivenBack, Place, basis, seats_then};
use crate::anywhere::{most_times, share_out};
use crate::board::Board;
use crate::keep::{Ending, Keeps};
use crate::place;

/// What is known of the nodes at the moment that is looked at.
#[derive(Default)]
struct Nodes {
    back: BTreeMap<usize, (GivenBack, Vec<Ending>)>,
    /// Those on which nothing is kept that have room, and how many times: whoever has it keeps it.
    open: BTreeMap<usize, u32>,
    /// How many times that is in all.
    n_open: u32,
    /// How many times they had room when the cycle was made.
    at_first: BTreeMap<usize, u32>,
    /// Those on which something is kept, with all that is given back there.
    kept: BTreeMap<usize, Vec<Ending>>,
}

impl<'a> Ahead<'a> {
    /// The earliest start of a job on as many nodes as it needs, all of whose devices are of one
    /// model of its request.
    pub(crate) fn earliest_together(
        &mut self,
        board: &Board<'a>,
        keeps: &Keeps<'a>,
        ask: Ask<'_>,
    ) -> Option<Vec<Place>> {
        let mut best: Option<Vec<Place>> = None;
        for rank in 0..ask.shape.fit.gpus.models.len().max(1) {
            let before = best.as_ref().map(|places| places[0].at);
            let ask = Ask { rank: Some(rank), ..ask };
            best = self.together_before(board, keeps, ask, before).or(best);
        }
        best
    }

    /// The same of one model, if that is earlier than a moment.
    fn together_before(
        &mut self,
        board: &Board<'a>,
        keeps: &Keeps<'a>,
        ask: Ask<'_>,
        before: Option<Timestamp>,
    ) -> Option<Vec<Place>> {
        let mut nodes = self.nodes_at_first(board, keeps, ask);
        let mut decided: Vec<Ending> = self.decided.clone();
        decided.sort_by_key(|ending| ending.end);
        let mut decided = decided.into_iter().peekable();
        // By how many releases one after the other each is known: what recurs never ends, and
        // twice is looked behind it.
        let mut releases = BTreeMap::<Timestamp, u32>::new();
        nodes.add_releases(keeps, (self.snapshot.now, 0), &mut releases);
        let mut at_seen = 0;
        loop {
            let next_seen = self.seen(at_seen).map(|(end, _)| end.at);
            let next_decided = decided.peek().map(|ending| ending.end.at);
            let next_release = releases.keys().next().copied();
            let at = next_seen.into_iter().chain(next_decided).chain(next_release).min()?;
            if before.is_some_and(|before| at >= before) {
                return None;
            }
            let is_end = next_seen == Some(at) || next_decided == Some(at);
            let n_before = releases.remove(&at).filter(|_| !is_end).unwrap_or(0);
            nodes.add_releases(keeps, (at, n_before), &mut releases);
            let mut touched = BTreeSet::new();
            while let Some((end, _)) = self.seen(at_seen).filter(|(end, _)| end.at == at) {
                for ending in self.given_back(board, end) {
                    nodes.give_back(ending, &mut touched);
                }
                at_seen += 1;
            }
            while let Some(ending) = decided.next_if(|ending| ending.end.at == at) {
                nodes.give_back(ending, &mut touched);
            }
            for board_ix in touched {
                if !nodes.kept.contains_key(&board_ix) {
                    nodes.open(board, board_ix, ask, at);
                }
            }
            if let Some(places) = self.places_at(board, keeps, &nodes, ask, at) {
                return Some(places);
            }
        }
    }

    fn nodes_at_first(&self, board: &Board<'a>, keeps: &Keeps<'a>, ask: Ask<'_>) -> Nodes {
        let mut nodes = Nodes::default();
        let open =
            keeps.nodes(board.nodes.len()).filter(|ix| board.nodes[*ix].takes(&ask.shape.fit));
        nodes.kept = open.map(|ix| (ix, self.on_node(board, ix))).collect();
        // On a node without a free device a share may still find room.
        let n_least = match ask.shape.fit.gpus.share() {
            None => place::n_devices_on_node(&ask.shape.fit),
            Some(_) => 0,
        };
        for board_ix in board.with_free(n_least).filter(|ix| !keeps.has(*ix)) {
            nodes.open(board, board_ix, ask, self.snapshot.now);
        }
        nodes.at_first.clone_from(&nodes.open);
        nodes
    }

    /// Places on as many nodes as are needed, those with the lowest names, if they have room.
    fn places_at(
        &self,
        board: &Board<'a>,
        keeps: &Keeps<'a>,
        nodes: &Nodes,
        ask: Ask<'_>,
        at: Timestamp,
    ) -> Option<Vec<Place>> {
        let (fit, n_times) = (&ask.shape.fit, ask.shape.fit.gang.nodes);
        let on_kept = |board_ix: usize, times: u32| {
            let endings = nodes.kept.get(&board_ix)?;
            self.on_kept(board, keeps, board_ix, Ask { times, ..ask }, endings, at)
        };
        let most = |board_ix: usize| fit.most_on(&board.nodes[board_ix].row.node);
        let n_kept_most = nodes.kept.keys().map(|ix| most(*ix)).fold(0, u32::saturating_add);
        if nodes.n_open.saturating_add(n_kept_most) < n_times {
            return None;
        }
        let kept = nodes.kept.keys().map(|ix| {
            (*ix, most_times(most(*ix).min(n_times), |times| on_kept(*ix, times).is_some()))
        });
        let kept: Vec<(usize, u32)> = kept.collect();
        let n_kept = kept.iter().map(|(_, times)| *times).fold(0, u32::saturating_add);
        if nodes.n_open.saturating_add(n_kept) < n_times {
            return None;
        }
        let mut rooms: Vec<(usize, u32)> = nodes.open.iter().map(|(ix, n)| (*ix, *n)).collect();
        rooms.extend(kept);
        rooms.sort_unstable();
        let mut chosen = share_out(n_times, &rooms)?;
        chosen.sort_unstable();
        let place = |(board_ix, times)| match nodes.open.contains_key(&board_ix) {
            true => nodes.place(board, board_ix, Ask { times, ..ask }, at),
            false => on_kept(board_ix, times),
        };
        chosen.into_iter().map(place).collect()
    }
}

impl Nodes {
    /// Adds moments after that one at which something is kept no longer.
    fn add_releases(
        &self,
        keeps: &Keeps<'_>,
        (after, n_before): (Timestamp, u32),
        releases: &mut BTreeMap<Timestamp, u32>,
    ) {
        const MOST: u32 = 2;
        if n_before >= MOST {
            return;
        }
        for at in self.kept.keys().flat_map(|board_ix| keeps.releases(*board_ix, after)) {
            let n = releases.entry(at).or_insert(n_before + 1);
            *n = (*n).min(n_before + 1);
        }
    }

    fn give_back(&mut self, ending: Ending, touched: &mut BTreeSet<usize>) {
        touched.insert(ending.board_ix);
        let (given, endings) = self.back.entry(ending.board_ix).or_default();
        given.add(&ending);
        endings.push(ending);
    }

    /// How many times a node has room where nothing is kept.
    fn open(&mut self, board: &Board<'_>, board_ix: usize, ask: Ask<'_>, at: Timestamp) {
        let fit = &ask.shape.fit;
        let most = fit.most_on(&board.nodes[board_ix].row.node).min(fit.gang.nodes);
        let known = self.open.get(&board_ix).copied().unwrap_or(0);
        if known == most {
            return;
        }
        let room = |times| self.place(board, board_ix, Ask { times, ..ask }, at).is_some();
        let times = most_times(most, room);
        if times > 0 {
            self.n_open = self.n_open.saturating_add(times.saturating_sub(known));
            self.open.insert(board_ix, times);
        }
    }

    /// The place on a node where nothing is kept.
    fn place(
        &self,
        board: &Board<'_>,
        board_ix: usize,
        ask: Ask<'_>,
        at: Timestamp,
    ) -> Option<Place> {
        let node = &board.nodes[board_ix];
        let back = self.back.get(&board_ix);
        let room = back.map_or(node.free, |(given, _)| node.free.more(given.room));
        let fit = &ask.shape.fit;
        if !node.takes(fit) || ask.needs().first_short(room).is_some() {
            return None;
        }
        let uses = back.map_or(&[][..], |(given, _)| &given.uses);
        let (rank, devices) = seats_then(board, board_ix, ask, uses, &[])?;
        let endings = back.map_or(&[][..], |(_, endings)| endings);
        let waits = self.at_first.get(&board_ix).is_none_or(|n| *n < ask.times);
        let basis = basis(endings.iter(), &devices, waits);
        Some(Place { at, rank, board_ix, devices, basis, times: ask.times })
    }
}
