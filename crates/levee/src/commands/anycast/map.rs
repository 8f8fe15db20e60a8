//! `levee anycast map FILE...`.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use clap::ValueEnum;
use levee_anycast::map::{
    About, CatchmentMap, Importer, LATE, LoadMap, LoadUnit, ReadOptions, ReadReport, SitePattern,
    Summary, partial, read_load, report_text, summary_text, write_csv, write_parquet,
};
use levee_policy::reroute::Sites;
use serde::Serialize;

use crate::cli::Global;
use crate::exit::Answer;
use crate::{output, view};

#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Measurements or traffic: maps of Levee (.parquet, .csv), results of Verfploeter and MAnycastR, DNS results of RIPE Atlas
    /// (JSON), captures (pcap, pcapng), CSV with columns such as block, site and load; all but Parquet may be gzipped
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Sum up each file by itself, and flag those with replies missing, instead of putting all into one map
    #[arg(long, conflicts_with = "out")]
    each: bool,
    /// What the map is called [default: the first file]
    #[arg(long)]
    name: Option<String>,
    /// Write the map, as .parquet or .csv
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
}

const EXAMPLES: &str = "Examples:\n  \
    levee anycast map run.csv.gz --rename au-syd-anycast01=SYD --out map.parquet\n  \
    levee anycast map atlas.json --site-pattern 'ns*.{site}.k.example.net'\n  \
    levee anycast map ams.pcap --site AMS --service 192.0.2.0/24 --unit queries --out load.parquet";

/// How files are read.
#[derive(Debug, clap::Args)]
pub(super) struct Reading {
    /// The load of each block in normal times, to weigh by: CSV with block and load, a map with loads, or a capture
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// The sites, if there may be no others
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    sites: Vec<String>,
    /// Another name for a site than the file has
    #[arg(long, value_name = "NAME=SITE", value_parser = renamed)]
    rename: Vec<(String, String)>,
    /// The site of files that do not say it, such as captures
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// Addresses of the service, in captures and Atlas results
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    service: Vec<ipnet::IpNet>,
    /// Which site an identity of a DNS server stands for: * is any text, {site} the name of the site
    #[arg(long, value_name = "PATTERN[=SITE]")]
    site_pattern: Vec<SitePattern>,
    /// Which of several announcements in a file of MAnycastR
    #[arg(long, value_name = "ID")]
    origin: Option<u32>,
    /// Leave out replies that took longer
    #[arg(long, value_name = "SECONDS", default_value_t = LATE.as_secs())]
    late: u64,
    /// What is counted as load in captures
    #[arg(long, default_value = "packets")]
    unit: Unit,
    /// Leave out what is malformed, and tell how much it was, instead of stopping there
    #[arg(long)]
    skip_bad: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Unit {
    Packets,
    Bytes,
    /// DNS queries
    Queries,
}

fn renamed(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, site)) if !name.is_empty() && !site.is_empty() => {
            Ok((name.to_owned(), site.to_owned()))
        }
        _ => Err("expected NAME=SITE, such as au-syd-anycast01=SYD".to_owned()),
    }
}

fn prefix(text: &str) -> Result<ipnet::IpNet, String> {
    let one = || text.parse::<std::net::IpAddr>().map(ipnet::IpNet::from);
    let net = text.parse().or_else(|_| one());
    net.map_err(|_| "expected a prefix or an address, such as 192.0.2.0/24".to_owned())
}

impl Reading {
    fn options(&self) -> Result<ReadOptions> {
        let sites = match &self.sites[..] {
            [] => None,
            names => Some(Sites::new(names).context("--sites")?),
        };
        Ok(ReadOptions {
            sites,
            rename: self.rename.iter().cloned().collect(),
            site: self.site.clone(),
            service: self.service.clone(),
            patterns: self.site_pattern.clone(),
            origin: self.origin,
            late: std::time::Duration::from_secs(self.late),
            unit: match self.unit {
                Unit::Packets => LoadUnit::Packets,
                Unit::Bytes => LoadUnit::Bytes,
                Unit::Queries => LoadUnit::Queries,
            },
            skip_bad: self.skip_bad,
        })
    }

    /// The weights, if there are any.
    pub(super) fn weights(&self) -> Result<Option<LoadMap>> {
        let Some(path) = &self.weights else {
            return Ok(None);
        };
        let (load, _) = read_load(path, &self.options()?)?;
        Ok(Some(load))
    }

    /// Reads files into one map.
    pub(super) fn read(&self, files: &[PathBuf], global: Global) -> Result<Imported> {
        let size = |path: &PathBuf| path.metadata().map_or(0, |meta| meta.len());
        let bar = view::bytes_bar(global, files.iter().map(size).sum());
        let mut importer = Importer::new(self.options()?);
        let mut reports = Vec::new();
        for path in files {
            let report = importer.read(path)?;
            bar.inc(size(path));
            reports.push((path.display().to_string(), report));
        }
        bar.finish_and_clear();
        let (map, load) = importer
            .finish()
            .with_context(|| format!("{}: no reply in it", files[0].display()))?;
        Ok(Imported { map, load, reports })
    }
}

