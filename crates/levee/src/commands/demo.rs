//! `levee demo`.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use levee_lab::report::AnyReport;
use levee_lab::{anycast, demo, html, http};
use levee_sim::scenario::Scenario;

use crate::cli::Global;
use crate::exit::Answer;
use crate::view::DemoView;
use crate::{output, signals};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What is attacked
    #[arg(value_enum, default_value_t = What::Sip)]
    what: What,
    /// Where the page with the plots goes
    #[arg(long, value_name = "FILE", default_value = "levee-demo.html")]
    page: PathBuf,
    /// Write no page
    #[arg(long, conflicts_with = "page")]
    no_page: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// A phone system, by callers that never hang up
    Sip,
    /// A web server, by clients that ask ten times as often as the others
    Http,
    /// A service at several sites, in what reaches one of them; on a made-up Internet, in virtual time
    Anycast,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<Answer> {
    if !args.no_page {
        // Before the minute that it takes, not after it.
        page_result(
            &args.page,
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(&args.page),
        )?;
    }
    let shown = match args.what {
        What::Sip => live(demo::SCENARIO, global, |scenario, stop, view| {
            let result = demo::run(scenario, stop, &mut |now| view.show(&now.into()))?;
            let page = html::page(&result);
            Ok(Shown::of(&AnyReport::Sip(result.report), page))
        })?,
        What::Http => live(http::demo::SCENARIO, global, |scenario, stop, view| {
            let result = http::demo::run(scenario, stop, &mut |now| view.show(&now.into()))?;
            let page = http::html::page(&result);
            Ok(Shown::of(&AnyReport::Thinner(result.report), page))
        })?,
        What::Anycast => simulated(global)?,
    };
    // The figures first: they are not lost when the page cannot be written.
    if global.json {
        output::text(&shown.json)?;
    } else {
        output::text(&shown.table)?;
    }
    if !args.no_page {
        page_result(&args.page, std::fs::write(&args.page, shown.page))?;
        if !global.quiet {
            output::note(format_args!("plots: {}", args.page.display()));
        }
    }
    Ok(Answer::Yes)
}

/// What a demo has to show.
struct Shown {
    json: String,
    table: String,
    page: String,
}

impl Shown {
    fn of(report: &AnyReport, page: String) -> Self {
        Self {
            json: report.to_json(),
            table: report.to_table(),
            page,
        }
    }
}

/// Runs a demo over real sockets, which can be watched and cut off.
fn live(
    scenario: &str,
    global: Global,
    run: impl FnOnce(&Scenario, &AtomicBool, &mut DemoView) -> Result<Shown>,
) -> Result<Shown> {
    let no_file = |_: &str| Err(std::io::Error::other("the demo reads no file"));
    let scenario = Scenario::parse("the demo's scenario", scenario, &no_file)?;
    let stop = signals::stop_flag()?;
    let mut view = DemoView::new(global);
    let shown = run(&scenario, &stop, &mut view)?;
    view.finish();
    Ok(shown)
}

/// Runs the demo in virtual time: seconds.
fn simulated(global: Global) -> Result<Shown> {
    let result = anycast::demo::run(&mut |what| {
        if !global.quiet {
            output::note(format_args!("{what}"));
        }
    })?;
    let report = anycast::report::Report::new(&result);
    Ok(Shown {
        json: report.to_json(),
        table: report.to_table(),
        page: anycast::page(&result, &report),
    })
}

fn page_result<T>(page: &Path, tried: std::io::Result<T>) -> Result<T> {
    tried.with_context(|| {
        format!(
            "cannot write {}: choose another file with --page, or --no-page",
            page.display()
        )
    })
}
