//! Texts of paused jobs.

use gpool_model::job::EndCause;
use gpool_model::{PauseCause, Phase};

use crate::cause::{cause_word, cause_words};
use crate::hold;
use crate::reason::Reason;
use crate::time::Time;

/// Returns why a job is paused: as a code and as text.
pub fn pause_words(why: &PauseCause) -> (Option<String>, Option<String>) {
    match why {
        PauseCause::Idle => {
            (Some("idle".to_owned()), Some("paused without its GPUs: it was idle".to_owned()))
        }
        PauseCause::Asked { by } => (Some("asked".to_owned()), Some(format!("paused by {by}"))),
        PauseCause::NotMoved { why } => {
            let text = format!("paused: it could not resume on another GPU: {why}");
            (Some("not_moved".to_owned()), Some(text))
        }
        PauseCause::TakenBack { why, beneficiary } => {
            let cause = EndCause::TakenBack { why: *why, beneficiary: *beneficiary };
            (Some(cause_word(&cause).to_owned()), Some(cause_words(&cause)))
        }
    }
}

impl Reason {
    /// Returns a reason in words that fit the job's phase: users resume a paused job and release a
    /// held one.
    #[must_use]
    pub fn of_job(job: &gpool_model::Job, reason: &gpool_model::Reason, blocking: bool) -> Self {
        use gpool_model::Reason as R;
        let mut shown = Self::new(reason, blocking);
        if let Phase::Paused { why, since, .. } = &job.phase
            && let R::HeldByUser { .. } | R::HeldByAdmin { .. } | R::SetAside { .. } = reason
        {
            let why = pause_words(why).1.unwrap_or_else(|| "paused".to_owned());
            let (id, since) = (job.id, Time(*since).short());
            shown.text = match reason {
                R::HeldByAdmin { hold, .. } => hold::paused(&why, &since, hold.as_ref()),
                R::SetAside { .. } => {
                    format!(
                        "It is {why}, and {}; gpool resume {id} tries again",
                        crate::reason::SET_ASIDE
                    )
                }
                _ => format!("It is {why}, since {since}; gpool resume {id} continues it"),
            };
        }
        shown
    }
}
