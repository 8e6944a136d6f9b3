//! Charges: of tasks, of shares of a device, and the total capacity.

use crate::index::{Index, NodeRow, PlaceRow};
use crate::input::{Amounts, GpuAsk, Kind, Request};

impl Index {
    /// Returns the charge of a task on a place.
    pub(crate) fn charge_at(&self, task: usize, place: usize) -> Amounts {
        let ask = &self.asks[self.tasks[task].ask];
        let mut charge = ask.charge;
        if let (GpuAsk::Memory { bytes, devices }, Some(memory)) =
            (&ask.request.gpu, self.places[place].memory)
        {
            charge.gpu = percent_of(*bytes, memory).saturating_mul(10 * devices);
        }
        charge
    }

    /// Returns the part of a device of a place that a share needs, if the device is large enough.
    pub(crate) fn share_of(&self, ask: &GpuAsk, place: usize) -> Option<(i64, i64)> {
        let place = &self.places[place];
        match *ask {
            GpuAsk::Share { milli, devices } => {
                let need = i128::from(place.room) * i128::from(milli) / 1000;
                Some((i64::try_from(need).unwrap_or(i64::MAX).max(1), devices))
            }
            GpuAsk::Memory { bytes, devices } => {
                let memory = place.memory?;
                (percent_of(bytes, memory) <= 100).then_some((bytes, devices))
            }
            _ => None,
        }
    }
}

/// Returns the hundredths of a device for an amount of its memory, rounded up.
fn percent_of(bytes: i64, memory: i64) -> i64 {
    let parts = (i128::from(bytes) * 100 + i128::from(memory) - 1) / i128::from(memory);
    i64::try_from(parts).unwrap_or(i64::MAX / 10_000)
}

/// Returns the charge of a request before its place is known.
pub(crate) fn waiting_charge(request: &Request, smallest: Option<i64>) -> Amounts {
    let gpu = match &request.gpu {
        GpuAsk::None | GpuAsk::Unbooked => 0,
        GpuAsk::Whole(count) => count * 1000,
        GpuAsk::Share { milli, devices } => milli * devices,
        GpuAsk::Memory { bytes, devices } => match smallest {
            Some(memory) => {
                let milli = i128::from(*bytes) * 1000 / i128::from(memory);
                i64::try_from(milli).unwrap_or(i64::MAX / 1000).saturating_mul(*devices)
            }
            None => 0,
        },
        GpuAsk::Mig(instances) => instances.iter().map(|it| it.count * it.charge).sum(),
    };
    Amounts { gpu, cpu: request.cpu, memory: request.memory }
}

/// Returns the total capacity.
pub(crate) fn total(nodes: &[NodeRow], places: &[PlaceRow]) -> Amounts {
    let mut total = Amounts::default();
    for node in nodes {
        total += Amounts { gpu: 0, cpu: node.cpu, memory: node.memory };
    }
    for place in places {
        let instances: i64 = place.instances.iter().map(|it| it.count * it.charge).sum();
        total += Amounts { gpu: place.count * 1000 + instances, cpu: 0, memory: 0 };
    }
    total
}

/// Whether every amount of `a` is at most that of `b`; `None` stands for no bound.
pub(crate) fn within(a: Amounts, b: [Option<i64>; 3]) -> bool {
    Kind::ALL.iter().zip(b).all(|(&kind, bound)| bound.is_none_or(|bound| a[kind] <= bound))
}
