//! M/M/k/k on nexosim, as its documentation does it: an output port of the source is connected to an input of the server,
//! and both schedule themselves.

use std::time::Duration;

use nexosim::model::{Context, Model, schedulable};
use nexosim::ports::{Output, QuerySource};
use nexosim::simulation::{Mailbox, SimInit, SimulationError};
use nexosim::time::MonotonicTime;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use crate::{Counts, Setup, exponential_ns};

#[derive(Serialize, Deserialize)]
struct Source {
    call: Output<()>,
    gap_s: f64,
    rng: Pcg64,
}

#[Model]
impl Source {
    #[nexosim(init)]
    async fn init(&mut self, cx: &Context<Self>) {
        self.schedule(cx);
    }

    #[nexosim(schedulable)]
    async fn arrive(&mut self, _: (), cx: &Context<Self>) {
        self.call.send(()).await;
        self.schedule(cx);
    }

    fn schedule(&mut self, cx: &Context<Self>) {
        let gap = exponential_ns(self.gap_s, &mut self.rng);
        cx.schedule_event(Duration::from_nanos(gap), schedulable!(Self::arrive), ())
            .expect("a time to come");
    }
}

#[derive(Serialize, Deserialize)]
struct Server {
    lines: u32,
    mean_s: f64,
    rng: Pcg64,
    busy: u32,
    counts: Counts,
}

#[Model]
impl Server {
    fn call(&mut self, _: (), cx: &Context<Self>) {
        self.counts.calls += 1;
        if self.busy == self.lines {
            self.counts.blocked += 1;
            return;
        }
        self.busy += 1;
        let length = exponential_ns(self.mean_s, &mut self.rng);
        cx.schedule_event(Duration::from_nanos(length), schedulable!(Self::end), ())
            .expect("a time to come");
    }

    #[nexosim(schedulable)]
    fn end(&mut self) {
        self.busy -= 1;
        self.counts.ended += 1;
    }

    async fn counts(&mut self) -> Counts {
        self.counts
    }
}

pub(crate) fn run(setup: Setup) -> Counts {
    simulate(setup).expect("a simulation of nexosim")
}

fn simulate(setup: Setup) -> Result<Counts, SimulationError> {
    let [gaps, lengths] = setup.streams();
    let mut source = Source {
        call: Output::default(),
        gap_s: 1.0 / setup.rate,
        rng: gaps,
    };
    let server = Server {
        lines: setup.lines,
        mean_s: setup.mean_s,
        rng: lengths,
        busy: 0,
        counts: Counts::default(),
    };
    let (source_mailbox, server_mailbox) = (Mailbox::new(), Mailbox::new());
    source.call.connect(Server::call, &server_mailbox);
    let mut bench = SimInit::with_num_threads(1);
    let counts = QuerySource::new()
        .connect(Server::counts, &server_mailbox)
        .register(&mut bench);
    let mut simulation = bench
        .add_model(source, source_mailbox, "source")
        .add_model(server, server_mailbox, "server")
        .init(MonotonicTime::EPOCH)?;
    simulation.step_until(Duration::from_nanos((setup.horizon_s * 1e9) as u64))?;
    Ok(simulation.process_query(&counts, ())?)
}
