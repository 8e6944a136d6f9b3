//! Tests of the parser of valohai.yaml.

mod limits;
mod oracle;
mod requests;
