//! The messages that read: `REQ`, `COUNT` and reconciliation.

use std::sync::Arc;
use std::time::Instant;

use grasp_core::filter::Filter;
use grasp_store::QueryLimits;

use super::frame::Frame;
use super::session::Session;
use crate::address::Rate;
use crate::count;
use crate::intake::Intake;
use crate::limits::Limit;
use crate::message::Request;
use crate::negentropy::{self, Responder};
use crate::query::Lane;
use crate::query::stored::Stored;
use crate::subscription::Subscription;

/// A subscription id that is too long is echoed so far: its owner knows it by less.
const ECHO_MAX: usize = 1024;

/// What a query is answered that comes too fast.
const TOO_MANY_QUERIES: &str = "rate-limited: too many queries";

/// Filters that are longer are not read on an async worker.
const LONG_TEXT: usize = 64 * 1024;

/// Why a request is refused.
struct Refusal {
    reason: String,
    /// A client that knows no `CLOSED` for filters it got wrong reads this.
    notice: bool,
}

impl<I: Intake> Session<I> {
    pub(super) async fn handle_req(&mut self, request: &Request<'_>) {
        let filters = match self.read_request(request).await {
            Ok(filters) => filters,
            Err(refusal) => return self.refuse_request(&request.id, &refusal),
        };
        let limits = &self.shared.limits;
        if let Err(limit) = self.subscriptions.check(&request.id, &filters, limits) {
            self.shared.metrics.refused(limit);
            let reason = match limit {
                Limit::SubscriptionBytes => {
                    let most = limits.subscription_bytes_max;
                    format!("rate-limited: active subscriptions exceed max size {most} bytes")
                }
                _ => "rate-limited: too many REQs".to_owned(),
            };
            // The name now stands for what was asked last, and that is not served.
            self.subscriptions.close(&request.id);
            return self.outbound.push(Frame::closed(&request.id, &reason));
        }
        self.open(&request.id, filters);
    }

    fn open(&mut self, id: &str, filters: Vec<Filter>) {
        let subscription = Subscription::new(id.to_owned(), filters, Arc::clone(&self.outbound));
        self.subscriptions.open(id, &subscription);
        let limits = QueryLimits {
            default_limit: self.shared.limits.filter_limit,
            max_limit: self.shared.limits.filter_limit,
            now: (self.shared.clock)(),
        };
        let Some(rest) = Stored::new(subscription, limits).send_here(&self.shared.reader) else {
            return;
        };
        let (reader, turn) = (self.shared.reader.clone(), Arc::clone(&self.queries_free));
        let clock = Arc::clone(&self.shared.clock);
        let task = self.jobs.spawn(async move {
            let _turn = turn.acquire().await;
            rest.send(&reader, &clock).await;
        });
        self.subscriptions.answering(id, task);
    }

    pub(super) async fn handle_count(&mut self, request: Request<'_>) {
        let filters = match self.read_request(&request).await {
            Ok(filters) => filters,
            Err(refusal) => return self.refuse_request(&request.id, &refusal),
        };
        let turn = Arc::clone(&self.queries_free).acquire_owned().await;
        let (reader, outbound) = (self.shared.reader.clone(), Arc::clone(&self.outbound));
        let now = (self.shared.clock)();
        self.jobs.spawn(async move {
            let _turn = turn;
            outbound.push(count::answer(&reader, &request.id, filters, now).await);
        });
    }

    pub(super) async fn handle_neg_open(&mut self, id: String, filter: &str, message: &str) {
        let opened = self.read_neg_open(&id, filter, message).await;
        let (filter, message) = match opened {
            Ok(opened) => opened,
            Err(reason) => {
                self.negentropy.end(&id);
                return self.outbound.push(Frame::neg_error(echo(&id), &reason));
            }
        };
        let turn = Arc::clone(&self.queries_free).acquire_owned().await;
        let responder = self.responder();
        self.jobs.spawn(async move {
            let _turn = turn;
            responder.open(id, filter, message).await;
        });
    }

    pub(super) async fn handle_neg_message(&mut self, id: String, message: &str) {
        let refusal = if self.rates.negentropy.take(Instant::now()) {
            match (
                self.negentropy.set(&id, Instant::now()),
                negentropy::from_hex(message),
            ) {
                (Some(set), Some(message)) => {
                    let turn = Arc::clone(&self.queries_free).acquire_owned().await;
                    let responder = self.responder();
                    self.jobs.spawn(async move {
                        let _turn = turn;
                        responder.proceed(id, set, message).await;
                    });
                    return;
                }
                (None, _) => negentropy::NOT_FOUND,
                (_, None) => {
                    self.negentropy.end(&id);
                    negentropy::INVALID
                }
            }
        } else {
            self.shared.metrics.refused(Limit::Negentropy);
            "rate-limited: too many negentropy messages"
        };
        self.outbound.push(Frame::neg_error(echo(&id), refusal));
    }

