//! The vocabulary of gpool: IDs, units, requests, resources, records, events, effects, plans and
//! reasons. Plain data with validated invariants; no clock, I/O, randomness or other behaviour.
//! Every other crate uses these words (GLOSSARY.md).

#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![deny(clippy::float_arithmetic)]

pub mod agent;
pub mod allocation;
pub mod array;
pub mod attach;
pub mod attained;
pub mod budget;
pub mod command;
pub mod compat;
pub mod container;
pub mod context;
pub mod device;
pub mod displace;
pub mod effect;
pub mod eta;
pub mod event;
pub mod exit;
pub mod files;
pub mod filter;
pub mod gpu;
pub mod job;
pub mod job_part;
pub mod launch;
pub mod lease;
pub mod life;
pub mod mig;
pub mod mig_layout;
pub mod node;
pub mod notify;
pub mod output;
pub mod over_limit;
pub mod pattern;
pub mod pause;
pub mod payer_news;
pub mod plan;
pub mod policy;
mod policy_pools;
mod policy_prices;
pub mod policy_text;
pub mod prediction;
pub mod price;
pub mod project;
pub mod project_change;
pub mod quota;
pub mod reason;
pub mod record;
pub mod refusal;
pub mod request;
pub mod reservation;
pub mod reserve;
pub mod resource;
pub mod setting;
pub mod share;
pub mod sharer;
pub mod subscription;
pub mod used;
pub mod verb;
pub mod xid;

pub use allocation::{Allocation, AllocationState, DeviceKind, Slot, SlotPart};
pub use array::{ArraySpec, ArrayState, ArrayValues};
pub use command::{Caller, Command, NewJob, Reply};
pub use compat::Compat;
pub use device::{Device, DeviceHealth, DeviceProcess, DeviceState, Instance, Link};
pub use displace::Displace;
pub use effect::{Alert, Commit, Effect, Notice};
pub use eta::{Basis, Eta, WhatIf};
pub use event::Event;
pub use exit::{Checkpoint, Exit, TakenBack};
pub use files::FileRequest;
pub use filter::{NodeFilter, NodeRule};
pub use gang::{Gang, Joins};
pub use gpu::{GpuAmount, GpuRequest};
pub use job::pause::PauseCause;
pub use job::{
    AdminHold, Course, Dependency, DependencyKind, Holder, Job, JobEnd, JobSpec, Outcome, Owner,
    Phase, RunTotals,
};
pub use job_part::JobPart;
pub use kind::JobKind;
pub use launch::{Activation, Lack, NodeLack, WindowSize};
pub use lease::{LeaseTerms, OnNodeLost, Silence};
pub use life::Life;
pub use node::{Drain, Membership, Node};
pub use notify::{Delivery, JobNews, NotifyOn, NotifyRule};
pub use pattern::ModelPattern;
pub use plan::{Decision, PartFit, Placement, Plan, PlannedStart, Shape, StartBasis, Wait};
pub use policy::{DeviceStrategy, OrderKey, PlannedStarts, Policy, ShareBetween};
pub use prediction::{Likeness, PastRuns, Prediction};
pub use price::{Money, PastPrices, Prices};
pub use project::{JobTerms, Members, MinRuntime, Project};
pub use project_change::{
    ProjectChange, ProjectChangeHow, ProjectDifference, ProjectPatch, ProjectWarning, ProjectsAsk,
    ProjectsOutcome, QuotaPatch,
};
pub use quota::{Amount, Quota, Quotas, Weight};
pub use reason::Reason;
pub use record::{JournalEntry, Record, RecordChange, RecordKey};
pub use refusal::{Code, Refusal};
pub use request::edit::JobPatch;
pub use request::job::{JobRequest, Origin, Standing};
pub use reservation::{Beneficiary, Reservation, Reserved, Window};
pub use reserve::{
    Affected, Consent, DeviceRef, DrainOutcome, DrainTarget, NewReservation, ReservationPatch,
    ReserveAsk, ReserveEnd, ReserveOutcome, ReserveWhen,
};
pub use resource::{ResourceKind, Resources};
pub use setting::Setting;
pub use share::Share;
pub use sharer::{ShareWith, Sharer};
pub use used::{InUse, Used};
pub use verb::{JobVerb, LimitChange, SignalTo};

pub use gpool_units::{
    enforcement, escape, file_pattern, gang, group, hostlist, id, indexes, kind, label, objective,
    parse, placeholder, positions, rare, topology, unit,
};
pub use group::GroupPlace;
pub use id::{
    Attempt, DeviceUuid, Generation, Incarnation, JobId, JobNumber, NodeName, PoolName,
    ProjectName, RequestId, ReservationName, Revision, Round, Seq, TaskId, Term, Version,
};
pub use indexes::Indexes;
pub use label::{LabelChange, Labels};
pub use objective::{Goal, MetricValue, Objective};
pub use parse::ParseError;
pub use positions::Positions;
pub use rare::Rare;
pub use topology::Topology;
pub use unit::{Bytes, GpuTime, MilliCpu, MilliGpu, Millis, Timestamp};
