//! The time source of games, analyses and connections: the system's clock, or one that a test moves
//! forward.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper::rt;
use tokio::{sync::watch, time};

/// A time source; clones share it.
#[derive(Clone, Debug, Default)]
pub enum TimeSource {
    /// The system's monotonic clock.
    #[default]
    System,
    /// Stands still between two calls of [`ManualTime::advance`].
    Manual(ManualTime),
}

/// A time source for tests; clones share the time.
#[derive(Clone, Debug)]
pub struct ManualTime(Arc<watch::Sender<Instant>>);

impl Default for ManualTime {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Instant::now())))
    }
}

impl ManualTime {
    /// Moves the time forward and wakes every sleeper whose time has come.
    pub fn advance(&self, duration: Duration) {
        self.0.send_modify(|now| *now += duration);
    }
}

impl TimeSource {
    /// The present time.
    #[must_use]
    pub fn now(&self) -> Instant {
        match self {
            Self::System => Instant::now(),
            Self::Manual(ManualTime(now)) => *now.borrow(),
        }
    }

    /// Time since `start`; zero for a `start` in the future.
    #[must_use]
    pub fn elapsed(&self, start: Instant) -> Duration {
        self.now().saturating_duration_since(start)
    }

    /// Returns at `deadline`.
    pub async fn sleep_until(&self, deadline: Instant) {
        match self {
            Self::System => time::sleep_until(deadline.into()).await,
            Self::Manual(ManualTime(now)) => {
                // The sender lives as long as `self`: the wait ends only at the deadline.
                let _ = now.subscribe().wait_for(|now| *now >= deadline).await;
            }
        }
    }
}

/// Lets hyper measure its timeouts with this source.
impl rt::Timer for TimeSource {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        rt::Timer::sleep_until(self, self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        let time = self.clone();
        Box::pin(TimeSourceSleep(Box::pin(async move { time.sleep_until(deadline).await })))
    }

    fn now(&self) -> Instant {
        Self::now(self)
    }
}

/// A sleep in the form that hyper needs.
struct TimeSourceSleep(Pin<Box<dyn Future<Output = ()> + Send + Sync>>);

impl Future for TimeSourceSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(context)
    }
}

impl rt::Sleep for TimeSourceSleep {}
