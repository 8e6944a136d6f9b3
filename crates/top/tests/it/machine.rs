//! The view of one machine.

use gpool_top::data::{MachineInfo, News, Process};
use gpool_top::input::TopCommand;
use insta::assert_snapshot;
use serde_json::json;

use crate::cluster::gpu;
use crate::screen::{FULL, Screen};

fn machine() -> MachineInfo {
    MachineInfo {
        name: "lab1".to_owned(),
        driver: Some("NVIDIA 580.95.05".to_owned()),
        no_gpus: None,
        cpus: 16,
        cpu: Some(0.31),
        memory_total: 128 << 30,
        memory_used: 40 << 30,
        load: [4.2, 3.1, 2.0],
    }
}

fn process(pid: u32, gpu: u32, command: &str) -> Process {
    Process {
        gpu,
        pid,
        user: Some("ana".to_owned()),
        gpu_memory: Some(u64::from(pid) << 28),
        gpu_use: Some(0.87),
        cpu: Some(1.5),
        memory: Some(3 << 30),
        runs_s: Some(3725),
        started: Some(99),
        command: command.to_owned(),
    }
}

fn screen() -> Screen {
    let mut screen = Screen::new(80, 24, FULL, true);
    let busy = json!({"utilization": 0.87, "memory_used": 30_u64 << 30, "power_w": 350.0});
    let gpus = vec![gpu(0, "unmanaged", &busy), gpu(1, "free", &json!({}))];
    let processes = vec![process(40, 0, "python train.py"), process(80, 0, "python \x1b[2J")];
    screen.take(vec![News::Machine(Box::new(machine()), gpus, processes)]);
    screen
}

#[test]
fn a_machine_with_gpus_and_processes() {
    assert_snapshot!(screen().picture());
}

#[test]
fn a_machine_without_gpus_says_so_and_shows_cpu_and_memory() {
    let mut screen = Screen::new(80, 24, FULL, true);
    let why = "can't load libnvidia-ml.so.1".to_owned();
    let machine = MachineInfo { driver: None, no_gpus: Some(why), ..machine() };
    screen.take(vec![News::Machine(Box::new(machine), Vec::new(), Vec::new())]);
    assert_snapshot!(screen.picture());
}

#[test]
fn a_signal_is_for_the_process_that_was_seen() {
    let mut screen = screen();
    let ask = TopCommand::Signal { pid: 80, started: Some(99), signal: 15 };
    assert_eq!(screen.types("og<Home>Ty"), [ask], "sorted by memory");
    assert_eq!(screen.types("Kn"), []);
}
