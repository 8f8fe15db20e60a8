//! Where readers put what they read.

use std::path::Path;

use hashbrown::HashMap;
use ipnet::IpNet;
use levee_policy::reroute::SiteId;

use super::error::{At, Problem, ReadError, shown};
use super::{BAD_SHOWN, Form, ReadOptions, ReadReport, at};
use crate::map::{Block, Builder, LoadMap, Reply, Rtt};

/// Names of sites in files that are remembered; those of a hostile file are not.
const NAMES_MAX: usize = 65_536;

pub(super) struct Sink<'a> {
    pub(super) path: &'a Path,
    pub(super) options: &'a ReadOptions,
    /// `None` if only loads are read.
    builder: Option<&'a mut Builder>,
    load: &'a mut LoadMap,
    pub(super) loaded: bool,
    pub(super) report: ReadReport,
    names: HashMap<Vec<u8>, SiteId, foldhash::fast::FixedState>,
    /// The site of the last record, which is often that of the next.
    last: Option<(Vec<u8>, SiteId)>,
    origin: Option<u32>,
    duplicates_before: u64,
}

impl<'a> Sink<'a> {
    pub(super) fn new(
        path: &'a Path,
        options: &'a ReadOptions,
        builder: Option<&'a mut Builder>,
        load: &'a mut LoadMap,
    ) -> Self {
        let duplicates_before = builder.as_ref().map_or(0, |builder| builder.duplicates());
        Self {
            path,
            options,
            builder,
            load,
            loaded: false,
            report: ReadReport::new(Form::Plain),
            names: HashMap::default(),
            last: None,
            origin: options.origin,
            duplicates_before,
        }
    }

    pub(super) fn finish(mut self) -> (ReadReport, bool) {
        if let Some(builder) = &self.builder {
            self.report.duplicates = builder.duplicates() - self.duplicates_before;
        }
        (self.report, self.loaded)
    }

    /// Whether sites matter.
    pub(super) fn wants_sites(&self) -> bool {
        self.builder.is_some()
    }

    pub(super) fn error(&self, place: At, problem: Problem) -> ReadError {
        at(self.path, place, problem)
    }

    /// An error, unless bad records are to be left out.
    pub(super) fn bad(&mut self, place: At, problem: Problem) -> Result<(), ReadError> {
        let error = self.error(place, problem);
        if !self.options.skip_bad {
            return Err(error);
        }
        self.report.bad += 1;
        if self.report.bad_shown.len() < BAD_SHOWN {
            self.report.bad_shown.push(error.to_string());
        }
        Ok(())
    }

    pub(super) fn field(column: &str, found: &[u8], expected: &str) -> Problem {
        Problem::Field {
            column: column.to_owned(),
            found: shown(found),
            expected: expected.to_owned(),
        }
    }

    /// The site that a file calls so.
    pub(super) fn site(&mut self, name: &[u8]) -> Result<SiteId, Problem> {
        if let Some((last, site)) = &self.last
            && last == name
        {
            return Ok(*site);
        }
        let site = match self.names.get(name) {
            Some(site) => *site,
            None => self.new_site(name)?,
        };
        self.last = Some((name.to_vec(), site));
        Ok(site)
    }

    fn new_site(&mut self, raw: &[u8]) -> Result<SiteId, Problem> {
        let Some(builder) = &mut self.builder else {
            return Ok(SiteId(0));
        };
        let text = String::from_utf8_lossy(raw);
        let name = self
            .options
            .rename
            .get(text.trim())
            .map_or(text.trim(), String::as_str);
        if let Some(sites) = &self.options.sites
            && sites.find(name).is_none()
        {
            return Err(Problem::UnknownSite {
                name: shown(name.as_bytes()),
                known: sites.names().collect::<Vec<_>>().join(", "),
            });
        }
        let site = builder.site(name).map_err(Problem::Site)?;
        if self.names.len() < NAMES_MAX {
            self.names.insert(raw.to_vec(), site);
        }
        Ok(site)
    }

    /// Sites that the file lists, which may have no reply.
    pub(super) fn list_site(&mut self, name: &str) -> Result<(), Problem> {
        if self.options.sites.is_none() {
            self.site(name.as_bytes())?;
        }
        Ok(())
    }

    /// The site of a file that names none.
    pub(super) fn site_of_file(&mut self, what: &'static str) -> Result<SiteId, Problem> {
        match &self.options.site {
            Some(name) => self.site(name.clone().as_bytes()),
            None if !self.wants_sites() => Ok(SiteId(0)),
            None => Err(Problem::NoSite { what }),
        }
    }

    /// Whether this announcement is the one that is wanted.
    pub(super) fn origin(&mut self, origin: Option<u32>) -> Result<bool, Problem> {
        match (self.origin, origin) {
            (_, None) => Ok(true),
            (None, Some(origin)) => {
                self.origin = Some(origin);
                Ok(true)
            }
            (Some(known), Some(origin)) if known == origin => Ok(true),
            (Some(_), Some(_)) if self.options.origin.is_some() => Ok(false),
            (Some(first), Some(second)) => Err(Problem::Origins { first, second }),
        }
    }

    /// Whether an address is of the service, if that is known.
    pub(super) fn is_service(&self, address: std::net::IpAddr) -> bool {
        let service: &[IpNet] = &self.options.service;
        service.is_empty() || service.iter().any(|net| net.contains(&address))
    }

    pub(super) fn reply(&mut self, block: Block, site: SiteId, rtt: Option<Rtt>) {
        self.replies(block, site, rtt, 1);
    }

    /// As many replies.
    pub(super) fn replies(&mut self, block: Block, site: SiteId, rtt: Option<Rtt>, times: u64) {
        self.report.replies += times;
        if let Some(builder) = &mut self.builder {
            builder.add_times(Reply { block, site, rtt }, times);
        }
    }

    pub(super) fn load(&mut self, block: Block, load: f64) -> bool {
        self.loaded = true;
        self.load.add(block, load)
    }

    pub(super) fn time(&mut self, seconds: u64) {
        let (first, last) = self.report.measured.unwrap_or((seconds, seconds));
        self.report.measured = Some((first.min(seconds), last.max(seconds)));
    }

    pub(super) fn no_site(&mut self, name: &str) {
        self.report.no_site += 1;
        let name = shown(name.as_bytes());
        let names = &mut self.report.no_site_names;
        if names.len() < BAD_SHOWN && !names.contains(&name) {
            names.push(name);
        }
    }
}
