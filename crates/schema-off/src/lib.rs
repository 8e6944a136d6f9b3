//! The macros of `utoipa` that the API's types and routes use, without any effect.
//!
//! The API's document is a file of the repository, which the server contains as text. Only the test
//! that compares the file with the code generates it, with the feature `openapi` of `gpool-wire`
//! and `gpool-api`. In all other builds this crate takes the name `utoipa`, so that neither
//! `utoipa` nor its thousands of schemas are compiled.

#![forbid(unsafe_code)]

use proc_macro::TokenStream;

/// In place of the schema of a type.
#[proc_macro_derive(ToSchema, attributes(schema))]
pub fn schema(_: TokenStream) -> TokenStream {
    TokenStream::new()
}

/// In place of the schemas of the parameters of a query.
#[proc_macro_derive(IntoParams, attributes(into_params, param))]
pub fn params(_: TokenStream) -> TokenStream {
    TokenStream::new()
}

/// In place of the description of a route: the handler alone.
#[proc_macro_attribute]
pub fn path(_: TokenStream, handler: TokenStream) -> TokenStream {
    handler
}
