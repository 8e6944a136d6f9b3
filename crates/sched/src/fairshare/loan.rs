//! Which of a project's pieces of work are its own and which are on loan, by order: the first that
//! fit into what is its own are safe, whatever the others take.

use gpool_model::Amount;

/// Marks the pieces that are on loan, in `marks`. `pieces` come in the order in which they are
/// kept, each with its amounts by kind; `own` is what the project may keep of each kind, and `kept`
/// what it holds of it already that can't be taken back.
///
/// A piece that does not fit is on loan as a whole, and those after it may still be safe: else one
/// large gang would put all that follows on loan.
pub fn mark_loans<'a>(
    own: &[Amount],
    pieces: impl Iterator<Item = &'a [u64]>,
    kept: &mut [u64],
    marks: &mut Vec<bool>,
) {
    marks.clear();
    for piece in pieces {
        let fits =
            own.iter().zip(&*kept).zip(piece).all(|((own, kept), amount)| {
                *amount == 0 || own.allows(kept.saturating_add(*amount))
            });
        if fits {
            for (kept, amount) in kept.iter_mut().zip(piece) {
                *kept += amount;
            }
        }
        marks.push(!fits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(own: &[Amount], pieces: &[&[u64]]) -> Vec<bool> {
        marks_beside(&vec![0; own.len()], own, pieces)
    }

    fn marks_beside(for_good: &[u64], own: &[Amount], pieces: &[&[u64]]) -> Vec<bool> {
        let (mut kept, mut marks) = (for_good.to_vec(), Vec::new());
        mark_loans(own, pieces.iter().copied(), &mut kept, &mut marks);
        marks
    }

    #[test]
    fn what_cannot_go_uses_up_what_is_its_own_even_where_it_is_more() {
        let own = [Amount::counted(2)];
        assert_eq!(marks_beside(&[1], &own, &[&[1], &[1]]), [false, true]);
        assert_eq!(marks_beside(&[3], &own, &[&[1], &[1]]), [true, true]);
    }

    #[test]
    fn the_oldest_within_its_own_are_safe() {
        let own = [Amount::counted(2)];
        assert_eq!(marks(&own, &[&[1], &[1], &[1]]), [false, false, true]);
    }

    #[test]
    fn a_gang_beyond_its_own_is_on_loan_and_smaller_work_after_it_is_not() {
        let own = [Amount::counted(2)];
        assert_eq!(marks(&own, &[&[4], &[1], &[1], &[1]]), [true, false, false, true]);
    }

    #[test]
    fn only_kinds_that_a_piece_takes_count() {
        let own = [Amount::counted(1), Amount::NOTHING, Amount::UNLIMITED];
        assert_eq!(marks(&own, &[&[1, 0, 9], &[0, 1, 0], &[0, 0, 9]]), [false, true, false]);
    }
}
