//! Requests of the pages to the API inside this process.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{Request, Response, StatusCode};
use gpool_wire::{Problem, catalogue};
use http_body_util::{BodyExt, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;
use tower::ServiceExt;

use super::Pages;
use gpool_api::asker::Asks;

/// More bytes of an answer are not read: lines can be long.
const ANSWER_MAX: usize = 64 << 20;
/// How long viewers that see the same share an answer: not longer than the stream waits after a
/// change, so that the answer after its message has the change.
const SHARED: Duration = super::stream::PAUSE;
/// How long viewers share an answer that is expensive and changes slowly, such as the cost of the
/// month.
const SLOW: Duration = Duration::from_secs(60);
/// How long they share an explanation, which simulates changes.
const EXPLAINED: Duration = Duration::from_secs(10);
/// Most shared answers.
const SHARED_MAX: usize = 256;
/// Answers that are the same for all users.
const FOR_ALL: [&str; 7] = [
    "/api/v1/gpus",
    "/api/v1/gpus/history",
    "/api/v1/usage",
    "/api/v1/usage/history",
    "/api/v1/cost",
    "/api/v1/nodes",
    "/api/v1/reservations",
];

/// The user of an answer, `None` for all admins or all users, and its target.
type Key = (Option<u32>, String);
/// A deserialized answer. Viewers that see the same share it.
type Answer = Arc<dyn Any + Send + Sync>;
/// When it is out of date, and the answer as soon as it is there.
type CachedAnswer = (Instant, Arc<OnceCell<Answer>>);

/// The last answers of the API, for viewers that see the same. The first one asks, and the others
/// wait for that answer: a change makes all of them ask at once.
#[derive(Default)]
pub(super) struct Answers(Mutex<HashMap<Key, CachedAnswer>>);

impl Answers {
    fn of(&self, key: Key, shared: Duration) -> Arc<OnceCell<Answer>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        all.retain(|_, (until, _)| now < *until);
        if let Some((_, answer)) = all.get(&key) {
            return Arc::clone(answer);
        }
        let answer = Arc::default();
        if all.len() < SHARED_MAX {
            all.insert(key, (now + shared, Arc::clone(&answer)));
        }
        answer
    }

    fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Pages {
    /// Asks the API. Admins see the same, so they share answers.
    pub(super) async fn ask<T>(&self, asks: &Asks, target: &str) -> Result<Arc<T>, Box<Problem>>
    where
        T: DeserializeOwned + Send + Sync + 'static,
    {
        self.ask_shared(asks, target, SHARED).await
    }

    /// Asks the API for something expensive that changes slowly: viewers share it for a minute.
    pub(super) async fn ask_slow<T>(
        &self,
        asks: &Asks,
        target: &str,
    ) -> Result<Arc<T>, Box<Problem>>
    where
        T: DeserializeOwned + Send + Sync + 'static,
    {
        self.ask_shared(asks, target, SLOW).await
    }

    /// Asks the API why a job waits.
    pub(super) async fn ask_why<T>(&self, asks: &Asks, target: &str) -> Result<Arc<T>, Box<Problem>>
    where
        T: DeserializeOwned + Send + Sync + 'static,
    {
        self.ask_shared(asks, target, EXPLAINED).await
    }

    async fn ask_shared<T>(
        &self,
        asks: &Asks,
        target: &str,
        shared: Duration,
    ) -> Result<Arc<T>, Box<Problem>>
    where
        T: DeserializeOwned + Send + Sync + 'static,
    {
        let caller = &asks.0.caller;
        let path = target.split('?').next().unwrap_or_default();
        let is_for_all = caller.admin || FOR_ALL.contains(&path);
        let key = ((!is_for_all).then_some(caller.owner.uid), target.to_owned());
        let answer = self.answers.of(key, shared);
        let ask = async || {
            let body = self.bytes(asks, target).await?;
            let read: T = serde_json::from_slice(&body).map_err(|it| failed(it.to_string()))?;
            Ok::<Answer, Box<Problem>>(Arc::new(read))
        };
        let answer = Arc::clone(answer.get_or_try_init(ask).await?).downcast();
        answer.map_err(|_| failed(format!("{target} is read as two types")))
    }

    pub(super) async fn bytes(&self, asks: &Asks, target: &str) -> Result<Bytes, Box<Problem>> {
        let request = Request::get(target).body(Body::empty());
        read(self.call(asks, request).await?).await
    }

    /// Asks the API for the last bytes of a text. The others take no memory: lines can be long.
    pub(super) async fn end_of(
        &self,
        asks: &Asks,
        target: &str,
        n_bytes: usize,
    ) -> Result<Vec<u8>, Box<Problem>> {
        let response = self.call(asks, Request::get(target).body(Body::empty())).await?;
        if !response.status().is_success() {
            return Ok(read(response).await?.to_vec());
        }
        let (mut body, mut end) = (response.into_body(), Vec::new());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| failed(error.to_string()))?;
            end.extend_from_slice(frame.data_ref().map_or(&[][..], |bytes| bytes));
            if end.len() > 2 * n_bytes {
                end.drain(..end.len() - n_bytes);
            }
        }
        end.drain(..end.len().saturating_sub(n_bytes));
        Ok(end)
    }

    /// Sends JSON to the API. Shared answers are out of date then.
    pub(super) async fn send(
        &self,
        asks: &Asks,
        target: &str,
        body: &impl Serialize,
    ) -> Result<Bytes, Box<Problem>> {
        let answer = self.post_json(asks, target, body).await;
        self.answers.clear();
        answer
    }

    /// The same to a route that reads no body.
    pub(super) async fn send_bare(&self, asks: &Asks, target: &str) -> Result<Bytes, Box<Problem>> {
        let answer = self.call(asks, Request::post(target).body(Body::empty())).await;
        self.answers.clear();
        read(answer?).await
    }

    /// Sends JSON to a part of the API that changes nothing.
    pub(super) async fn post_json(
        &self,
        asks: &Asks,
        target: &str,
        body: &impl Serialize,
    ) -> Result<Bytes, Box<Problem>> {
        let body = serde_json::to_vec(body).map_err(|error| failed(error.to_string()))?;
        let json = HeaderValue::from_static("application/json");
        let request = Request::post(target).header(CONTENT_TYPE, json).body(Body::from(body));
        read(self.call(asks, request).await?).await
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
