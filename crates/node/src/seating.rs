//! Chooses the devices of a task on a node: one model, the smallest MIG instances and fast links
//! first, then devices that no guest has to leave, then the strategy's order, then the lowest
//! indices. Shares go to devices that are already shared, so that others stay free as a whole.
//! Depends on no queue and on no policy but the strategy.

use std::cmp::Reverse;

use gpool_model::{Bytes, Device, DeviceStrategy, GpuRequest, Link, Share};

/// One device of a node, with its availability.
#[derive(Debug, Clone, Copy)]
pub struct Seat<'a> {
    pub device: &'a Device,
    /// Whether it can be allocated as a whole now.
    pub is_free: bool,
    /// Whether a job has it, or a share of it.
    pub is_busy: bool,
    /// The memory that is left for shares now; zero if no share is allowed.
    pub room: Bytes,
    /// The work that jobs lose that booked other devices and leave this one for a new job, in
    /// thousandths of a device times milliseconds.
    pub lost: u64,
}

impl Seat<'_> {
    /// The charge of a MIG instance: a small one leaves the larger ones to jobs that need them.
    fn size(&self) -> u64 {
        self.device.instance.as_ref().map_or(0, |_| self.device.counts_as().get())
    }
}

/// If there are more sets than this, not all are compared: 8 of 16 devices are 12,870 sets.
const SETS_MAX: u64 = 20_000;

/// Chooses devices of one node for a request: positions in `seats`, ascending. `None` if it does
/// not fit. Only [`DeviceStrategy::Random`] uses `seed`.
///
/// Preferred, in this order: earlier models of the request; devices of one model; the smallest MIG
/// instances; for two or more devices, the set with the best total link rank; the least work that
/// guests lose; the strategy's order; the lowest positions. For shares, after the model: shared
/// devices, the fullest first; then free ones, those where guests lose least first.
#[must_use]
pub fn seat(
    seats: &[Seat<'_>],
    request: &GpuRequest,
    strategy: DeviceStrategy,
    seed: u64,
) -> Option<Vec<usize>> {
    let n_devices = usize::try_from(request.n_devices()).ok()?;
    if n_devices == 0 {
        return Some(Vec::new());
    }
    let mut order = ranked(seats, strategy, seed);
    order.sort_by_key(|ix| (seats[*ix].size(), seats[*ix].lost));
    let n_ranks = request.models.len().max(1);
    let ranks = ranks(seats, request);
    if let Some(share) = request.share() {
        let of_rank = |rank| seat_shares(seats, (&order, &ranks), n_devices, share, rank);
        return (0..n_ranks).find_map(of_rank);
    }
    for rank in 0..n_ranks {
        let of_rank: Vec<usize> = order
            .iter()
            .copied()
            .filter(|ix| seats[*ix].is_free && ranks[*ix] == Some(rank))
            .collect();
        if of_rank.len() < n_devices {
            continue;
        }
        let mut chosen = match one_model(seats, &of_rank, n_devices) {
            Some(candidates) => best_linked(seats, &candidates, n_devices),
            None => best_linked(seats, &of_rank, n_devices),
        };
        chosen.sort_unstable();
        return Some(chosen);
    }
    None
}

/// Whether [`seat`] would find devices; does not compare sets.
#[must_use]
pub fn fits(seats: &[Seat<'_>], request: &GpuRequest) -> bool {
    let n_devices = usize::try_from(request.n_devices()).unwrap_or(usize::MAX);
    let ranks = ranks(seats, request);
    let n_with = |rank: usize| {
        let has_room = |seat: &Seat<'_>| match request.share() {
            None => seat.is_free,
            Some(share) => share.memory_of(seat.device.memory) <= seat.room,
        };
        let of_rank = seats.iter().zip(&ranks).filter(|(_, it)| **it == Some(rank));
        of_rank.filter(|(seat, _)| has_room(seat)).count()
    };
    n_devices == 0 || (0..request.models.len().max(1)).any(|rank| n_with(rank) >= n_devices)
}

/// The rank of each device for the request, by position. Most devices of a node are equal, so equal
/// neighbours are computed once.
fn ranks<'a>(seats: &[Seat<'a>], request: &GpuRequest) -> Vec<Option<usize>> {
    let mut last: Option<(&Device, Option<usize>)> = None;
    let mut rank = |device: &'a Device| match last {
        Some((like, rank)) if like.is_alike(device) => rank,
        _ => {
            let rank = request.rank_of(device);
            last = Some((device, rank));
            rank
        }
    };
    seats.iter().map(|seat| rank(seat.device)).collect()
}

