//! The server: event loop, HTTP API, event stream.
