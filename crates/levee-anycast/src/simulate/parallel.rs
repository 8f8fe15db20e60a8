//! Many configurations at once.

use std::{
    num::NonZeroUsize,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use levee_policy::reroute::Routing;

use super::{Catchments, Internet, RoutingError};

impl Internet<'_> {
    /// The catchments of each configuration, made into what is wanted of them: a few bytes instead of a route for each AS. In
    /// the order of `routings`, whatever the number of threads.
    ///
    /// # Errors
    ///
    /// As [`Internet::catchments`], for the first configuration that has one.
    pub fn each<T: Send>(
        &self,
        routings: &[Routing],
        threads: NonZeroUsize,
        make: impl Fn(&Routing, Catchments) -> T + Sync,
    ) -> Result<Vec<T>, RoutingError> {
        let next = AtomicUsize::new(0);
        let made = Mutex::new(routings.iter().map(|_| None).collect::<Vec<_>>());
        let work = || {
            loop {
                let place = next.fetch_add(1, Ordering::Relaxed);
                let Some(routing) = routings.get(place) else {
                    return;
                };
                let result = self
                    .catchments(routing)
                    .map(|catchments| make(routing, catchments));
                made.lock().unwrap_or_else(PoisonError::into_inner)[place] = Some(result);
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads.get().min(routings.len()) {
                scope.spawn(work);
            }
            work();
        });
        let made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
        made.into_iter().flatten().collect()
    }
}
