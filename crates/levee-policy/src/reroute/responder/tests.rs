use std::{println, string::ToString};

use rand_pcg::Pcg64Mcg;

use super::{
    super::{Play, Routing, Sites, estimate::KnownGood},
    *,
};
use crate::Span;

/// Minutes, as a time.
fn at(minutes: u64) -> Time {
    Time::ZERO + Span::from_secs(60 * minutes)
}

/// A playbook of configurations with the share that each site gets, in percent.
fn playbook(plays: &[(&str, [u64; 3])]) -> Arc<Playbook> {
    let sites = Sites::new(["AMS", "BOS", "CNF"]).unwrap();
    let plays = plays.iter().map(|(name, share)| Play {
        routing: Routing {
            name: (*name).to_string(),
            ..Routing::baseline(3)
        },
        blocks: share.to_vec(),
        unknown: 0,
        load: None,
        partial: false,
        ineffective: false,
    });
    Arc::new(Playbook::new(sites, plays.collect(), None).unwrap())
}

/// The paper's table 5, roughly.
const PLAYS: [(&str, [u64; 3]); 4] = [
    ("baseline", [65, 15, 20]),
    ("+1xAMS", [37, 25, 38]),
    ("+2xAMS", [20, 35, 45]),
    ("-3xAMS", [90, 5, 5]),
];

/// A service under attack: what is offered goes where the plays say, and beyond its capacity a site loses it.
struct World {
    responder: Responder,
    /// What is really announced.
    announced: usize,
    /// Where the load really goes, by play.
    shares: Vec<[f64; 3]>,
    capacities: [f64; 3],
    /// What is offered in all.
    offered: f64,
    /// Deployments that will fail.
    failing: usize,
    log: Vec<(u64, Output)>,
    minute: u64,
}

/// Known-good events that a site with all the load would see in a minute.
const KNOWN_GOOD: f64 = 10_000.0;

impl World {
    fn new(plays: &[(&str, [u64; 3])], capacities: [f64; 3]) -> Self {
        let book = playbook(plays);
        let shares = plays
            .iter()
            .map(|(_, share)| share.map(|share| share as f64 / 100.0))
            .collect();
        Self {
            responder: Responder::new(Config::default(), book, capacities.to_vec()).unwrap(),
            announced: 0,
            shares,
            capacities,
            offered: 0.0,
            failing: 0,
            log: Vec::new(),
            minute: 0,
        }
    }

    fn measure(&self) -> Measure {
        let sites = self.capacities.iter().zip(self.shares[self.announced]);
        let site = |(capacity, share): (&f64, f64)| {
            let offered = self.offered * share;
            let alpha = (capacity / offered).min(1.0);
            SiteMeasure {
                observed: Some(offered * alpha),
                normal: None,
                known_good: vec![KnownGood {
                    observed: KNOWN_GOOD * share * alpha,
                    expected: KNOWN_GOOD * share,
                    expected_sd: 0.01 * KNOWN_GOOD * share,
                }],
            }
        };
        Measure {
            sites: sites.map(site).collect(),
        }
    }

    fn tell(&mut self, input: Input) {
        let mut rng = Pcg64Mcg::new(1);
        self.responder.handle(at(self.minute), input, &mut rng);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.responder.poll_output() {
            self.log.push((self.minute, output.clone()));
            if let Output::Deploy { play } = output {
                if self.failing > 0 {
                    self.failing -= 1;
                    let reason = "no session".to_string();
                    self.tell(Input::DeployFailed { play, reason });
                } else {
                    self.announced = play;
                    self.tell(Input::Deployed { play });
                }
            }
        }
    }

    /// Lets minutes pass with this load, measured every minute.
    fn pass(&mut self, minutes: u64, offered: f64) {
        self.offered = offered;
        for _ in 0..minutes {
            self.minute += 1;
            let measure = self.measure();
            self.tell(Input::Measure(measure));
        }
    }

    /// Orders so far, with their minutes.
    fn orders(&self) -> Vec<(u64, usize)> {
        let orders = self.log.iter().filter_map(|(minute, output)| match output {
            Output::Deploy { play } => Some((*minute, *play)),
            _ => None,
        });
        orders.collect()
    }

    fn print(&self) {
        for (minute, output) in &self.log {
            println!("{minute:4} {output:?}");
        }
    }
}

#[test]
fn an_attack_is_mitigated_and_the_baseline_comes_back() {
    let mut world = World::new(&PLAYS, [100.0, 100.0, 100.0]);
    world.pass(60, 100.0);
    assert_eq!(world.log, []);
    world.pass(120, 240.0);
    world.pass(120, 100.0);
    world.print();
    // 65 % of 240 is over 100; 37, 25 and 38 % are not. Two measures a minute apart show it, and half an hour of calm.
    assert_eq!(world.orders(), [(62, 1), (211, 0)]);
}
