//! Requests of the pages to the API inside this process.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{Request, Response, StatusCode};
use gpool_wire::{Problem, catalogue};
use http_body_util::{BodyExt, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower::ServiceExt;

use super::super::asker::Asks;
use super::Pages;

/// More bytes of an answer are not read: lines can be long.
const ANSWER_MAX: usize = 64 << 20;
/// How long viewers that see the same share an answer.
const SHARED: Duration = Duration::from_millis(500);
/// Most shared answers.
const SHARED_MAX: usize = 256;

/// The user of an answer, `None` for all admins, and its target.
pub(super) type Key = (Option<u32>, String);

impl Pages {
    /// Asks the API. Admins see the same, so they share answers.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        asks: &Asks,
        target: &str,
    ) -> Result<T, Box<Problem>> {
        let caller = &asks.0.caller;
        let key = ((!caller.admin).then_some(caller.owner.uid), target.to_owned());
        let body = match self.shared(&key) {
            Some(body) => body,
            None => {
                let body = self.bytes(asks, target).await?;
                self.share(key, body.clone());
                body
            }
        };
        serde_json::from_slice(&body).map_err(|error| failed(error.to_string()))
    }

    fn shared(&self, key: &Key) -> Option<Bytes> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, body) = answers.get(key)?;
        (at.elapsed() < SHARED).then(|| body.clone())
    }

    fn share(&self, key: Key, body: Bytes) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.retain(|_, (at, _)| at.elapsed() < SHARED);
        if answers.len() < SHARED_MAX {
            answers.insert(key, (Instant::now(), body));
        }
    }

    /// Asks the API for bytes.
    pub(super) async fn bytes(&self, asks: &Asks, target: &str) -> Result<Bytes, Box<Problem>> {
        let request = Request::get(target).body(Body::empty());
        read(self.call(asks, request).await?).await
    }

    /// Sends JSON to the API. Shared answers are out of date then.
    pub(super) async fn send(
        &self,
        asks: &Asks,
        target: &str,
        body: &impl Serialize,
    ) -> Result<Bytes, Box<Problem>> {
        let body = serde_json::to_vec(body).map_err(|error| failed(error.to_string()))?;
        let json = HeaderValue::from_static("application/json");
        let request = Request::post(target).header(CONTENT_TYPE, json).body(Body::from(body));
        let answer = read(self.call(asks, request).await?).await;
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).clear();
        answer
    }

    /// Answers as the API does, without a user.
    pub(super) async fn forward(&self, path: &str) -> Result<Response<Body>, Box<Problem>> {
        self.call(&self.nobody, Request::get(path).body(Body::empty())).await
    }

    /// The answer of the API as it is.
    pub(super) async fn call(
        &self,
        asks: &Asks,
        request: Result<Request<Body>, axum::http::Error>,
    ) -> Result<Response<Body>, Box<Problem>> {
        let mut request = request.map_err(|error| failed(error.to_string()))?;
        request.extensions_mut().insert(asks.clone());
        let Ok(response) = self.api.clone().oneshot(request).await;
        Ok(response)
    }
}

async fn read(response: Response<Body>) -> Result<Bytes, Box<Problem>> {
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
    let body = body.map_err(|error| failed(error.to_string()))?.to_bytes();
    if status.is_success() {
        return Ok(body);
    }
    let problem: Option<Problem> = serde_json::from_slice(&body).ok();
    Err(problem.map_or_else(|| failed(status.to_string()), Box::new))
}

fn failed(why: String) -> Box<Problem> {
    let mut problem = Problem::new(catalogue::INTERNAL, why);
    problem.status = StatusCode::SERVICE_UNAVAILABLE.as_u16();
    Box::new(problem)
}
