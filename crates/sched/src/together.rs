//! The board run forward for a job of several nodes: the earliest moment at which as many as it
//! needs have room at once.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::Timestamp;

use crate::ahead::{Ahead, Ask, GivenBack, Place, basis, seats_then};
use crate::board::Board;
use crate::keep::{Ending, Keeps};
use crate::place;
use crate::room::Room;

/// What is known of the nodes at the moment that is looked at.
#[derive(Default)]
struct Nodes {
    back: BTreeMap<usize, (GivenBack, Vec<Ending>)>,
    /// Those on which nothing is kept that have room: whoever has it keeps it.
    open: BTreeSet<usize>,
    /// Those of them that had room when the cycle was made.
    at_first: BTreeSet<usize>,
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
                if !nodes.kept.contains_key(&board_ix)
                    && nodes.place(board, board_ix, ask, at).is_some()
                {
                    nodes.open.insert(board_ix);
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
            if nodes.place(board, board_ix, ask, self.snapshot.now).is_some() {
                nodes.open.insert(board_ix);
                nodes.at_first.insert(board_ix);
            }
        }
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
        let n_nodes = place::n_nodes(&ask.shape.fit);
        if nodes.open.len() + nodes.kept.len() < n_nodes {
            return None;
        }
        let on_kept = nodes.kept.iter().filter_map(|(board_ix, endings)| {
            self.on_kept(board, keeps, *board_ix, ask, endings, at)
        });
        let on_kept: Vec<Place> = on_kept.collect();
        if nodes.open.len() + on_kept.len() < n_nodes {
            return None;
        }
        let open = nodes.open.iter().take(n_nodes);
        let on_open = open.filter_map(|board_ix| nodes.place(board, *board_ix, ask, at));
        let mut places: Vec<Place> = on_open.chain(on_kept).collect();
        places.sort_by_key(|place| place.board_ix);
        places.truncate(n_nodes);
        (places.len() == n_nodes).then_some(places)
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
        if !node.takes(fit) || Room::needed(fit).first_short(room).is_some() {
            return None;
        }
        let uses = back.map_or(&[][..], |(given, _)| &given.uses);
        let (rank, devices) = seats_then(board, board_ix, ask, uses, &[])?;
        let endings = back.map_or(&[][..], |(_, endings)| endings);
        let waits = !self.at_first.contains(&board_ix);
        let basis = basis(endings.iter(), &devices, waits);
        Some(Place { at, rank, board_ix, devices, basis })
    }
}
