//! The data of this machine: GPUs through the driver, processes through `/proc`.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use gpool_cli::render::clock;
use gpool_device::{Monitor, NodeDevices, Observation, Opened, PollRequest};
use gpool_model::device::Device;
use gpool_model::id::{NodeName, PoolName};
use gpool_model::{Millis, Node, Resources};
use gpool_sys::{pidfd, proc};
use gpool_top::data::{self, News, Process};
use gpool_top::input::TopCommand;
use gpool_top::kinds::ratio;
use gpool_wire::Gpu;
use gpool_wire::gpu::{Occupancy, Restrictions};

use super::screen::Wish;

pub struct LocalMachine {
    /// The monitor of its GPUs, or why there is none.
    gpus: Result<Monitor, String>,
    driver: Option<String>,
    devices: Vec<Device>,
    /// Time of all cores and of the idle ones at the last reading, in ticks.
    cores: Option<(u64, u64)>,
    /// Time of each process at the last reading, in ticks, with its start time.
    spent: BTreeMap<u32, (u64, u64)>,
    read_at: Option<Instant>,
}

pub struct Reading {
    pub machine: data::MachineInfo,
    pub gpus: Vec<Gpu>,
    pub processes: Vec<Process>,
}

impl LocalMachine {
    /// Opens the driver and lists the GPUs.
    pub fn open() -> Self {
        // Only simulated devices have a control file.
        let none = std::path::Path::new("");
        let opened = NodeDevices::Nvml.open(&NodeName::new(name()), none);
        let mut machine = Self {
            gpus: Err(String::new()),
            driver: None,
            devices: Vec::new(),
            cores: None,
            spent: BTreeMap::new(),
            read_at: None,
        };
        machine.gpus = match opened {
            Opened::Nothing { why } => Err(why),
            Opened::Source(source) => {
                let mut monitor = Monitor::new(source);
                match monitor.inventory(Monitor::INVENTORY_TIMEOUT) {
                    Ok(inventory) if inventory.devices.is_empty() => {
                        Err("the driver lists none".to_owned())
                    }
                    Ok(inventory) => {
                        machine.driver = Some(inventory.driver);
                        machine.devices = inventory.devices;
                        Ok(monitor)
                    }
                    Err(error) => Err(error.to_string()),
                }
            }
        };
        machine
    }

