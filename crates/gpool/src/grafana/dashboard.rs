//! The JSON of a dashboard.
//!
//! Source: Grafana, "Dashboard JSON model", schema 38 (Grafana 10 and later read it).

use serde_json::{Value, json};

use super::panels::{Board, PANELS, Panel};

/// Width and height of a panel; a row of the grid has 24 columns.
const SIZE: (usize, usize) = (8, 8);
const COLUMNS: usize = 24 / SIZE.0;

#[must_use]
pub fn dashboard(board: Board) -> Value {
    let panels = PANELS.iter().filter(|panel| panel.board == board).enumerate();
    let panels: Vec<Value> = panels.map(|(ix, panel)| panel_json(ix, panel)).collect();
    let source = json!({
        "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
    });
    let variable = board.variable().map(|(name, query)| {
        json!({
            "name": name, "type": "query", "datasource": data_source(),
            "query": {"query": query, "refId": name},
            "includeAll": true, "allValue": ".*", "multi": true, "refresh": 2, "sort": 1,
            "current": {"text": "All", "value": "$__all"},
        })
    });
    let variables: Vec<Value> = [source].into_iter().chain(variable).collect();
    json!({
        "uid": board.uid(),
        "title": board.title(),
        "tags": ["gpool"],
        "schemaVersion": 38,
        "editable": true,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": variables},
        "panels": panels,
    })
}

fn data_source() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

fn panel_json(ix: usize, panel: &Panel) -> Value {
    let (width, height) = SIZE;
    let targets = ('A'..='Z').zip(panel.queries).map(|(id, (query, legend))| {
        json!({
            "refId": id.to_string(), "datasource": data_source(),
            "expr": query, "legendFormat": legend,
        })
    });
    let targets: Vec<Value> = targets.collect();
    let empty = panel.empty_when.map(|when| format!("Empty if {when}."));
    json!({
        "id": ix + 1,
        "title": panel.title,
        "type": "timeseries",
        "description": empty,
        "datasource": data_source(),
        "gridPos": {
            "x": ix % COLUMNS * width, "y": ix / COLUMNS * height, "w": width, "h": height,
        },
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": targets,
    })
}
