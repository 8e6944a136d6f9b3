//! A typed client of the API.
