//! Chooses the devices on which shares physically are. The server books shares packed, so that
//! whole devices stay free; the node spreads them over devices without a booking, so that each can
//! grow to its limit. When a job gets such a device as a whole, the shares on it move away.
//!
//! A piece that can't move must be where it is booked. So all pieces can always go there, and every
//! device that the books show as free can be freed.

use std::cmp::Ordering;

use gpool_model::ShareWith;
use gpool_model::unit::Bytes;

/// A device of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space<'a> {
    /// Its model; a piece only moves between equal devices.
    pub model: &'a str,
    /// The memory for jobs.
    pub memory: Bytes,
    /// Whether pieces that are booked elsewhere may be on it.
    pub guests: Guests,
}

/// Whether a device takes pieces that are booked elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guests {
    Come,
    /// Those that are there may stay.
    Stay,
    /// Those that are there have to leave, if they can move.
    Leave,
}

/// The part of a device that a task has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// A number for its task: the pieces of one task are on different devices.
    pub task: usize,
    /// The position of the booked device.
    pub booked: usize,
    /// The position of the device where it is; `None` if its task is about to start.
    pub at: Option<usize>,
    /// The guaranteed memory, and the most memory; `None` if it has the device alone.
    pub share: Option<(Bytes, Bytes)>,
    pub can_move: bool,
    /// Whether it may only be on the device that it booked, because it can't ever be moved.
    pub is_pinned: bool,
    /// Which pieces it may share a device with.
    pub among: Among,
}

/// The user and project of a piece, and which others it accepts on its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Among {
    /// The pieces that it accepts.
    pub with: ShareWith,
    pub uid: u32,
    /// A number for its project.
    pub project: usize,
}

impl Among {
    /// Whether two pieces accept each other.
    fn allows(self, other: Self) -> bool {
        let (user, project) = (self.uid == other.uid, self.project == other.project);
        self.with.accepts(user, project) && other.with.accepts(user, project)
    }
}

/// More placements than this are not compared.
const PLACEMENTS_MAX: usize = 4096;
/// Most pieces that are moved without need, so that others fit.
const EXTRA_MAX: usize = 2;

