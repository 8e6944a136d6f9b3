//! The order of services: each after those that it depends on.

use gpool_yaml::YamlError;

/// A service and those that it depends on, by index.
pub(crate) struct Dependent {
    pub line: usize,
    pub name: String,
    pub needs: Vec<usize>,
}

/// The indexes so that each comes after those that it needs, otherwise as in the file.
///
/// # Errors
/// Services depend on each other in a circle.
pub(crate) fn order(services: &[Dependent]) -> Result<Vec<usize>, YamlError> {
    let mut order: Vec<usize> = Vec::new();
    let mut is_done = vec![false; services.len()];
    while order.len() < services.len() {
        let is_ready =
            |ix: &usize| !is_done[*ix] && services[*ix].needs.iter().all(|needed| is_done[*needed]);
        let Some(next) = (0..services.len()).find(is_ready) else {
            let stuck = services.iter().zip(&is_done).filter(|(_, is_done)| !**is_done);
            let names: Vec<&str> = stuck.clone().map(|(it, _)| it.name.as_str()).take(5).collect();
            let line = stuck.map(|(it, _)| it.line).min().unwrap_or(1);
            let what = format!("services wait for each other: {}", names.join(", "));
            return Err(YamlError::new(line, what).advice("remove one depends_on"));
        };
        is_done[next] = true;
        order.push(next);
    }
    Ok(order)
}
