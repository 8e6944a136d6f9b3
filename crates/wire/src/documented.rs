//! What no derive can add to the API document: verbs on jobs, and types with their own JSON.

use std::borrow::Cow;

use gpool_model::verb::JobVerb;
use serde_json::Value;
use utoipa::openapi::path::Parameter;
use utoipa::openapi::schema::{SchemaType, Type};
use utoipa::openapi::{ObjectBuilder, OneOfBuilder, RefOr, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::amount::Quantity;
use crate::create::JobCreate;
use crate::field::{self, Field};
use crate::patch::JobPatch;
use crate::verb::{At, ExtendJobs, Hold, ReleaseJobs, RequeueJobs, Selection, SignalJobs};

/// Schemas with their names.
pub type Schemas = Vec<(String, RefOr<Schema>)>;

/// Adds the schema of a verb's body for several jobs first, and then the schemas that it refers to.
pub fn add_body(verb: JobVerb, all: &mut Schemas) {
    match verb {
        JobVerb::Release { .. } => add::<ReleaseJobs>(all),
        JobVerb::Signal { .. } => add::<SignalJobs>(all),
        JobVerb::Extend { .. } => add::<ExtendJobs>(all),
        JobVerb::Requeue { .. } => add::<RequeueJobs>(all),
        JobVerb::Cancel | JobVerb::Hold | JobVerb::Pause | JobVerb::Resume => add::<Selection>(all),
    }
}

fn add<T: ToSchema>(all: &mut Schemas) {
    all.push((T::name().into_owned(), T::schema()));
    T::schemas(all);
}

/// Returns the parameters in the query of a verb's request for one job.
#[must_use]
pub fn query_of(verb: JobVerb) -> Vec<Parameter> {
    match verb {
        JobVerb::Release { .. } => At::into_params(|| None),
        JobVerb::Requeue { .. } => Hold::into_params(|| None),
        _ => Vec::new(),
    }
}

impl PartialSchema for Quantity {
    fn schema() -> RefOr<Schema> {
        let of = |kind| ObjectBuilder::new().schema_type(kind);
        OneOfBuilder::new()
            .item(of(Type::Number).minimum(Some(0)))
            .item(of(Type::String))
            .description(Some("A number in the API's unit, or text with a unit."))
            .into()
    }
}

impl ToSchema for Quantity {}

impl PartialSchema for JobPatch {
    /// Returns the schema of a request with only the editable fields; each may be `null`.
    fn schema() -> RefOr<Schema> {
        let RefOr::T(Schema::Object(mut object)) = JobCreate::schema() else {
            unreachable!("a struct has an object's schema")
        };
        object.description = Some(
            "Changes to a job; absent fields stay, and `null` removes a value. \
             Once it has\nstarted, only name, note, retry and requeue can change; its time limit \
             through `extend`."
                .to_owned(),
        );
        object.example = Some(serde_json::json!({"time": "4h", "deadline": null}));
        object.properties.retain(|key, _| field::field(key).is_some_and(Field::is_editable));
        for property in object.properties.values_mut() {
            let RefOr::T(property) = property else { continue };
            let default = Some(Value::Null);
            match property {
                Schema::Object(it) => {
                    (it.schema_type, it.default) = (nullable(&it.schema_type), default);
                }
                Schema::Array(it) => {
                    (it.schema_type, it.default) = (nullable(&it.schema_type), default);
                }
                Schema::OneOf(it) => it.default = default,
                _ => {}
            }
        }
        Schema::Object(object).into()
    }
}

impl ToSchema for JobPatch {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("JobPatch")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        JobCreate::schemas(schemas);
    }
}

fn nullable(of: &SchemaType) -> SchemaType {
    match of {
        SchemaType::Type(of) => SchemaType::Array(vec![of.clone(), Type::Null]),
        of => of.clone(),
    }
}
