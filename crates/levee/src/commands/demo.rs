//! `levee demo`.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use levee_lab::report::AnyReport;
use levee_lab::{demo, html, http};
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
    /// A service on several sites (not in this version)
    Anycast,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<Answer> {
    let text = match args.what {
        What::Sip => demo::SCENARIO,
        What::Http => http::demo::SCENARIO,
        What::Anycast => bail!(
            "`demo anycast` is not in this version; there are `levee demo sip` and `levee demo http`"
        ),
    };
    let no_file = |_: &str| Err(std::io::Error::other("the demo reads no file"));
    let scenario = Scenario::parse("the demo's scenario", text, &no_file)?;
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
    let stop = signals::stop_flag()?;
    let mut view = DemoView::new(global);
    let (report, page) = if args.what == What::Http {
        let result = http::demo::run(&scenario, &stop, &mut |now| view.show(&now.into()))?;
        let page = http::html::page(&result);
        (AnyReport::Thinner(result.report), page)
    } else {
        let result = demo::run(&scenario, &stop, &mut |now| view.show(&now.into()))?;
        let page = html::page(&result);
        (AnyReport::Sip(result.report), page)
    };
    view.finish();
    // The figures first: they are not lost when the page cannot be written.
    if global.json {
        output::text(&report.to_json())?;
    } else {
        output::text(&report.to_table())?;
    }
    if !args.no_page {
        page_result(&args.page, std::fs::write(&args.page, page))?;
        if !global.quiet {
            output::note(format_args!("plots: {}", args.page.display()));
        }
    }
    Ok(Answer::Yes)
}

fn page_result<T>(page: &Path, tried: std::io::Result<T>) -> Result<T> {
    tried.with_context(|| {
        format!(
            "cannot write {}: choose another file with --page, or --no-page",
            page.display()
        )
    })
}
