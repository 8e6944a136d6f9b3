//! Places a task that fits nowhere: a few small tasks of one node move to other nodes.

use gpool_sched::fragmentation::TaskDemand;

use super::{Move, NodeNo, Packer};

/// The most nodes that are tried.
const TRIED: usize = 64;

impl Packer {
    /// Places a task where it fits, or where it fits once at most `n_most` tasks have moved; `None`
    /// if these fit nowhere else. Only tasks of one device or of a part of one move.
    pub fn place_or_move(
        &mut self,
        task: u64,
        ask: &TaskDemand,
        n_most: usize,
    ) -> Option<Vec<Move>> {
        if self.place(task, ask).is_some() {
            return Some(Vec::new());
        }
        if ask.n_gpus == 0 || n_most == 0 {
            return None;
        }
        let candidates = self.cheapest(ask, n_most);
        candidates.into_iter().find_map(|(node, leave)| self.make_room((task, ask), node, &leave))
    }

    /// Places a task on a node that the tasks `leave` leave. Changes nothing if one of these fits
    /// nowhere else.
    fn make_room(
        &mut self,
        (task, ask): (u64, &TaskDemand),
        node: NodeNo,
        leave: &[u64],
    ) -> Option<Vec<Move>> {
        let mut gone = Vec::new();
        for it in leave {
            gone.push((*it, self.remove(*it)?));
        }
        let at = self.left(node).choices(ask).next()?;
        self.put(task, ask, node, at);
        // The largest first: it fits in the fewest places.
        gone.sort_by_key(|(task, placed)| (std::cmp::Reverse(placed.ask.gpus()), *task));
        let mut moves = Vec::new();
        for (other, placed) in &gone {
            match self.place(*other, &placed.ask) {
                Some(to) => moves.push(Move { task: *other, from: node, to }),
                None => break,
            }
        }
        if moves.len() == gone.len() {
            return Some(moves);
        }
        for it in &moves {
            self.remove(it.task);
        }
        self.remove(task);
        for (other, placed) in gone {
            self.put_back(other, placed);
        }
        None
    }

    /// The nodes that the fewest tasks, and then the smallest, would have to leave come first.
    fn cheapest(&self, ask: &TaskDemand, n_most: usize) -> Vec<(NodeNo, Vec<u64>)> {
        let of = |node: NodeNo| {
            let leave = self.leave(node, ask, n_most)?;
            let size: u64 =
                leave.iter().filter_map(|it| self.task(*it)).map(|it| it.ask.gpus()).sum();
            Some(((leave.len(), size, node), leave))
        };
        let mut all: Vec<_> = (0..self.nodes.len()).filter_map(of).collect();
        all.sort();
        all.truncate(TRIED);
        all.into_iter().map(|((.., node), leave)| (node, leave)).collect()
    }

    /// The tasks that would have to leave a node, from the devices that the fewest and smallest
    /// tasks would have to leave.
    fn leave(&self, node: NodeNo, ask: &TaskDemand, n_most: usize) -> Option<Vec<u64>> {
        let left = self.left(node);
        let n_gpus = ask.n_gpus as usize;
        if ask.models >> left.model & 1 == 0 || left.free.len() < n_gpus {
            return None;
        }
        let devices =
            (0..left.free.len()).filter_map(|device| self.leave_device(node, device, ask));
        let mut devices: Vec<(usize, u64, Vec<u64>)> = devices.collect();
        devices.sort();
        if devices.len() < n_gpus {
            return None;
        }
        let leave: Vec<u64> =
            devices.into_iter().take(n_gpus).flat_map(|(.., tasks)| tasks).collect();
        if leave.len() > n_most || leave.is_empty() {
            return None;
        }
        let of_those = leave.iter().filter_map(|it| self.task(*it)).map(|it| it.ask);
        let (cpus, memory) = of_those.fold((left.cpus, left.memory), |(cpus, memory), it| {
            (cpus + it.cpus, memory + it.memory)
        });
        (cpus >= ask.cpus && memory >= ask.memory).then_some(leave)
    }

    /// The tasks that would have to leave a device: their number, their size, and the tasks. `None`
    /// if the device has a task that can't move.
    fn leave_device(
        &self,
        node: NodeNo,
        device: usize,
        ask: &TaskDemand,
    ) -> Option<(usize, u64, Vec<u64>)> {
        let here = &self.nodes[node];
        let mut missing = u64::from(ask.part.saturating_sub(here.free[device]));
        let on_device = here.tasks.iter().filter_map(|task| Some((*task, self.task(*task)?)));
        let mut on_device: Vec<(u64, u64)> = on_device
            .filter(|(_, placed)| placed.ask.n_gpus == 1 && placed.devices.contains(&device))
            .map(|(task, placed)| (placed.ask.gpus(), task))
            .collect();
        on_device.sort_unstable();
        let mut leave = Vec::new();
        let mut size = 0;
        while missing > 0 {
            // The smallest that is enough, else the largest.
            let enough = on_device.iter().position(|(gpus, _)| *gpus >= missing);
            let at = enough.or(on_device.len().checked_sub(1))?;
            let (gpus, task) = on_device.remove(at);
            size += gpus;
            leave.push(task);
            missing = missing.saturating_sub(gpus);
        }
        Some((leave.len(), size, leave))
    }
}
