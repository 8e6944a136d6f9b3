//! The codes of refusals, which never change.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Refusal;

/// A stable number for a kind of error: `GP0412`. Users look it up; scripts compare it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Code(pub u16);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GP{:04}", self.0)
    }
}

impl Refusal {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        Code(match self {
            Self::Invalid { .. } => 101,
            Self::TooLarge { .. } => 102,
            Self::ShuttingDown => 302,
            Self::ImpossibleGpus { .. } => 412,
            Self::NoGpus { .. } => 413,
            Self::ImpossibleResource { .. } => 414,
            Self::AboveQuota { .. } => 415,
            Self::TooFewNodes { .. } => 416,
            Self::AboveUserCap { .. } => 417,
            Self::NoSuchNodes { .. } => 418,
            Self::NoEngine => 419,
            Self::PartsTogether { .. } => 420,
            Self::NotPermitted { .. } => 501,
            Self::PriorityTooHigh { .. } => 502,
            Self::CannotRunAs { .. } => 504,
            Self::TooManyJobs { .. } => 505,
            Self::UserCap { .. } => 506,
            Self::ExtendTooLong { .. } => 507,
            Self::NotMember { .. } => 508,
            Self::TimeTooLong { .. } => 509,
            Self::AboveParent { .. } => 510,
            Self::HeldByAdmin { .. } => 511,
            Self::TooMuchStored { .. } => 521,
            Self::TooManyDependencies { .. } => 522,
            Self::NoSuchJob { .. } => 601,
            Self::NoSuchProject { .. } => 602,
            Self::NoSuchNode { .. } => 603,
            Self::NoSuchDevice { .. } => 604,
            Self::NoSuchPool { .. } => 606,
            Self::NoSuchSecret { .. } => 610,
            Self::InPool { refusal, .. }
            | Self::OnNodes { refusal, .. }
            | Self::OfPart(_, refusal) => {
                return refusal.code();
            }
            Self::NoSuchReservation { .. } => 621,
            Self::AlreadyEnded { .. } => 701,
            Self::WrongState { .. } => 702,
            Self::VersionConflict { .. } => 703,
            Self::KeyReused { .. } => 704,
            Self::OfJob { refusal, .. } => return refusal.code(),
            Self::DependencyNeverMet { .. } => 705,
            Self::DependencyCycle { .. } => 706,
            Self::NotRequeueable { .. } => 707,
            Self::ProjectConflict { .. } => 708,
            Self::NotKept { .. } => 711,
            Self::AffectsOthers { .. } => 731,
            Self::ReservationClash { .. } => 732,
            Self::NotEnoughToReserve { .. } => 733,
            Self::ReservationExists { .. } => 734,
            Self::TooManyReservations { .. } => 735,
            Self::NotDrained { .. } => 736,
            Self::NodeAnswers { .. } => 738,
            Self::NodeInUse { .. } => 739,
            Self::DepartmentTakesNoJobs { .. } => 741,
            Self::ProjectExists { .. } => 742,
            Self::ProjectHasJobs { .. } => 743,
            Self::ProjectHasChildren { .. } => 744,
            Self::ProjectCycle { .. } => 745,
            Self::ProjectNeeded { .. } => 746,
            Self::TooManyProjects { .. } => 747,
            Self::Internal { .. } => 900,
            Self::StorageFull { .. } => 907,
            Self::StateGone { .. } => 908,
        })
    }
}
