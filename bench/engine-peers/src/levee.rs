//! M/M/k/k on Levee's engine.

use levee_policy::{Span, Time};
use levee_sim::engine::{ActorId, Link, LinkId, Model, Scheduler, Simulation, TieOrder};
use rand_pcg::Pcg64;

use crate::{Counts, Setup, exponential_ns};

const SOURCE: ActorId = ActorId(0);
const SERVER: ActorId = ActorId(1);

#[derive(Clone, Copy)]
enum Message {
    Arrive,
    Call,
    End,
}

struct Source {
    gap_s: f64,
    rng: Pcg64,
}

impl Source {
    fn start(&mut self, scheduler: &mut Scheduler<Message>) {
        let gap = exponential_ns(self.gap_s, &mut self.rng);
        scheduler.after(Span::from_nanos(gap), SOURCE, Message::Arrive);
    }
}

struct Server {
    lines: u32,
    mean_s: f64,
    rng: Pcg64,
    busy: u32,
    counts: Counts,
}

impl Server {
    fn call(&mut self, scheduler: &mut Scheduler<Message>) {
        self.counts.calls += 1;
        if self.busy == self.lines {
            self.counts.blocked += 1;
            return;
        }
        self.busy += 1;
        let length = exponential_ns(self.mean_s, &mut self.rng);
        scheduler.after(Span::from_nanos(length), SERVER, Message::End);
    }

    fn end(&mut self) {
        self.busy -= 1;
        self.counts.ended += 1;
    }
}

struct Queue {
    source: Source,
    server: Server,
    link: LinkId,
}

impl Model for Queue {
    type Message = Message;

    fn start(&mut self, scheduler: &mut Scheduler<Message>) {
        self.link = scheduler.link(Link::default());
        self.source.start(scheduler);
    }

    fn deliver(&mut self, _to: ActorId, message: Message, scheduler: &mut Scheduler<Message>) {
        match message {
            Message::Arrive => {
                scheduler.send(self.link, SERVER, Message::Call);
                self.source.start(scheduler);
            }
            Message::Call => self.server.call(scheduler),
            Message::End => self.server.end(),
        }
    }
}

pub(crate) fn run(setup: Setup) -> Counts {
    let [gaps, lengths] = setup.streams();
    let queue = Queue {
        source: Source {
            gap_s: 1.0 / setup.rate,
            rng: gaps,
        },
        server: Server {
            lines: setup.lines,
            mean_s: setup.mean_s,
            rng: lengths,
            busy: 0,
            counts: Counts::default(),
        },
        link: LinkId::default(),
    };
    let horizon = Time::from_nanos((setup.horizon_s * 1e9) as u64);
    let mut simulation = Simulation::new(queue, horizon, TieOrder::FirstSent);
    simulation.run().expect("a run within the limits");
    let counts = simulation.model.server.counts;
    assert_eq!(simulation.delivered(), counts.events());
    counts
}
