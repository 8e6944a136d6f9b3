//! The spread of tasks that may share nodes: how many units each node gets.

/// Spreads `n` units over as few nodes as possible; `None` if there is too little room. `fitting`
/// are nodes, the preferred ones first, with the number of units that fit. The nodes with the most
/// room are filled; the last one is the node with the least room that is enough for the rest.
pub fn share_out(n: u32, fitting: &[(usize, u32)]) -> Option<Vec<(usize, u32)>> {
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
pub fn most_times(most: u32, fits: impl Fn(u32) -> bool) -> u32 {
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
