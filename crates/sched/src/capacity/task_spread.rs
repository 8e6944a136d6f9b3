//! The spread of tasks that may share nodes: how many units each node gets.

/// Spreads `n` units over as few nodes as possible; `None` if there is too little room. `fitting`
/// are nodes, the preferred ones first, with the number of units that fit. The nodes with the most
/// room are filled; the last one is the node with the least room that is enough for the rest.
pub(crate) fn share_out(n: u32, fitting: &[(usize, u32)]) -> Option<Vec<(usize, u32)>> {
    let mut fitting: Vec<(usize, u32)> =
        fitting.iter().copied().filter(|(_, units)| *units > 0).collect();
    fitting.sort_by_key(|(_, units)| std::cmp::Reverse(*units));
    let (mut left, mut given) = (n, Vec::new());
    for (at, (node, units)) in fitting.iter().enumerate() {
        if *units < left {
            given.push((*node, *units));
            left -= units;
            continue;
        }
        let enough = fitting[at..].iter().take_while(|(_, units)| *units >= left);
        let (last, _) = enough.min_by_key(|(_, units)| *units)?;
        given.push((*last, left));
        return Some(given);
    }
    None
}

/// Returns how many times something fits, at most `most`. If it does not fit n times, it must not
/// fit more often.
pub(crate) fn most_times(most: u32, fits: impl Fn(u32) -> bool) -> u32 {
    if most == 0 || !fits(1) {
        return 0;
    }
    let (mut least, mut most) = (1, most);
    while least < most {
        let middle = most - (most - least) / 2;
        match fits(middle) {
            true => least = middle,
            false => most = middle - 1,
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_nodes_are_used_and_the_last_one_is_the_tightest() {
        let fitting = [(0, 2), (1, 4), (2, 3), (3, 4), (4, 0), (5, 2)];
        assert_eq!(share_out(1, &fitting), Some(vec![(0, 1)]));
        assert_eq!(share_out(3, &fitting), Some(vec![(2, 3)]));
        assert_eq!(share_out(4, &fitting), Some(vec![(1, 4)]));
        assert_eq!(share_out(6, &fitting), Some(vec![(1, 4), (0, 2)]));
        assert_eq!(share_out(15, &fitting).map(|given| given.len()), Some(5));
        assert_eq!(share_out(16, &fitting), None);
        assert_eq!(share_out(1, &[]), None);
        // Where each has room once it is the preferred ones.
        assert_eq!(share_out(2, &[(7, 1), (3, 1), (5, 1)]), Some(vec![(7, 1), (3, 1)]));
    }

    #[test]
    fn the_most_times_are_found_that_fit() {
        for most in 0..20 {
            for limit in 0..25 {
                assert_eq!(most_times(most, |times| times <= limit), most.min(limit));
            }
        }
    }
}
