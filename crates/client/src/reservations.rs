//! Reservations, maintenance windows and drains: one method for each route.

use gpool_wire::{
    Document, DrainAnswer, DrainRequest, List, Reservation, ReserveAnswer, ReserveRequest,
    UndrainRequest,
};

use crate::call::{Call, Client, escaped};
use crate::error::Error;

impl Client {
    /// All reservations and maintenance windows that are not over.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn reservations(&self) -> Result<List<Reservation>, Error> {
        self.ask(&Call::get("/reservations"))
    }

    /// One reservation or maintenance window.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn reservation(&self, name: &str) -> Result<Reservation, Error> {
        self.ask::<Document<_>>(&Call::get(&path(name))).map(|answer| answer.body)
    }

    /// Creates a reservation or a maintenance window.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn reserve(&self, request: &ReserveRequest) -> Result<ReserveAnswer, Error> {
        let call = Call::post("/reservations").json(request);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// Changes a reservation or a maintenance window.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn edit_reservation(
        &self,
        name: &str,
        request: &ReserveRequest,
    ) -> Result<ReserveAnswer, Error> {
        let call = Call::patch(&path(name)).json(request);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// Ends a reservation early; returns the remaining ones.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn cancel_reservation(&self, name: &str) -> Result<List<Reservation>, Error> {
        self.ask(&Call::delete(&path(name)))
    }

    /// Drains nodes or devices, so that no new jobs start on them.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn drain(&self, request: &DrainRequest) -> Result<DrainAnswer, Error> {
        let call = Call::post("/nodes/drain").json(request);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// Ends the drain of nodes or devices.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn undrain(&self, request: &UndrainRequest) -> Result<DrainAnswer, Error> {
        let call = Call::post("/nodes/undrain").json(request);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }
}

fn path(name: &str) -> String {
    format!("/reservations/{}", escaped(name))
}
