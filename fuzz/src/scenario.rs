//! Scenarios: situations in a few lines of text.

use gpool_scenario::Situation;

use crate::input::text;

/// Runs the checks.
pub fn check(input: &[u8]) {
    let Some(text) = text(input) else { return };
    match Situation::parse(text) {
        // One line can describe a very large number of jobs, which would only be slow.
        Ok(situation) if situation.jobs.len() > 500 => {}
        Ok(situation) => {
            let printed = situation.to_string();
            let again = Situation::parse(&printed)
                .unwrap_or_else(|error| panic!("{text:?} is printed {printed:?}: {error}"));
            assert_eq!(again.to_string(), printed);
            let world = situation.world();
            assert_eq!(world.jobs().len(), situation.jobs.len());
        }
        Err(error) => {
            assert!(error.line <= text.lines().count() && error.column > 0);
        }
    }
}
