//! The use of simulated devices by tasks: a level for each task that changes a little over time,
//! and memory, power and temperature that follow it.

use gpool_model::id::TaskId;
use gpool_model::unit::Bytes;

/// The variable with the load of a job, or of all jobs without one if the server has it.
pub const VARIABLE: &str = "SIM_GPU_LOAD";

/// Milliwatts of a device without work, and more at full work.
const IDLE_MW: u64 = 62_000;
const WORK_MW: u64 = 430_000;
/// Degrees Celsius of a device without work, and more at full work.
const IDLE_C: u32 = 31;
const WORK_C: u32 = 41;
/// Levels of tasks that state none, in percent: the least, and the number of levels.
const LEAST: u64 = 58;
const LEVELS: u64 = 35;
/// How much a level changes over time, in percent, and the seconds of each change.
const WAVE: u64 = 9;
const STEP_S: u64 = 2;

/// A load that a job states: percent of the time in which its kernels run, and its memory on each
/// device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stated {
    pub percent: u32,
    /// Memory; a part of the task's memory if absent.
    pub memory: Option<Bytes>,
}

impl Stated {
    /// Parses `70`, or `70,20G`. `None` if it is neither: a job also runs with a wrong value.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (percent, memory) = match text.trim().split_once(',') {
            Some((percent, memory)) => (percent, Some(gpool_model::parse::bytes(memory).ok()?)),
            None => (text.trim(), None),
        };
        let percent = percent.trim_end_matches('%').parse().ok().filter(|it| *it <= 100)?;
        Some(Self { percent, memory })
    }
}

/// A task on a simulated device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimLoad {
    pub task: TaskId,
    /// Its part of the device in thousandths.
    pub milli: u64,
    /// Its load, if its job states one.
    pub stated: Option<Stated>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimUse {
    /// Percent of the time with running kernels.
    pub percent: u32,
    pub memory: Bytes,
    pub power_mw: u64,
    pub temperature_c: u32,
}

/// The use of a device with this memory by tasks, at a time in seconds.
#[must_use]
pub fn used(loads: &[SimLoad], memory: Bytes, usual: Option<Stated>, at_s: u64) -> SimUse {
    let (mut permille, mut taken) = (0, Bytes::ZERO);
    for load in loads {
        let stated = load.stated.or(usual);
        let percent = stated.map_or_else(|| level(load.task, at_s), |it| u64::from(it.percent));
        permille += percent * load.milli / 100;
        let part = memory.get() / 1000 * load.milli;
        let seed = seed(load.task);
        let own = stated.and_then(|it| it.memory).map(Bytes::get);
        let some = part / 100 * (35 + seed % 50);
        let held = if percent == 0 { part / 100 * 4 } else { some };
        taken = taken.saturating_add(Bytes::new(own.unwrap_or(held).min(part)));
    }
    let permille = permille.min(1000);
    let percent = u32::try_from(permille / 10).unwrap_or(100);
    SimUse {
        percent,
        memory: taken,
        power_mw: IDLE_MW + WORK_MW / 1000 * permille,
        temperature_c: IDLE_C + WORK_C * percent / 100,
    }
}

/// The level of a task that states none.
fn level(task: TaskId, at_s: u64) -> u64 {
    let seed = seed(task);
    let wave = (at_s / STEP_S * 7 + seed % 11 * 5) % WAVE;
    (LEAST + seed % LEVELS + wave).min(100)
}

fn seed(task: TaskId) -> u64 {
    let element = u64::from(task.job.element.unwrap_or(0));
    let parts = [task.job.number.0, element, u64::from(task.rank)];
    // FNV-1a: equal at each start, and different for neighbors.
    parts.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, part| {
        (hash ^ part).wrapping_mul(0x0000_0100_0000_01b3).rotate_right(7)
    })
}