/// The positions of the devices on which the pieces should be, by piece. Preferred, in this order:
/// the fewest moves; the least memory that moves, now and back home later; the greatest smallest
/// part of its limit that a piece can reach before it meets a neighbour's request, then the second
/// smallest and so on; the fewest pieces that are not on the device that they booked; the lowest
/// positions.
///
/// `None` if a piece would have to move and can't.
#[must_use]
pub fn spread(spaces: &[Space<'_>], pieces: &[Piece]) -> Option<Vec<usize>> {
    let forced: Vec<usize> =
        (0..pieces.len()).filter(|ix| must_move(spaces, pieces, *ix)).collect();
    if forced.iter().any(|ix| pieces[*ix].at.is_some() && !pieces[*ix].can_move) {
        return None;
    }
    let free: Vec<usize> = (0..pieces.len())
        .filter(|ix| pieces[*ix].can_move && pieces[*ix].share.is_some() && !forced.contains(ix))
        .collect();
    for n_extra in 0..=EXTRA_MAX.min(free.len()) {
        let mut best = None;
        for extra in combinations(&free, n_extra) {
            let moving: Vec<usize> = forced.iter().copied().chain(extra).collect();
            let n_placements = spaces.len().checked_pow(u32::try_from(moving.len()).ok()?);
            if n_placements.is_none_or(|number| number > PLACEMENTS_MAX) {
                return home(spaces, pieces);
            }
            let mut search = SpreadSearch { spaces, pieces, best: &mut best };
            search.place(&moving, &mut start(pieces, &moving));
        }
        if let Some(best) = best {
            return Some(best.places);
        }
    }
    home(spaces, pieces)
}

/// Whether a piece may come to a device, with the other pieces where they are.
#[must_use]
pub fn may_come(spaces: &[Space<'_>], pieces: &[Piece], ix: usize, at: usize) -> bool {
    let mut places: Vec<Option<usize>> = pieces.iter().map(|piece| piece.at).collect();
    places[ix] = Some(at);
    may_be(spaces, pieces, &pieces[ix], at) && has_room(spaces, pieces, &places, ix)
}

/// Whether a share has no place yet, or can't stay.
fn must_move(spaces: &[Space<'_>], pieces: &[Piece], ix: usize) -> bool {
    let piece = &pieces[ix];
    piece.share.is_some() && piece.at.is_none_or(|at| !may_be(spaces, pieces, piece, at))
}

/// Whether a piece may be on a device, apart from the room there.
fn may_be(spaces: &[Space<'_>], pieces: &[Piece], piece: &Piece, at: usize) -> bool {
    if at == piece.booked {
        return true;
    }
    let [here, home] = [&spaces[at], &spaces[piece.booked]];
    // A guest that can't move stays, wherever it is.
    let stays = here.guests == Guests::Stay || !piece.can_move;
    piece.share.is_some()
        && !piece.is_pinned
        && (here.guests == Guests::Come || (piece.at == Some(at) && stays))
        && (here.model, here.memory) == (home.model, home.memory)
        && !pieces.iter().any(|other| other.share.is_none() && other.booked == at)
}

/// The places of the pieces that stay. Whole devices are never chosen here.
fn start(pieces: &[Piece], moving: &[usize]) -> Vec<Option<usize>> {
    let stays = |(ix, piece): (usize, &Piece)| match piece.share {
        None => Some(piece.booked),
        Some(_) => piece.at.filter(|_| !moving.contains(&ix)),
    };
    pieces.iter().enumerate().map(stays).collect()
}

/// Every piece that can move goes to the device that it has booked.
fn home(spaces: &[Space<'_>], pieces: &[Piece]) -> Option<Vec<usize>> {
    let place = |piece: &Piece| match piece.at {
        Some(at) if !piece.can_move => at,
        _ => piece.booked,
    };
    let places: Vec<usize> = pieces.iter().map(place).collect();
    let some: Vec<Option<usize>> = places.iter().copied().map(Some).collect();
    let fits = |ix: usize| {
        may_be(spaces, pieces, &pieces[ix], places[ix]) && has_room(spaces, pieces, &some, ix)
    };
    (0..pieces.len()).all(fits).then_some(places)
}

/// Whether the device of a placed piece holds all pieces there, which accept each other, and no
/// other one of its task.
fn has_room(spaces: &[Space<'_>], pieces: &[Piece], places: &[Option<usize>], ix: usize) -> bool {
    let Some(at) = places[ix] else { return false };
    let here = (0..pieces.len()).filter(|other| places[*other] == Some(at));
    let mut requests = Bytes::ZERO;
    for other in here {
        let is_apart =
            pieces[other].task == pieces[ix].task || !pieces[other].among.allows(pieces[ix].among);
        if other != ix && is_apart {
            return false;
        }
        let whole = spaces[at].memory;
        requests =
            requests.saturating_add(pieces[other].share.map_or(whole, |(request, _)| request));
    }
    requests <= spaces[at].memory
}

/// A part of a limit, as a fraction.
type Reach = (u64, u64);

/// A placement of all pieces.
struct Placement {
    /// The requests of the pieces that move, twice if a piece leaves the device that it booked.
    moved: Bytes,
    /// What each piece reaches, the smallest first.
    reaches: Vec<Reach>,
    n_guests: usize,
    places: Vec<usize>,
}

impl Placement {
    fn is_better(&self, than: &Self) -> bool {
        let fewer_guests = || self.n_guests.cmp(&than.n_guests);
        let order = self.moved.cmp(&than.moved);
        order.then_with(|| further(&than.reaches, &self.reaches)).then_with(fewer_guests).is_lt()
    }
}

struct SpreadSearch<'a> {
    spaces: &'a [Space<'a>],
    pieces: &'a [Piece],
    best: &'a mut Option<Placement>,
}

impl SpreadSearch<'_> {
    /// Tries all places of the moving pieces.
    fn place(&mut self, moving: &[usize], places: &mut Vec<Option<usize>>) {
        let Some((ix, rest)) = moving.split_first() else { return self.compare(places) };
        for at in 0..self.spaces.len() {
            let piece = &self.pieces[*ix];
            // A piece that stays where it is would be no move.
            if piece.at == Some(at) || !may_be(self.spaces, self.pieces, piece, at) {
                continue;
            }
            places[*ix] = Some(at);
            self.place(rest, places);
        }
        places[*ix] = None;
    }

    fn compare(&mut self, places: &[Option<usize>]) {
        let fits = |ix: usize| has_room(self.spaces, self.pieces, places, ix);
        if !(0..self.pieces.len()).all(fits) {
            return;
        }
        let placed: Vec<usize> = places.iter().copied().flatten().collect();
        let moves = |(it, at): &(&Piece, &usize)| it.at.is_some_and(|from| from != **at);
        let moving = self.pieces.iter().zip(&placed).filter(moves);
        // A piece that leaves the device that it booked will have to come back.
        let cost = |it: &Piece, request: Bytes| match it.at == Some(it.booked) {
            true => request.saturating_add(request),
            false => request,
        };
        let moved = moving.filter_map(|(it, _)| Some(cost(it, it.share?.0)));
        let found = Placement {
            moved: moved.fold(Bytes::ZERO, Bytes::saturating_add),
            reaches: reaches(self.spaces, self.pieces, &placed),
            n_guests: self.pieces.iter().zip(&placed).filter(|(it, at)| it.booked != **at).count(),
            places: placed,
        };
        // The first of equal placements has the lowest positions.
        if self.best.as_ref().is_none_or(|best| found.is_better(best)) {
            *self.best = Some(found);
        }
    }
}

/// What part of its limit each piece can reach, the smallest first.
fn reaches(spaces: &[Space<'_>], pieces: &[Piece], places: &[usize]) -> Vec<Reach> {
    let mut booked = vec![Bytes::ZERO; spaces.len()];
    for (piece, at) in pieces.iter().zip(places) {
        let request = piece.share.map_or(spaces[*at].memory, |(request, _)| request);
        booked[*at] = booked[*at].saturating_add(request);
    }
    let reach = |(piece, at): (&Piece, &usize)| {
        let (request, limit) = piece.share?;
        let others = booked[*at].saturating_sub(request);
        Some((limit.min(spaces[*at].memory.saturating_sub(others)).get(), limit.get().max(1)))
    };
    let mut reaches: Vec<Reach> = pieces.iter().zip(places).filter_map(reach).collect();
    reaches.sort_by(|one, other| order(*one, *other));
    reaches
}

fn order(one: Reach, other: Reach) -> Ordering {
    let product = |part: u64, whole: u64| u128::from(part) * u128::from(whole);
    product(one.0, other.1).cmp(&product(other.0, one.1))
}

fn further(one: &[Reach], other: &[Reach]) -> Ordering {
    let mut orders = one.iter().zip(other).map(|(one, other)| order(*one, *other));
    orders.find(|it| it.is_ne()).unwrap_or(Ordering::Equal)
}

/// All sets of `number` elements, in lexical order.
fn combinations(from: &[usize], number: usize) -> Vec<Vec<usize>> {
    if number == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (ix, first) in from.iter().enumerate() {
        for mut rest in combinations(&from[ix + 1..], number - 1) {
            rest.insert(0, *first);
            all.push(rest);
        }
    }
    all
}