    /// Reads at the interval and as the view wishes, until the view ends.
    pub fn serve(mut self, every: Millis, asked: &Receiver<Wish>, tell: &Sender<News>) {
        let every = Duration::from_millis(every.get());
        loop {
            let Reading { machine, gpus, processes } = self.read();
            let mut is_there = tell.send(News::Machine(Box::new(machine), gpus, processes)).is_ok();
            let due = Instant::now() + every;
            loop {
                match asked.recv_timeout(due.saturating_duration_since(Instant::now())) {
                    Ok(Wish::Ask(TopCommand::Signal { pid, started, signal })) => {
                        let said = News::Message(send(pid, started, signal));
                        is_there = tell.send(said).is_ok();
                        break;
                    }
                    Ok(Wish::Ask(_)) | Err(RecvTimeoutError::Timeout) => break,
                    Ok(Wish::Look(_) | Wish::Changed) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            if !is_there {
                return;
            }
        }
    }

    pub fn read(&mut self) -> Reading {
        let now = clock::now();
        let wanted = self.devices.iter().map(|it| (it.uuid.clone(), PollRequest::ALL)).collect();
        let looks = match &mut self.gpus {
            Ok(monitor) => monitor.look(&wanted, now.0, Monitor::LOOK_TIMEOUT),
            Err(_) => BTreeMap::new(),
        };
        let node = node(&self.devices);
        let (mut gpus, mut processes) = (Vec::new(), Vec::new());
        let before = std::mem::take(&mut self.spent);
        let since = self.read_at.replace(Instant::now()).map(|at| at.elapsed());
        for device in &self.devices {
            let Some(look) = looks.get(&device.uuid) else { continue };
            processes.extend(self.processes_on(device, look, (&before, since)));
            let device = Device {
                health: look.health.clone(),
                unmanaged: look.processes.clone().unwrap_or_default(),
                ..device.clone()
            };
            let kept = Restrictions { allowed: true, drain: None, reservations: Vec::new() };
            gpus.push(Gpu::new(&node, &device, kept, look.sample.clone(), &Occupancy::default()));
        }
        for process in &processes {
            if let (Some(spent), Some(started)) = (ticks(process.pid), process.started) {
                self.spent.insert(process.pid, (started, spent));
            }
        }
        Reading { machine: self.without_gpus(), gpus, processes }
    }

    fn processes_on(
        &self,
        device: &Device,
        look: &Observation,
        (before, since): (&BTreeMap<u32, (u64, u64)>, Option<Duration>),
    ) -> Vec<Process> {
        let one = |it: &gpool_model::device::DeviceProcess| {
            let started = proc::stat(it.pid).map(|stat| stat.started);
            let spent = before.get(&it.pid).filter(|(start, _)| Some(*start) == started);
            let spent = spent.and_then(|(_, last)| Some(ticks(it.pid)?.saturating_sub(*last)));
            let used = look.activity.as_ref().and_then(|all| all.get(&it.pid));
            let alive = started.map(|it| gpool_sys::clock::boot_ticks().saturating_sub(it));
            Process {
                gpu: device.index,
                pid: it.pid,
                user: it.user.clone(),
                gpu_memory: it.memory.map(gpool_model::Bytes::get),
                gpu_use: used.map(|used| f64::from(used.compute_percent) / 100.0),
                cpu: spent.zip(since).map(|(spent, since)| cores(spent, since)),
                memory: memory_of(it.pid),
                runs_s: alive.map(|ticks| ticks / rustix::param::clock_ticks_per_second().max(1)),
                started,
                command: command(it.pid).or_else(|| it.name.clone()).unwrap_or_default(),
            }
        };
        look.processes.iter().flatten().map(one).collect()
    }

    fn without_gpus(&mut self) -> data::MachineInfo {
        let times = cpu_times();
        let cpu = self.cores.zip(times).map(|((all, idle), (now, idle_now))| {
            let (all, idle) = (now.saturating_sub(all), idle_now.saturating_sub(idle));
            ratio(all.saturating_sub(idle), all)
        });
        self.cores = times;
        let (memory_total, memory_free) = memory();
        data::MachineInfo {
            name: name(),
            driver: self.driver.clone(),
            no_gpus: self.gpus.as_ref().err().cloned(),
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
            cpu,
            memory_total,
            memory_used: memory_total.saturating_sub(memory_free),
            load: load(),
        }
    }
}

/// The machine as a node, for descriptions of its devices.
fn node(devices: &[Device]) -> Node {
    let (name, pool) = (NodeName::new(name()), PoolName::usual());
    Node { connected: true, ..Node::new(name, pool, Resources::default(), devices.to_vec()) }
}

/// Sends a signal, unless another process has the ID now; describes the result.
fn send(pid: u32, started: Option<u64>, signal: i32) -> String {
    let process = match pidfd::open(pid) {
        Ok(Some(process)) => process,
        Ok(None) => return format!("process {pid} has ended"),
        Err(error) => return format!("can't reach process {pid}: {error}"),
    };
    if started.is_none() || proc::stat(pid).map(|stat| stat.started) != started {
        return format!("process {pid} has ended");
    }
    match pidfd::signal(&process, signal) {
        Ok(true) => format!("process {pid} got signal {signal}"),
        Ok(false) => format!("process {pid} has ended"),
        Err(error) => format!("can't signal process {pid}: {error}"),
    }
}

fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Cores in use: the ticks of a process over a time.
#[expect(clippy::cast_precision_loss, reason = "for a percentage")]
fn cores(ticks: u64, over: Duration) -> f64 {
    let seconds = ticks as f64 / rustix::param::clock_ticks_per_second().max(1) as f64;
    seconds / over.as_secs_f64().max(0.001)
}

fn read(path: &str) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

/// The time that a process has spent in user mode and in the kernel (proc(5), fields 14 and 15).
fn ticks(pid: u32) -> Option<u64> {
    let stat = read(&format!("/proc/{pid}/stat"));
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()?.saturating_add(next()?))
}

/// The resident memory of a process.
fn memory_of(pid: u32) -> Option<u64> {
    kib(&read(&format!("/proc/{pid}/status")), "VmRSS:")
}

fn command(pid: u32) -> Option<String> {
    let line = read(&format!("/proc/{pid}/cmdline"));
    let words: Vec<&str> = line.split('\0').filter(|word| !word.is_empty()).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// A line such as `MemTotal:  8 kB`, in bytes.
fn kib(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// All memory, and the memory that programs could get.
fn memory() -> (u64, u64) {
    let text = read("/proc/meminfo");
    let of = |key| kib(&text, key).unwrap_or(0);
    (of("MemTotal:"), of("MemAvailable:"))
}

/// The time of all cores, and their idle time.
fn cpu_times() -> Option<(u64, u64)> {
    let text = read("/proc/stat");
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    // The guest fields after the eighth are in the first ones already.
    let times: Vec<u64> =
        line.split_whitespace().take(8).filter_map(|number| number.parse().ok()).collect();
    let idle = times.get(3)?.saturating_add(*times.get(4)?);
    Some((times.iter().sum(), idle))
}

fn load() -> [f64; 3] {
    let text = read("/proc/loadavg");
    let mut numbers = text.split_whitespace().map(|number| number.parse().unwrap_or(0.0));
    std::array::from_fn(|_| numbers.next().unwrap_or(0.0))
}
