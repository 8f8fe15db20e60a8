//! Route selection behind a pipe, for `bench/bgpy/run`: each line of standard input is a routing configuration as JSON, each line of
//! standard output the site of every AS, and the seconds of processor time that it took (where the system does not tell, of time).
//!
//! `route-selection GRAPH DEPLOYMENT`: a file of AS relationships, and a deployment as JSON.

use std::{
    error::Error,
    fs::{self, File},
    hint::black_box,
    io::{self, BufRead, Write},
    time::Instant,
};

use levee_anycast::{
    graph::AsGraph,
    simulate::{Deployment, Internet, Policies},
};
use levee_policy::reroute::Routing;
use serde_json::json;

/// A time is the mean of so many in a row.
const REPEATS: u32 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [graph, deployment] = &arguments[..] else {
        return Err("expected GRAPH DEPLOYMENT".into());
    };
    let begin = Instant::now();
    let graph = AsGraph::read(graph, File::open(graph)?)?;
    let read = begin.elapsed().as_secs_f64();
    let deployment: Deployment = serde_json::from_str(&fs::read_to_string(deployment)?)?;
    let internet = Internet::new(&graph, &deployment, &Policies::plain())?;
    let mut output = io::stdout().lock();
    writeln!(output, "{}", json!({"ases": graph.len(), "read_s": read}))?;
    for line in io::stdin().lock().lines() {
        let routing: Routing = serde_json::from_str(&line?)?;
        let start = clock(begin);
        for _ in 0..REPEATS {
            black_box(internet.catchments(black_box(&routing))?);
        }
        let seconds = (clock(begin) - start) / f64::from(REPEATS);
        let catchments = internet.catchments(&routing)?;
        let sites: Vec<_> = (0_u32..)
            .zip(graph.asns())
            .map(|(index, asn)| {
                let site = catchments.site(index);
                let name = site.map(|site| internet.sites().name(site));
                (asn.0, name, catchments.is_certain(index))
            })
            .collect();
        writeln!(output, "{}", json!({"seconds": seconds, "sites": sites}))?;
        output.flush()?;
    }
    Ok(())
}

/// Seconds of processor time, else since the beginning. On a busy machine only the first says how much work it was.
fn clock(begin: Instant) -> f64 {
    let own = fs::read_to_string("/proc/self/schedstat").ok();
    let ns: Option<f64> = own.and_then(|text| text.split(' ').next()?.parse().ok());
    ns.map_or_else(|| begin.elapsed().as_secs_f64(), |ns| ns / 1e9)
}
