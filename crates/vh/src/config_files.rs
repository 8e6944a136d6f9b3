//! The files in `/valohai/config`: `execution`, `inputs`, `parameters`, `runtime`, and in
//! distributed tasks `distributed`, as JSON and YAML.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::inputs::InputFile;
use crate::members::Group;
use crate::plan::Plan;

/// Writes the files. `job` is the ID of the job, if it is known.
///
/// # Errors
/// A file can't be written; the text says which.
pub fn write(
    plan: &Plan,
    config: &Path,
    files: &[InputFile],
    job: Option<&str>,
    group: Option<&Group>,
) -> Result<(), String> {
    let execution = json!({
        "valohai.commit-identifier": plan.commit,
        "valohai.execution-id": job,
        "valohai.execution-step": plan.step,
        "valohai.execution-title": plan.title,
    });
    let mut inputs = Map::new();
    for input in &plan.inputs {
        let own = files.iter().filter(|file| file.input == input.name);
        let files: Vec<Value> = own
            .map(|file| {
                json!({
                    "name": file.name,
                    "path": format!("/valohai/inputs/{}/{}", file.input, file.name),
                    "size": file.size,
                    "uri": file.address,
                    "checksums": {},
                    "metadata": [],
                    "download_intent": "always",
                })
            })
            .collect();
        inputs.insert(input.name.clone(), json!({"files": files}));
    }
    let parameters = Value::Object(plan.parameters.clone());
    let all = [
        ("execution", execution),
        ("inputs", Value::Object(inputs)),
        ("parameters", parameters),
        ("runtime", json!({"name": "gpool", "version": env!("CARGO_PKG_VERSION")})),
    ];
    let distributed = group.map(|group| ("distributed", group.config()));
    for (name, value) in all.into_iter().chain(distributed) {
        let text = format!("{value:#}\n");
        // JSON is YAML too.
        for end in ["json", "yaml"] {
            let path = config.join(format!("{name}.{end}"));
            fs::write(&path, &text)
                .map_err(|error| format!("can't write {}: {error}", path.display()))?;
        }
    }
    Ok(())
}
