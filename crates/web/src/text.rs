//! Short texts for numbers.

use std::fmt::Write as _;

use gpool_model::device::DeviceState;
use gpool_wire::{PlacedOn, Time};

/// The state of a device, for people.
pub fn state(state: DeviceState) -> &'static str {
    match state {
        DeviceState::Free => "free",
        DeviceState::Busy => "busy",
        DeviceState::HeldIdle => "held idle",
        DeviceState::Unmanaged => "in use outside gpool",
        DeviceState::NotAllowed => "not allowed",
        DeviceState::Drained => "drained",
        DeviceState::Divided => "divided (MIG)",
        DeviceState::Unhealthy => "unhealthy",
        DeviceState::Lost => "lost",
        DeviceState::Unknown => "no answer",
    }
}

/// The style of a state; several states have the same.
pub fn style(state: DeviceState) -> &'static str {
    match state {
        DeviceState::Free => "free",
        DeviceState::Busy | DeviceState::Divided => "busy",
        DeviceState::HeldIdle => "idle",
        DeviceState::Unmanaged => "unmanaged",
        DeviceState::NotAllowed | DeviceState::Drained => "soft",
        DeviceState::Unhealthy | DeviceState::Lost | DeviceState::Unknown => "out",
    }
}

/// A time span in its two largest units: `3 min 20 s`, `2 d 4 h`.
pub fn span(seconds: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)];
    let first = UNITS.iter().position(|(_, size)| seconds >= *size).unwrap_or(3);
    let (unit, size) = UNITS[first];
    let whole = format!("{} {unit}", seconds / size);
    match UNITS.get(first + 1) {
        Some((unit, smaller)) if seconds % size >= *smaller => {
            format!("{whole} {} {unit}", seconds % size / smaller)
        }
        _ => whole,
    }
}

/// An expected number of seconds: from 10 minutes on without seconds.
pub fn roughly(seconds: u64) -> String {
    match seconds {
        0..600 => span(seconds),
        _ => span(seconds - seconds % 60),
    }
}

/// The time from `now` until `at` in seconds; 0 if it is past.
pub fn until(at: Time, now: Time) -> u64 {
    at.0.since(now.0).get() / 1000
}

/// A past time: `3 min 20 s ago`.
pub fn ago(at: Time, now: Time) -> String {
    format!("{} ago", span(until(now, at)))
}

/// Bytes in GiB, rounded: `12 GiB`.
pub fn gib(bytes: u64) -> String {
    format!("{} GiB", bytes.saturating_add(1 << 29) >> 30)
}

/// A fraction in percent, rounded.
pub fn percent(part: f64) -> u32 {
    // A fraction is from 0 to 1, so the number is small.
    (0..=100).rev().find(|n| f64::from(*n) <= part.mul_add(100.0, 0.5)).unwrap_or(0)
}

/// The devices of a job: `lab1:0–3,6 lab2:3`.
pub fn places(placement: &[PlacedOn]) -> String {
    let place = |it: &PlacedOn| {
        let runs = it.devices.chunk_by(|one, next| one.checked_add(1) == Some(*next));
        let run = |run: &[u32]| match run {
            [first, .., last] if run.len() > 2 => format!("{first}–{last}"),
            _ => run.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        };
        let devices: Vec<String> = runs.map(run).collect();
        match devices.is_empty() {
            true => it.node.clone(),
            false => format!("{}:{}", it.node, devices.join(",")),
        }
    };
    placement.iter().map(place).collect::<Vec<_>>().join(" ")
}

/// Hours as text.
pub fn figure(hours: f64) -> String {
    if hours >= 99.95 { format!("{hours:.0}") } else { format!("{hours:.2}") }
}

/// A value in the query of an address.
pub fn encoded(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(byte));
            }
            // Writing into a string can't fail.
            byte => drop(write!(text, "%{byte:02X}")),
        }
    }
    text
}
