//! Where a job finds a place at once, or why it does not.

use gpool_model::Reason;
use gpool_world::Snapshot;

use crate::board::Board;
use crate::foresight::Look;
use crate::keep::{Ending, Keeps, Span, length};
use crate::place::{self, Found, Seeker};
use crate::wait;

/// Whether what a job waits for may come by itself, when others end.
pub(crate) fn waits_for_room(reason: &Reason) -> bool {
    if let Reason::NodesNotFree { need, able, .. } | Reason::TasksNotFree { need, able, .. } =
        reason
    {
        return able >= need;
    }
    !matches!(
        reason,
        Reason::GpuModelMissing { .. }
            | Reason::GpuMemoryTooSmall { .. }
            | Reason::AgentUnreachable { .. }
            | Reason::NodeDrained { .. }
            | Reason::OnlyInPool { .. }
            | Reason::OnlyOnNodes { .. }
    )
}

/// The best places that the tasks of a job can have at once. `endings` says what is given back on
/// a node.
pub(crate) fn place_among<'a>(
    snapshot: &Snapshot<'a>,
    board: &Board<'a>,
    keeps: &Keeps<'a>,
    (seeker, look): (&Seeker<'_>, Option<&mut Look<'_>>),
    endings: &dyn Fn(usize) -> Vec<Ending>,
) -> Option<Vec<Found>> {
    let span = Span::new(snapshot.now, length(seeker.shape));
    place::place(board, seeker, look, &|board_ix, times| {
        let node = &board.nodes[board_ix];
        let mut kept = match keeps.has(board_ix) {
            false => Vec::new(),
            true => {
                let needs = seeker.needs(times);
                keeps.kept((board_ix, node), (seeker.shape, needs), span, &|| endings(board_ix))?
            }
        };
        node.close_others(&seeker.shape.fit, &mut kept);
        Some(kept)
    })
}

/// Why a job has no place: what is kept on the place that it would have otherwise, or what is
/// short.
pub(crate) fn reason(
    snapshot: &Snapshot<'_>,
    board: &Board<'_>,
    keeps: &Keeps<'_>,
    seeker: &Seeker<'_>,
) -> Reason {
    let otherwise = place::place(board, seeker, None, &|board_ix, _| {
        let mut kept = Vec::new();
        board.nodes[board_ix].close_others(&seeker.shape.fit, &mut kept);
        Some(kept)
    });
    let short = || wait::reason(board, &seeker.shape.fit);
    let not_reserved = keeps.not_reserved(board, seeker.shape);
    let Some(found) = otherwise else {
        let short = short();
        // Where only reserved devices are given out, a device that becomes free is no help.
        return not_reserved.filter(|_| is_of_devices(&short)).unwrap_or(short);
    };
    let kept = || {
        found.iter().find_map(|found| {
            let node = (found.board_ix, &board.nodes[found.board_ix]);
            keeps.reason(node, seeker.shape, snapshot.now)
        })
    };
    not_reserved.or_else(kept).unwrap_or_else(short)
}

/// Whether too few devices are free now.
fn is_of_devices(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::GpusNotFree { .. }
            | Reason::GpusNotFreeTogether { .. }
            | Reason::GpuShareNotFree { .. }
            | Reason::NodesNotFree { .. }
            | Reason::TasksNotFree { .. }
    ) && waits_for_room(reason)
}
