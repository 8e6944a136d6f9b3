//! Where shares physically are: spread while devices are free, moved when one is needed whole.

use gpool_model::ShareWith;
use gpool_model::unit::Bytes;
use gpool_node::spread::{Among, Guests, Piece, Space, spread};
use proptest::prelude::*;

const DEVICE: Space<'static> =
    Space { model: "H100", memory: Bytes::new(80), guests: Guests::Come };

fn share(task: usize, booked: usize, at: Option<usize>, request: u64, limit: u64) -> Piece {
    let share = Some((Bytes::new(request), Bytes::new(limit)));
    Piece { task, booked, at, share, can_move: true, is_pinned: false, among: Among::default() }
}

fn whole(task: usize, booked: usize, at: Option<usize>) -> Piece {
    Piece {
        task,
        booked,
        at,
        share: None,
        can_move: false,
        is_pinned: false,
        among: Among::default(),
    }
}

#[test]
fn two_notebooks_burst_on_two_devices_until_one_is_needed() {
    let spaces = [DEVICE; 2];
    let first = share(0, 0, None, 40, 80);
    assert_eq!(spread(&spaces, &[first]), Some(vec![0]));
    let first = share(0, 0, Some(0), 40, 80);
    let second = share(1, 0, None, 40, 80);
    assert_eq!(spread(&spaces, &[first, second]), Some(vec![0, 1]));
    let second = share(1, 0, Some(1), 40, 80);
    assert_eq!(spread(&spaces, &[first, second, whole(2, 1, None)]), Some(vec![0, 0, 1]));
    // It has ended; No task moves without need.
    let second = share(1, 0, Some(0), 40, 80);
    assert_eq!(spread(&spaces, &[first, second]), Some(vec![0, 0]));
}

#[test]
fn the_piece_with_the_least_memory_makes_room() {
    // Three pieces are on the second device, which two of them did not book, and its own grew.
    let pieces = |first, second| {
        let guest = |task, request| share(task, 0, Some(1), request, 80);
        [guest(0, first), guest(1, second), share(2, 1, Some(1), 40, 80)]
    };
    assert_eq!(spread(&[DEVICE; 2], &pieces(30, 20)), Some(vec![1, 0, 1]));
    assert_eq!(spread(&[DEVICE; 2], &pieces(20, 30)), Some(vec![0, 1, 1]));
}

#[test]
fn shares_without_room_to_grow_stay_packed() {
    // The limit is the request: it reaches its limit anywhere, and the lowest position wins.
    let pieces = [share(0, 0, Some(0), 40, 40), share(1, 0, None, 40, 40)];
    assert_eq!(spread(&[DEVICE; 2], &pieces), Some(vec![0, 0]));
    assert_eq!(spread(&[DEVICE; 2], &[share(0, 1, None, 40, 40)]), Some(vec![1]));
}

#[test]
fn closed_and_other_devices_take_no_guest() {
    let closed = Space { guests: Guests::Leave, ..DEVICE };
    let other = Space { model: "A100", ..DEVICE };
    let pieces = [share(0, 0, Some(0), 40, 80), share(1, 0, None, 40, 80)];
    assert_eq!(spread(&[DEVICE, closed, other], &pieces), Some(vec![0, 0]));
    // A guest leaves a device that was closed; the task that booked it stays.
    let guest = [share(0, 0, Some(1), 40, 80), share(1, 1, Some(1), 40, 80)];
    assert_eq!(spread(&[DEVICE, closed], &guest), Some(vec![0, 1]));
}

#[test]
fn shares_spread_only_to_pieces_that_accept_them() {
    let of = |with, uid| Among { with, uid, project: 0 };
    let alone = of(ShareWith::User, 1);
    let piece = |task, booked, at, among| Piece { among, ..share(task, booked, at, 20, 80) };
    let pieces = |uid| {
        let first = [0, 1].map(|task| piece(task, 0, Some(0), Among::default()));
        let third = piece(3, 0, None, of(ShareWith::Anyone, uid));
        [first[0], first[1], piece(2, 1, Some(1), alone), third]
    };
    // The new one reaches most on the second device.
    assert_eq!(spread(&[DEVICE; 2], &pieces(1)), Some(vec![0, 0, 1, 1]));
    assert_eq!(spread(&[DEVICE; 2], &pieces(2)), Some(vec![0, 0, 1, 0]));
    // A guest leaves when a piece starts there that does not accept it.
    let spaces = [Space { guests: Guests::Stay, ..DEVICE }, DEVICE];
    let guest = piece(0, 0, Some(1), of(ShareWith::Anyone, 2));
    assert_eq!(spread(&spaces, &[guest, piece(1, 1, None, alone)]), Some(vec![0, 1]));
    let stuck = Piece { can_move: false, ..guest };
    assert_eq!(spread(&spaces, &[stuck, piece(1, 1, None, alone)]), None);
}

#[test]
fn a_guest_that_can_not_move_is_reported() {
    let stuck = Piece { can_move: false, ..share(0, 0, Some(1), 40, 80) };
    assert_eq!(spread(&[DEVICE; 2], &[stuck, whole(1, 1, None)]), None);
}

#[test]
fn others_make_room_if_they_must() {
    // A job gets device 2 whole. Its guest has room only at home, where another guest is.
    let pieces = [
        share(0, 0, Some(2), 60, 80),
        share(1, 1, Some(0), 50, 80),
        share(2, 1, Some(1), 30, 30),
        whole(3, 2, None),
    ];
    assert_eq!(spread(&[DEVICE; 3], &pieces), Some(vec![0, 1, 1, 2]));
}

