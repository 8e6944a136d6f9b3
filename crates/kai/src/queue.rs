//! The first of each project's children, kept as a tournament tree: a changed child is compared
//! again on its way up, and no other child is.

use crate::entitled::Claim;
use crate::index::Index;

/// The first of each project, and of all.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    /// What stands for a project, if there is anything in it.
    claims: Vec<Option<Claim>>,
    /// For each project, a tournament of its children; the last is that of the top projects.
    games: Vec<Game>,
}

/// The nodes of a tournament tree: the last half are the children, each earlier one is the better
/// of two later ones.
#[derive(Debug, Clone)]
struct Game {
    winners: Vec<Option<usize>>,
}

impl Queue {
    /// Returns a tree without entries.
    pub(crate) fn of(index: &Index) -> Self {
        let game = |members: &[usize]| {
            let size = members.len().next_power_of_two();
            Game { winners: vec![None; 2 * size] }
        };
        let mut games: Vec<Game> = index.projects.iter().map(|row| game(&row.children)).collect();
        games.push(game(&index.tops));
        Self { claims: vec![None; index.projects.len()], games }
    }

    /// Returns the leaf that is first.
    pub(crate) fn first(&self) -> Option<usize> {
        let mut at = self.games.last()?.winners[1]?;
        while let Some(next) = self.games[at].winners[1] {
            at = next;
        }
        Some(at)
    }

    /// Something else stands for a leaf, or it has something else; `before` says whether the first
    /// of two siblings comes first.
    pub(crate) fn update(
        &mut self,
        index: &Index,
        leaf: usize,
        claim: Option<Claim>,
        before: impl Fn((usize, &Claim), (usize, &Claim)) -> bool,
    ) {
        self.claims[leaf] = claim;
        let mut at = leaf;
        loop {
            let parent = index.projects[at].parent;
            let siblings = parent.map_or(&index.tops, |row| &index.projects[row].children);
            let game = parent.unwrap_or(index.projects.len());
            if let Ok(row) = siblings.binary_search(&at) {
                self.play(game, row, at, &before);
            }
            let Some(parent) = parent else { return };
            self.claims[parent] = self.games[parent].winners[1].and_then(|row| self.claims[row]);
            at = parent;
        }
    }

    fn play(
        &mut self,
        game: usize,
        row: usize,
        who: usize,
        before: &impl Fn((usize, &Claim), (usize, &Claim)) -> bool,
    ) {
        let claims = &self.claims;
        let winners = &mut self.games[game].winners;
        let mut at = winners.len() / 2 + row;
        winners[at] = claims[who].map(|_| who);
        while at > 1 {
            at /= 2;
            winners[at] = match (winners[2 * at], winners[2 * at + 1]) {
                (Some(a), Some(b)) => match (&claims[a], &claims[b]) {
                    (Some(for_a), Some(for_b)) if before((b, for_b), (a, for_a)) => Some(b),
                    _ => Some(a),
                },
                (a, b) => a.or(b),
            };
        }
    }
}