/// What was read.
pub(super) struct Imported {
    pub(super) map: CatchmentMap,
    pub(super) load: Option<LoadMap>,
    pub(super) reports: Vec<(String, ReadReport)>,
}

/// A name for a map, of its file.
pub(super) fn name(path: &Path) -> String {
    let name = path
        .file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy();
    let ends = [
        ".gz", ".csv", ".parquet", ".json", ".jsonl", ".pcap", ".pcapng",
    ];
    let mut name = &*name;
    while let Some(shorter) = ends
        .iter()
        .find_map(|end| name.strip_suffix(end))
        .filter(|n| !n.is_empty())
    {
        name = shorter;
    }
    name.to_owned()
}

/// Sites of one map or of several, and each in figures.
#[derive(Serialize)]
struct Document<'a> {
    command: &'static str,
    sites: Vec<&'a str>,
    configurations: &'a [Summary],
    files: Vec<FileReport<'a>>,
}

#[derive(Serialize)]
struct FileReport<'a> {
    file: &'a str,
    #[serde(flatten)]
    report: &'a ReadReport,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<Answer> {
    let write = args.out.as_deref().map(Form::of).transpose()?;
    let weights = args.reading.weights()?;
    let groups: Vec<&[PathBuf]> = if args.each {
        args.files.chunks(1).collect()
    } else {
        vec![&args.files]
    };
    let mut summaries = Vec::new();
    let mut reports = Vec::new();
    let mut sites: Vec<String> = Vec::new();
    for files in groups {
        let imported = args.reading.read(files, global)?;
        let load = weights.as_ref().or(imported.load.as_ref());
        let given = args.name.clone().filter(|_| !args.each);
        let name = given.unwrap_or_else(|| name(&files[0]));
        summaries.push(Summary::new(&name, &imported.map, load));
        for site in imported.map.sites().names() {
            if !sites.iter().any(|known| known == site) {
                sites.push(site.to_owned());
            }
        }
        if let (Some(path), Some(form)) = (&args.out, write) {
            save(path, form, &imported, load)?;
        }
        reports.extend(imported.reports);
    }
    let known: Vec<u64> = summaries.iter().map(|summary| summary.blocks).collect();
    for (summary, partial) in summaries.iter_mut().zip(partial(&known)) {
        summary.partial = partial;
    }
    if global.json {
        output::json(&Document {
            command: "anycast map",
            sites: sites.iter().map(String::as_str).collect(),
            configurations: &summaries,
            files: reports
                .iter()
                .map(|(file, report)| FileReport { file, report })
                .collect(),
        })?;
    } else {
        let texts: Vec<String> = summaries.iter().map(summary_text).collect();
        output::text(&texts.join("\n"))?;
    }
    if !global.quiet {
        for (file, report) in &reports {
            output::note(report_text(file, report));
        }
        if let Some(path) = &args.out {
            output::note(format_args!("written: {}", path.display()));
        }
    }
    Ok(Answer::Yes)
}

/// Forms in which a map is written.
#[derive(Clone, Copy, Debug)]
enum Form {
    Parquet,
    Csv,
}

impl Form {
    fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("parquet") => Ok(Self::Parquet),
            Some("csv") => Ok(Self::Csv),
            _ => bail!(
                "--out {}: expected a name that ends in .parquet or .csv",
                path.display()
            ),
        }
    }
}

fn save(path: &Path, form: Form, imported: &Imported, load: Option<&LoadMap>) -> Result<()> {
    let files: Vec<&str> = imported
        .reports
        .iter()
        .map(|(file, _)| file.as_str())
        .collect();
    let measured = imported
        .reports
        .iter()
        .filter_map(|(_, report)| report.measured);
    let about = About {
        measured: measured.map(|(first, _)| first).min(),
        source: files.join(" "),
    };
    let cannot = || {
        format!(
            "cannot write {}: choose another file with --out",
            path.display()
        )
    };
    let same = |file: &&str| {
        Path::new(file).canonicalize().ok() == path.canonicalize().ok() && path.exists()
    };
    ensure!(
        !files.iter().any(same),
        "--out {}: this file is read; choose another",
        path.display()
    );
    let file = BufWriter::new(File::create(path).with_context(cannot)?);
    match form {
        Form::Parquet => write_parquet(&imported.map, load, &about, file).with_context(cannot),
        Form::Csv => write_csv(&imported.map, load, &about, file).with_context(cannot),
    }
}