#[test]
fn pieces_of_a_task_are_on_different_devices() {
    let pieces = [share(0, 0, None, 10, 80), share(0, 1, None, 10, 80)];
    assert_eq!(spread(&[DEVICE; 2], &pieces), Some(vec![0, 1]));
    let pieces = [share(0, 0, Some(0), 10, 80), share(0, 1, Some(2), 10, 80), whole(1, 2, None)];
    assert_eq!(spread(&[DEVICE; 3], &pieces), Some(vec![0, 1, 2]));
}

#[test]
fn many_pieces_are_placed_without_comparing_every_placement() {
    let pieces: Vec<Piece> = (0..64).map(|task| share(task, task / 8, None, 10, 80)).collect();
    let places = spread(&[DEVICE; 16], &pieces).expect("there is room");
    assert!((0..16).all(|at| places.iter().filter(|it| **it == at).count() <= 8));
}

/// A node whose books fit: shares booked on few devices, whole devices apart, and every piece where
/// the books or an earlier choice put it.
fn nodes() -> impl Strategy<Value = (Vec<bool>, Vec<Piece>)> {
    let share = (0_usize..3, 5_u64..50, 0_u64..60, any::<bool>());
    (proptest::collection::vec(share, 0..5), proptest::collection::vec(any::<bool>(), 4)).prop_map(
        |(shares, opens)| {
            let mut room = [80_u64; 3];
            let mut pieces = Vec::new();
            for (task, (booked, request, above, can_move)) in shares.into_iter().enumerate() {
                if request <= room[booked] {
                    room[booked] -= request;
                    let limit = (request + above).min(80);
                    let piece = self::share(task, booked, Some(booked), request, limit);
                    pieces.push(Piece { can_move, ..piece });
                }
            }
            (opens, pieces)
        },
    )
}

/// The result for every placement: the moves, and whether it is allowed.
fn fewest_moves(spaces: &[Space<'_>], pieces: &[Piece]) -> Option<usize> {
    let mut best = None;
    let mut places = vec![0; pieces.len()];
    loop {
        let moves =
            pieces.iter().zip(&places).filter(|(it, at)| it.at.is_some_and(|is| is != **at));
        let n_moves = moves.count();
        if is_allowed(spaces, pieces, &places) && best.is_none_or(|best| n_moves < best) {
            best = Some(n_moves);
        }
        let Some(next) = places.iter().position(|at| at + 1 < spaces.len()) else { return best };
        places[next] += 1;
        places[..next].fill(0);
    }
}

fn is_allowed(spaces: &[Space<'_>], pieces: &[Piece], places: &[usize]) -> bool {
    (0..spaces.len()).all(|at| {
        let here: Vec<&Piece> = pieces
            .iter()
            .zip(places)
            .filter(|(_, is)| **is == at)
            .map(|(piece, _)| piece)
            .collect();
        let requests: u64 = here.iter().filter_map(|it| Some(it.share?.0.get())).sum();
        let n_whole = here.iter().filter(|it| it.share.is_none()).count();
        let guests_ok = here.iter().all(|it| it.booked == at || spaces[at].guests == Guests::Come);
        let stuck_ok = here.iter().all(|it| it.can_move || it.at.is_none_or(|is| is == at));
        let whole_ok = n_whole == 0 || (n_whole == 1 && here.len() == 1);
        requests <= 80 && guests_ok && stuck_ok && whole_ok
    }) && pieces.iter().zip(places).all(|(it, at)| it.share.is_some() || it.booked == *at)
}

proptest! {
    #[test]
    fn a_free_device_in_the_books_can_be_freed_with_the_fewest_moves(
        (opens, pieces) in nodes(), new in any::<bool>(),
    ) {
        let closed = Space { guests: Guests::Leave, ..DEVICE };
        let spaces: Vec<Space<'_>> =
            opens.iter().map(|opens| if *opens { DEVICE } else { closed }).collect();
        // Spread the movable ones, one after the other, as tasks start.
        let mut placed: Vec<Piece> = Vec::new();
        for piece in &pieces {
            placed.push(Piece { at: if piece.can_move { None } else { piece.at }, ..*piece });
            let places = spread(&spaces, &placed).expect("a new piece can be at home");
            prop_assert!(is_allowed(&spaces, &placed, &places));
            for (piece, at) in placed.iter_mut().zip(places) {
                prop_assert!(piece.can_move || piece.at == Some(at));
                piece.at = Some(at);
            }
        }
        // Nothing changes without a cause.
        let now: Vec<usize> = placed.iter().filter_map(|piece| piece.at).collect();
        prop_assert_eq!(spread(&spaces, &placed), Some(now));
        // A job gets the device without a booking.
        let job = if new { whole(99, 3, None) } else { share(99, 3, None, 80, 80) };
        placed.push(job);
        let places = spread(&spaces, &placed).expect("the books show it as free");
        prop_assert!(is_allowed(&spaces, &placed, &places), "{places:?}");
        let moved = |(it, at): &(&Piece, &usize)| it.at.is_some_and(|is| is != **at);
        let moves = placed.iter().zip(&places).filter(moved);
        prop_assert_eq!(Some(moves.count()), fewest_moves(&spaces, &placed));
    }
}