/// The devices of one rank for shares: shared devices first, the fullest first, then free ones.
/// `None` if there are too few.
fn seat_shares(
    seats: &[Seat<'_>],
    (order, ranks): (&[usize], &[Option<usize>]),
    n_devices: usize,
    share: Share,
    rank: usize,
) -> Option<Vec<usize>> {
    let has_room = |ix: &usize| {
        let Seat { device, room, .. } = seats[*ix];
        ranks[*ix] == Some(rank) && share.memory_of(device.memory) <= room
    };
    let candidates = order.iter().copied().filter(has_room);
    let (free, mut chosen): (Vec<_>, Vec<_>) = candidates.partition(|ix| seats[*ix].is_free);
    chosen.sort_by_key(|ix| (seats[*ix].room, seats[*ix].lost, *ix));
    chosen.extend(free);
    if chosen.len() < n_devices {
        return None;
    }
    chosen.truncate(n_devices);
    chosen.sort_unstable();
    Some(chosen)
}

/// The candidates of the first model that has enough of them.
fn one_model(seats: &[Seat<'_>], candidates: &[usize], n_devices: usize) -> Option<Vec<usize>> {
    let model = |ix: &usize| seats[*ix].device.model.as_str();
    let of = |wanted: &str| -> Vec<usize> {
        candidates.iter().copied().filter(|ix| model(ix) == wanted).collect()
    };
    candidates.iter().map(|ix| of(model(ix))).find(|group| group.len() >= n_devices)
}

/// All positions in the strategy's order.
fn ranked(seats: &[Seat<'_>], strategy: DeviceStrategy, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..seats.len()).collect();
    let nearness_to_busy = |ix: usize| -> u64 {
        let busy = seats.iter().filter(|other| other.is_busy);
        busy.map(|other| link_rank(seats[ix].device, other.device)).sum()
    };
    match strategy {
        DeviceStrategy::Sequential => {}
        DeviceStrategy::Random => shuffle(&mut order, seed),
        DeviceStrategy::Pack => {
            order.sort_by_key(|ix| (Reverse(nearness_to_busy(*ix)), *ix));
        }
        DeviceStrategy::Spread => order.sort_by_key(|ix| (nearness_to_busy(*ix), *ix)),
    }
    order
}

/// The set of candidates with the best total link rank; among equals, the first in the order of
/// preference.
fn best_linked(seats: &[Seat<'_>], candidates: &[usize], n_devices: usize) -> Vec<usize> {
    let first = || candidates[..n_devices].to_vec();
    if n_devices == 1 || n_devices == candidates.len() {
        return first();
    }
    // Thousands of sets are compared, so the rank of each pair is computed once.
    let n = candidates.len();
    let between = |a: &usize, b: &usize| link_rank(seats[*a].device, seats[*b].device);
    let ranks: Vec<u64> =
        candidates.iter().flat_map(|a| candidates.iter().map(move |b| between(a, b))).collect();
    let rank = |a: usize, b: usize| ranks[a * n + b];
    let lost = |at: usize| seats[candidates[at]].lost;
    let all_equal = {
        let mut pairs = (0..n).flat_map(|b| (0..b).map(move |a| (a, b)));
        match pairs.next() {
            None => true,
            Some((a, b)) => {
                let one = rank(a, b);
                pairs.all(|(a, b)| rank(a, b) == one)
            }
        }
    };
    if all_equal {
        return first();
    }
    let best = if n_sets(n, n_devices) <= SETS_MAX {
        best_of_all(n, n_devices, &rank, &lost)
    } else {
        best_grown(n, n_devices, &rank)
    };
    best.into_iter().map(|ix| candidates[ix]).collect()
}

/// The best set of `n_chosen` positions out of `n`: the best linked, then the one where
/// guests lose least; among equals, the lexicographically first.
fn best_of_all(
    n: usize,
    n_chosen: usize,
    rank: &dyn Fn(usize, usize) -> u64,
    lost: &dyn Fn(usize) -> u64,
) -> Vec<usize> {
    let total = |set: &[usize]| -> (u64, Reverse<u64>) {
        let pairs = (0..set.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
        let links = pairs.map(|(a, b)| rank(set[a], set[b])).sum();
        let lost = set.iter().map(|at| lost(*at)).fold(0, u64::saturating_add);
        (links, Reverse(lost))
    };
    let mut set: Vec<usize> = (0..n_chosen).collect();
    let mut best = set.clone();
    let mut best_total = total(&set);
    while next_set(&mut set, n) {
        let this = total(&set);
        if this > best_total {
            best_total = this;
            best.clone_from(&set);
        }
    }
    best
}

/// Makes the lexicographically next set of positions below `n`; returns `false` after the last.
fn next_set(set: &mut [usize], n: usize) -> bool {
    let n_chosen = set.len();
    let Some(at) = (0..n_chosen).rev().find(|at| set[*at] < n - n_chosen + at) else {
        return false;
    };
    set[at] += 1;
    for next in at + 1..n_chosen {
        set[next] = set[next - 1] + 1;
    }
    true
}

/// A good set where there are too many to compare: grown greedily from each position by the nearest
/// device; the best of these.
fn best_grown(n: usize, n_chosen: usize, rank: &dyn Fn(usize, usize) -> u64) -> Vec<usize> {
    let mut best: (u64, Vec<usize>) = (0, (0..n_chosen).collect());
    for start in 0..n {
        let mut set = vec![start];
        let mut total = 0;
        while set.len() < n_chosen {
            let gain = |ix: usize| -> u64 { set.iter().map(|other| rank(*other, ix)).sum() };
            let next = (0..n)
                .filter(|ix| !set.contains(ix))
                .max_by_key(|ix| (gain(*ix), Reverse(*ix)))
                .expect("fewer are chosen than there are");
            total += gain(next);
            set.push(next);
        }
        set.sort_unstable();
        if total > best.0 {
            best = (total, set);
        }
    }
    best.1
}

/// The number of sets of `n_chosen` out of `n`, at most [`SETS_MAX`] + 1.
fn n_sets(n: usize, n_chosen: usize) -> u64 {
    let mut count: u64 = 1;
    for step in 0..n_chosen.min(n - n_chosen) {
        let (factor, divisor) = ((n - step) as u64, step as u64 + 1);
        count = count * factor / divisor;
        if count > SETS_MAX {
            return SETS_MAX + 1;
        }
    }
    count
}

/// The rank of the link between two devices, as a number that can be summed: a better kind of link
/// outweighs any number of lanes.
fn link_rank(a: &Device, b: &Device) -> u64 {
    match a.links.get(&b.uuid).or_else(|| b.links.get(&a.uuid)) {
        None | Some(Link::System) => 0,
        Some(Link::Numa) => 100,
        Some(Link::HostBridge) => 200,
        Some(Link::Switch) => 300,
        Some(Link::NvLink(n_links)) => 400 + u64::from((*n_links).min(99)),
    }
}

/// Fisher-Yates with `SplitMix64`: the same seed gives the same order everywhere.
///
/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
fn shuffle(order: &mut [usize], seed: u64) {
    let mut state = seed;
    let mut draw = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    for last in (1..order.len()).rev() {
        let below = last as u64 + 1;
        // The modulo bias is below 2^-58 for any number of devices.
        let ix = usize::try_from(draw() % below).expect("below the length of a slice");
        order.swap(last, ix);
    }
}
