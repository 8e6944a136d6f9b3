//! The devices (`--devices` and the file of simulated devices) and the state of simulated devices
//! (the control file).

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use gpool_device::{ControlError, DevicesArg, NodeArg, NodeDevices, NodesArg, Opened, SimControl};
use gpool_model::{Bytes, NodeName};
use tempfile::TempDir;

use crate::input::{choose, is_said, text};

static FOLDER: LazyLock<TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a folder for files can be made"));

/// Runs the checks.
pub fn check(input: &[u8]) {
    let Some((parser, rest)) = choose(input, 3) else { return };
    match parser {
        0 => words(rest),
        1 => file(rest),
        _ => control(rest),
    }
}

fn words(input: &[u8]) {
    let Some(text) = text(input) else { return };
    match DevicesArg::parse(text) {
        // A named file does not exist here.
        Ok(DevicesArg::File(_)) => {}
        Ok(asked) => are_sound(&asked.nodes(&NodeName::new("lab1")).expect("there is no file")),
        Err(error) => is_said(&error.to_string()),
    }
}

/// Devices in a file can be opened and polled.
fn file(input: &[u8]) {
    let path = written("devices.toml", input);
    match DevicesArg::File(path.clone()).nodes(&NodeName::new("lab1")) {
        Ok(asked) => {
            are_sound(&asked);
            asked.nodes.iter().for_each(|node| can_be_asked(node, &path.with_extension("none")));
        }
        Err(error) => is_said(&error.to_string()),
    }
}

/// The numbers of nodes and devices are in range, all names differ, and no name is a path.
fn are_sound(asked: &NodesArg) {
    let nodes = &asked.nodes;
    assert!((1..=64).contains(&nodes.len()));
    let names: BTreeSet<&NodeName> = nodes.iter().map(|node| &node.name).collect();
    assert_eq!(names.len(), nodes.len());
    assert!(names.iter().all(|name| name.folder().is_some()));
    for node in nodes {
        assert!(node.cpus.is_none_or(|cpus| cpus.get() > 0));
        assert!(node.memory.is_none_or(|memory| !memory.is_zero()));
        if let NodeDevices::Simulated(devices) = &node.devices {
            assert!((1..=64).contains(&devices.len()));
            assert!(devices.iter().all(|device| !device.memory.is_zero()));
        }
    }
}

fn can_be_asked(node: &NodeArg, control: &Path) {
    let Opened::Source(source) = node.devices.open(&node.name, control) else { return };
    for index in 0..source.outline().expect("simulated devices answer").n_devices {
        let described = source.describe(index).expect("simulated devices answer");
        let memory = described.device.memory;
        assert!(!memory.is_zero() && !described.device.model.is_empty());
        let parts = described.instances.iter().map(|it| it.memory.get());
        assert!(parts.sum::<u64>() <= memory.get(), "instances are no more than their device");
    }
}

/// A file that can be edited can be edited again, with the same result.
fn control(input: &[u8]) {
    let path = written("control.toml", input);
    let control = SimControl::new(&path, 0..2);
    match control.use_memory(0, Bytes::new(12_345)) {
        Ok(()) => {
            let once = read(&path);
            control.use_memory(0, Bytes::new(12_345)).expect("it was written just now");
            assert_eq!(once, read(&path));
            assert!(once.contains("12345B"), "{once}");
        }
        Err(ControlError::Content(why)) => is_said(&why),
        Err(error @ ControlError::File { .. }) => panic!("{error:?}"),
    }
}

fn written(name: &str, input: &[u8]) -> std::path::PathBuf {
    let path = FOLDER.path().join(name);
    std::fs::write(&path, input).expect("the folder takes files");
    path
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("the file was written as text")
}
