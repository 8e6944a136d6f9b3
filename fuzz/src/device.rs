//! Which devices there are (`--devices`, a file of simulated ones) and what simulated ones do (the
//! control file).

use std::path::Path;
use std::sync::LazyLock;

use gpool_device::{ControlError, DevicesArg, Opened, SimControl};
use gpool_model::{Bytes, NodeName};
use tempfile::TempDir;

use crate::input::{choose, is_said, text};

static FOLDER: LazyLock<TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a folder for files can be made"));

/// Tries them.
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
        Ok(DevicesArg::Simulated(devices)) => {
            assert!((1..=64).contains(&devices.len()));
            assert!(devices.iter().all(|device| !device.memory.is_zero()));
        }
        Ok(DevicesArg::Nvml | DevicesArg::None | DevicesArg::File(_)) => {}
        Err(error) => is_said(&error.to_string()),
    }
}

/// What a file says opens as devices that can be asked.
fn file(input: &[u8]) {
    let path = written("devices.toml", input);
    let devices = DevicesArg::File(path.clone());
    match devices.open(&NodeName::new("lab1"), &path.with_extension("none")) {
        Ok(Opened::Source(source)) => {
            let outline = source.outline().expect("simulated devices answer");
            assert!((1..=64).contains(&outline.n_devices));
            for index in 0..outline.n_devices {
                let device = source.describe(index).expect("simulated devices answer");
                assert!(!device.memory.is_zero() && !device.model.is_empty());
            }
        }
        Ok(Opened::Nothing { why }) => panic!("a file of devices opens as nothing: {why}"),
        Err(error) => is_said(&error.to_string()),
    }
}

/// A file that can be edited once can be edited again: what was written is read as it was meant.
fn control(input: &[u8]) {
    let path = written("control.toml", input);
    let control = SimControl::new(&path, 2);
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
