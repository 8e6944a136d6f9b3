//! Values in flags, scripts, requests and settings: amounts, durations, GPUs, IDs, times, signals.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use gpool_model::pattern::short_model;
use gpool_model::{Bytes, GpuRequest, JobId, Millis, TaskId, parse};
use gpool_wire::{Problem, Quantity, Time, signal};

use crate::input::{choose, is_problem, is_said, text};

/// Runs the checks.
pub fn check(input: &[u8]) {
    let Some((parser, rest)) = choose(input, 8) else { return };
    let Some(text) = text(rest) else { return };
    match parser {
        0 => bytes(text),
        1 => cpus(text),
        2 => span(text),
        3 => gpus(text),
        4 => printed::<JobId>(text),
        5 => printed::<TaskId>(text),
        6 => printed::<Time>(text),
        _ => signals(text),
    }
}

/// A value can be read again from its printed form, and is the same.
fn printed<T: FromStr<Err: Display + Debug> + Display + Debug + PartialEq>(text: &str) {
    match text.parse::<T>() {
        Ok(value) => {
            let printed = value.to_string();
            let again: T = printed.parse().expect("what is printed can be read");
            // Times are printed in milliseconds, but may be written more precisely.
            assert_eq!(again.to_string(), printed, "of {text:?}");
            assert_eq!(again, value, "of {text:?}");
        }
        Err(error) => is_said(&error.to_string()),
    }
}

fn bytes(text: &str) {
    match parse::bytes(text) {
        Ok(amount) => {
            assert_eq!(parse::bytes(&format!("{}B", amount.get())), Ok(amount));
            let shown = parse::bytes(&amount.to_string()).expect("what is shown can be read");
            // The printed amount is rounded down to a tenth of its unit.
            let lost = amount.checked_sub(shown).expect("it is rounded down");
            assert!(lost <= amount.div_floor(10) || amount < Bytes::new(1 << 10), "{amount}");
        }
        Err(error) => is_said(&error.to_string()),
    }
}

fn cpus(text: &str) {
    match parse::cpus(text) {
        Ok(cores) => assert_eq!(parse::cpus(&cores.to_string()), Ok(cores), "of {text:?}"),
        Err(error) => is_said(&error.to_string()),
    }
}

fn span(text: &str) {
    match parse::span(text) {
        Ok(span) => {
            assert_eq!(parse::span(&format!("{}ms", span.get())), Ok(span));
            assert_ne!(span.to_string(), "");
            let seconds = Millis::new(span.get() / 1000 * 1000);
            assert_eq!(parse::span(&format!("{}s", seconds.get() / 1000)), Ok(seconds));
        }
        Err(error) => is_said(&error.to_string()),
    }
}

/// The second line may hold a device's model, which the driver chooses.
fn gpus(text: &str) {
    let (text, model) = text.split_once('\n').unwrap_or((text, "NVIDIA A100-SXM4-80GB"));
    match GpuRequest::parse(text) {
        Ok(request) => {
            let printed = request.to_string();
            let again = GpuRequest::parse(&printed);
            assert_eq!(again.as_ref(), Ok(&request), "of {text:?}, printed {printed:?}");
            assert!(request.n_devices() <= GpuRequest::COUNT_MAX);
            assert!(printed.len() <= text.len() + 24, "{text:?} is printed {printed:?}");
            for pattern in &request.models {
                let _ = pattern.matches(model);
                assert!(pattern.matches(pattern.as_str()) || !has_word(pattern.as_str()));
            }
            assert!(short_model(model).len() <= model.len());
        }
        Err(error) => is_said(&error.to_string()),
    }
}

fn has_word(pattern: &str) -> bool {
    pattern.contains(|c: char| c.is_ascii_alphanumeric())
}

fn signals(text: &str) {
    match signal::number(&Quantity::from(text)) {
        Ok(number) => {
            let written = signal::name(number).map_or(number.to_string(), str::to_owned);
            assert_eq!(signal::number(&Quantity::from(written)), Ok(number), "of {text:?}");
        }
        Err(refusal) => is_problem(&Problem::from(refusal)),
    }
}
