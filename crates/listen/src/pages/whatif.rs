//! The page that simulates changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::StatusCode;
use gpool_web::{Supposed, WhatIf, whatif_orders};
use gpool_wire::{Document, Gpu, List, Node, PolicyInfo, Project, Simulation};

use super::act::lines;
use super::answer::html;
use super::{Page, Pages, Visit};

impl Pages {
    /// The form, and the effect of the changes in the query. It changes nothing, so the query can
    /// be a bookmark.
    pub(super) async fn whatif(&self, visit: &Visit<'_>) -> Page {
        let asks = &visit.asks;
        let field = |name: &str| visit.query.get(name).trim().to_owned();
        visit.query.choice("ahead", &Supposed::AHEAD, "")?;
        visit.query.choice("past", &Supposed::PAST, "")?;
        let supposed = Supposed {
            nodes: field("nodes"),
            gpus: field("gpus"),
            model: field("model"),
            preset: field("preset"),
            project: field("project"),
            guaranteed: field("guaranteed"),
            drain: field("drain"),
            more: field("more"),
            ahead: field("ahead"),
            past: field("past"),
        };
        let (mut status, mut refused, mut made) = (StatusCode::OK, Vec::new(), None);
        if !visit.query.get("ahead").is_empty() {
            match self.post_json(asks, "/api/v1/simulate", &supposed.ask()).await {
                Ok(body) => made = serde_json::from_slice::<Document<Simulation>>(&body).ok(),
                Err(problem) => {
                    status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::CONFLICT);
                    refused = lines(&problem);
                }
            }
        }
        let gpus: Arc<List<Gpu>> = self.ask(asks, "/api/v1/gpus").await?;
        let models: BTreeSet<String> =
            gpus.items.iter().map(|gpu| gpu.model_short.clone()).collect();
        let models: Vec<String> = models.into_iter().collect();
        let projects: Arc<List<Project>> = self.ask(asks, "/api/v1/projects").await?;
        let projects: Vec<String> = projects.items.iter().map(|it| it.name.clone()).collect();
        let nodes: Arc<List<Node>> = self.ask(asks, "/api/v1/nodes").await?;
        let nodes: Vec<String> = nodes.items.iter().map(|node| node.name.clone()).collect();
        let policy: Arc<Document<PolicyInfo>> = self.ask(asks, "/api/v1/policies").await?;
        let page = WhatIf {
            frame: visit.frame("/whatif"),
            supposed: &supposed,
            address: &visit.query.address("/whatif"),
            order: visit.query.order(&whatif_orders())?,
            models: &models,
            projects: &projects,
            nodes: &nodes,
            preset: &policy.body.preset,
            simulation: made.as_ref().map(|made| &made.body),
            refused: &refused,
        };
        Ok(html(status, page.page()))
    }
}