    fn responder(&self) -> Responder {
        Responder {
            reader: self.shared.reader.clone(),
            sets: Arc::clone(&self.shared.sets),
            sessions: Arc::clone(&self.negentropy),
            outbound: Arc::clone(&self.outbound),
            metrics: Arc::clone(&self.shared.metrics),
            frame_bytes_max: self.shared.limits.negentropy.frame_bytes_max,
        }
    }

    /// Checks a `NEG-OPEN` and makes place for its session.
    async fn read_neg_open(
        &mut self,
        id: &str,
        filter: &str,
        message: &str,
    ) -> Result<(Filter, Vec<u8>), String> {
        let limits = &self.shared.limits.negentropy;
        if !limits.enabled {
            return Err("blocked: negentropy is not offered here".to_owned());
        }
        if !self.rates.negentropy.take(Instant::now()) {
            self.shared.metrics.refused(Limit::Negentropy);
            return Err("rate-limited: too many negentropy messages".to_owned());
        }
        let allowed = self.shared.addresses.allow(&self.client, Rate::Queries);
        allowed.map_err(|_| TOO_MANY_QUERIES)?;
        self.check_id(id)?;
        let filters = self.read_filters(&[filter]).await;
        let mut filters = filters.map_err(|error| format!("{}: {error}", negentropy::INVALID))?;
        let filter = filters.pop().ok_or(negentropy::INVALID)?;
        let message = negentropy::from_hex(message).ok_or(negentropy::INVALID)?;
        if !self.negentropy.begin(id, limits, Instant::now()) {
            self.shared.metrics.refused(Limit::NegentropySessions);
            return Err(negentropy::TOO_MANY_SESSIONS.to_owned());
        }
        Ok((filter, message))
    }

    /// Checks what `REQ` and `COUNT` have in common, and reads their filters.
    async fn read_request(&mut self, request: &Request<'_>) -> Result<Vec<Filter>, Refusal> {
        let limits = &self.shared.limits;
        let metrics = &self.shared.metrics;
        if !self.rates.queries.take(Instant::now()) {
            metrics.refused(Limit::Queries);
            return Err(Refusal::of(TOO_MANY_QUERIES));
        }
        if self
            .shared
            .addresses
            .allow(&self.client, Rate::Queries)
            .is_err()
        {
            return Err(Refusal::of(TOO_MANY_QUERIES));
        }
        self.check_id(&request.id).map_err(Refusal::of)?;
        if request.filter_count > limits.filters_max {
            metrics.refused(Limit::Filters);
            let most = limits.filters_max;
            return Err(Refusal::of(format!(
                "rate-limited: REQ exceeds max filter count {most}"
            )));
        }
        if request.filters.is_empty() {
            return Err(Refusal::malformed("a request has at least one filter"));
        }
        let filters = self.read_filters(&request.filters).await;
        filters.map_err(|error| Refusal::malformed(&error))
    }

    /// Reads filters; very long ones take long to read, and an async worker has no time.
    async fn read_filters(&self, texts: &[&str]) -> Result<Vec<Filter>, String> {
        if texts.iter().map(|text| text.len()).sum::<usize>() < LONG_TEXT {
            return texts.iter().map(|text| read_filter(text)).collect();
        }
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let reader = &self.shared.reader;
        let read = reader.run(Lane::Quick, move |_| {
            Ok(texts.iter().map(|text| read_filter(text)).collect())
        });
        read.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    fn check_id(&self, id: &str) -> Result<(), String> {
        let most = self.shared.limits.subscription_id_max;
        if id.len() > most {
            self.shared.metrics.refused(Limit::SubscriptionId);
            return Err(format!(
                "blocked: subscription ID exceeds max length {most}"
            ));
        }
        if id.is_empty() {
            return Err("invalid: the subscription ID is empty".to_owned());
        }
        Ok(())
    }

    fn refuse_request(&mut self, id: &str, refusal: &Refusal) {
        self.subscriptions.close(id);
        self.outbound.push(Frame::closed(echo(id), &refusal.reason));
        if refusal.notice {
            self.notice("invalid client message");
        }
    }
}

impl Refusal {
    fn of(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            notice: false,
        }
    }

    fn malformed(what: &str) -> Self {
        Self {
            reason: format!("invalid: {what}"),
            notice: true,
        }
    }
}

fn read_filter(text: &str) -> Result<Filter, String> {
    let value = serde_json::from_str(text).map_err(|_| "a filter is a JSON object".to_owned())?;
    Filter::parse(&value).map_err(|error| error.to_string().chars().take(200).collect())
}

fn echo(id: &str) -> &str {
    &id[..id.floor_char_boundary(ECHO_MAX)]
}
