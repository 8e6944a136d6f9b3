//! Records of the store as the types of the state machine: decoded ([`codec`]), checked
//! ([`inspect`]), written as cases that can be planned again ([`case`], [`dump`]), and replayed
//! entry by entry ([`replay`]).

#![forbid(unsafe_code)]

pub mod case;
pub mod codec;
pub mod dump;
pub mod inspect;
pub mod replay;

fn now() -> gpool_model::Timestamp {
    gpool_model::Timestamp::new(gpool_sys::clock::unix_ms())
}
