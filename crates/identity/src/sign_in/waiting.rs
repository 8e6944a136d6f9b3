//! Sign-ins under way.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Instant;

use crate::pool::RequestSource;

/// The most of all sources. Above it, the oldest of the source with most is forgotten, of equals
/// the oldest.
const MOST: usize = 1000;
/// The most of one source. Above it, its oldest is forgotten.
const MOST_OF_ONE: usize = 16;

/// Sign-ins by a name that only their browser or program knows.
#[derive(Debug)]
pub struct PendingSignIns<T> {
    by_name: HashMap<String, PendingSignIn<T>>,
}

#[derive(Debug)]
struct PendingSignIn<T> {
    value: T,
    until: Instant,
    source: RequestSource,
}

impl<T> Default for PendingSignIns<T> {
    fn default() -> Self {
        Self { by_name: HashMap::new() }
    }
}

impl<T> PendingSignIns<T> {
    /// Adds one from a source, until a time.
    pub fn insert(
        &mut self,
        name: String,
        value: T,
        source: RequestSource,
        until: Instant,
        now: Instant,
    ) {
        self.by_name.retain(|_, it| it.until > now);
        // The number of each source, and when its oldest is over.
        let mut by_source: HashMap<RequestSource, (usize, Instant)> = HashMap::new();
        for entry in self.by_name.values() {
            let (number, oldest) = by_source.entry(entry.source).or_insert((0, entry.until));
            (*number, *oldest) = (*number + 1, entry.until.min(*oldest));
        }
        let crowded = match by_source.get(&source) {
            Some((n_own, _)) if *n_own >= MOST_OF_ONE => Some(source),
            _ if self.by_name.len() >= MOST => {
                let rank = |(number, oldest): (usize, Instant)| (number, Reverse(oldest));
                by_source.iter().max_by_key(|(_, it)| rank(**it)).map(|(source, _)| *source)
            }
            _ => None,
        };
        let of_crowded = self.by_name.iter().filter(|(_, it)| Some(it.source) == crowded);
        let oldest = of_crowded.min_by_key(|(_, it)| it.until).map(|(name, _)| name.clone());
        oldest.iter().for_each(|name| drop(self.by_name.remove(name)));
        self.by_name.insert(name, PendingSignIn { value, until, source });
    }

    /// One that is not over.
    pub fn get_mut(&mut self, name: &str, now: Instant) -> Option<&mut T> {
        self.by_name.get_mut(name).filter(|it| it.until > now).map(|it| &mut it.value)
    }

    /// Takes one out that is not over.
    pub fn remove(&mut self, name: &str, now: Instant) -> Option<T> {
        self.by_name.remove(name).filter(|it| it.until > now).map(|it| it.value)
    }
}
