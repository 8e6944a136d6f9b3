//! The flows against a provider in memory, which signs with real keys.

#![allow(clippy::unwrap_used)]

mod attacks;
mod flows;
mod provider;
