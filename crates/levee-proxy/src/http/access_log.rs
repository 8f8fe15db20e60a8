//! The access log: one line for each request, written by a thread of its own.
//!
//! A worker appends to a buffer of its own ([`Lane`]); the writer takes the buffers some ten times a second and writes them
//! to the file. So a slow disk delays no request: a full buffer drops lines, and counts them. Lines of different workers
//! may stand in the file a moment out of order.
//!
//! What strangers send is cut at [`FIELD_BYTES_MAX`] and escaped: a line has no control byte, no byte beyond ASCII, and no
//! quote that it did not open, so that nobody forges a line or moves a terminal's cursor.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, SystemTime};

use super::settings::{AccessLogFormat, AccessLogSettings};
use crate::log::RateLimited;

/// Most bytes that wait in one lane: about 10,000 lines, a tenth of a second at 100,000 requests a second of one worker.
const LANE_BYTES_MAX: usize = 4 << 20;
/// How long lines are gathered before they are written.
const GATHER: Duration = Duration::from_millis(100);
/// Most bytes of one text that a stranger sent; longer ones end in `...`. nginx writes them whole, and 8 KiB targets fill disks.
pub const FIELD_BYTES_MAX: usize = 2_048;
/// Lines a second that say that the file cannot be written.
const ERRORS_PER_SECOND: u32 = 1;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decision {
    /// Nobody had to decide: not protected, no thinner, or no request at all.
    Passed,
    /// The thinner let it in.
    Admitted {
        /// Since its arrival.
        waited: Duration,
        /// What it paid, in the units of the mode.
        price: u64,
    },
    /// It was turned away.
    Refused {
        /// Why.
        cause: &'static str,
        /// What would have been enough, in the units of the mode.
        price: u64,
    },
}

/// A request, as the log tells it. Texts are as the client sent them.
#[derive(Clone, Copy, Debug)]
pub struct Line<'r> {
    /// When it arrived.
    pub at: SystemTime,
    /// The client, as trusted hops tell.
    pub client: IpAddr,
    /// The method; empty when the head could not be read.
    pub method: &'r [u8],
    /// The request target.
    pub target: &'r [u8],
    /// `HTTP/1.0`, `HTTP/1.1`, `HTTP/2.0`.
    pub version: &'static str,
    /// Of the Host field or `:authority`.
    pub host: &'r [u8],
    /// Of the Referer field.
    pub referer: &'r [u8],
    /// Of the User-Agent field.
    pub user_agent: &'r [u8],
    /// Of the answer; 0 when none was sent.
    pub status: u16,
    /// Bytes of the request's body that were read.
    pub bytes_in: u64,
    /// Bytes of the answer's body that were sent.
    pub bytes_out: u64,
    /// From the first byte of the request to the last of the answer.
    pub took: Duration,
    /// What became of it.
    pub decision: Decision,
}

/// An access log that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the access log {path}: check that its folder exists and can be written")]
pub struct AccessLogError {
    /// The file.
    pub path: PathBuf,
    /// What the system says.
    #[source]
    pub source: io::Error,
}

/// The access log of one front. Dropping it writes what is buffered.
#[derive(Debug)]
pub struct AccessLog {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

/// A worker's way to the log.
#[derive(Clone, Debug)]
pub struct Lane {
    front: Arc<str>,
    buffer: Arc<Mutex<Buffer>>,
    shared: Arc<Shared>,
    writer: Thread,
}

#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    lines: u64,
}

#[derive(Debug, Default)]
struct Shared {
    lanes: Mutex<Vec<Arc<Mutex<Buffer>>>>,
    /// Held while the disk works; no worker ever takes it.
    file: Mutex<Writer>,
    combined: AtomicBool,
    stop: AtomicBool,
    lines: AtomicU64,
    lost: AtomicU64,
}

impl AccessLog {
    /// Opens the file, behind what is in it, and starts the writer.
    ///
    /// # Errors
    ///
    /// The file cannot be opened.
    pub fn start(settings: &AccessLogSettings) -> Result<Self, AccessLogError> {
        let shared = Arc::new(Shared::default());
        let mut log = AccessLog {
            shared: Arc::clone(&shared),
            writer: None,
        };
        log.reload(settings)?;
        let spawned = thread::Builder::new()
            .name("levee-access-log".to_owned())
            .spawn(move || run(&shared));
        log.writer = Some(spawned.map_err(|source| fail(&settings.path, source))?);
        Ok(log)
    }

    /// A buffer for one worker of the front of this name.
    ///
    /// # Panics
    ///
    /// Never: the writer is there as long as the log is.
    #[must_use]
    pub fn lane(&self, front: &str) -> Lane {
        let buffer = Arc::<Mutex<Buffer>>::default();
        lock(&self.shared.lanes).push(Arc::clone(&buffer));
        let writer = self.writer.as_ref().expect("a log has a writer");
        Lane {
            front: front.into(),
            buffer,
            shared: Arc::clone(&self.shared),
            writer: writer.thread().clone(),
        }
    }

    /// Opens the file again, or another, and goes on with it: after logrotate has renamed the old one.
    ///
    /// What was logged before goes to the old file. When this returns nothing more does, so it may be compressed. It waits
    /// for the disk.
    ///
    /// # Errors
    ///
    /// It cannot be opened; the old one goes on.
    pub fn reload(&self, settings: &AccessLogSettings) -> Result<(), AccessLogError> {
        let file = open(&settings.path).map_err(|source| fail(&settings.path, source))?;
        let combined = settings.format == AccessLogFormat::Combined;
        let mut writer = lock(&self.shared.file);
        writer.drain_all(&self.shared);
        self.shared.combined.store(combined, Ordering::Relaxed);
        writer.file = Some((settings.path.clone(), file));
        Ok(())
    }

    /// Lines written so far.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.shared.lines.load(Ordering::Relaxed)
    }

    /// Lines lost so far: the disk was slower than the requests, or refused them.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(writer) = self.writer.take() {
            writer.thread().unpark();
            // A writer that panicked has nothing left to write.
            let _ = writer.join();
        }
    }
}

impl Lane {
    /// Appends a line, or counts it as lost where there is no room.
    pub fn write(&self, line: &Line<'_>) {
        let mut buffer = lock(&self.buffer);
        if buffer.bytes.len() >= LANE_BYTES_MAX {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let first = buffer.bytes.is_empty();
        if self.shared.combined.load(Ordering::Relaxed) {
            combined(&mut buffer.bytes, line);
        } else {
            json(&mut buffer.bytes, line, &self.front);
        }
        buffer.lines += 1;
        drop(buffer);
        if first {
            self.writer.unpark();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fail(path: &Path, source: io::Error) -> AccessLogError {
    AccessLogError {
        path: path.to_owned(),
        source,
    }
}

/// To append; readable by the owner and the group, as logrotate's `create` has it.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o640);
    options.open(path)
}

/// The file, and what is needed to write to it.
#[derive(Debug, Default)]
struct Writer {
    file: Option<(PathBuf, File)>,
    /// Swapped with a lane's, so that no lane is locked while the disk works.
    spare: Buffer,
    errors: Option<RateLimited>,
    elapsed: Duration,
}

/// The writer's thread.
fn run(shared: &Shared) {
    loop {
        let stop = shared.stop.load(Ordering::Acquire);
        let wrote = lock(&shared.file).drain_all(shared);
        if stop {
            return;
        }
        forget_dropped(shared);
        if wrote {
            thread::sleep(GATHER);
            lock(&shared.file).elapsed += GATHER;
        } else {
            thread::park();
        }
    }
}

impl Writer {
    /// Writes what all lanes hold; whether there was something.
    fn drain_all(&mut self, shared: &Shared) -> bool {
        let lanes = lock(&shared.lanes).clone();
        let mut wrote = false;
        for lane in &lanes {
            wrote |= self.drain(lane, shared);
        }
        wrote
    }

    /// Writes what a lane holds; whether there was something.
    fn drain(&mut self, lane: &Mutex<Buffer>, shared: &Shared) -> bool {
        std::mem::swap(&mut *lock(lane), &mut self.spare);
        let Buffer { bytes, lines } = std::mem::take(&mut self.spare);
        if lines == 0 {
            self.spare.bytes = bytes;
            return false;
        }
        match self.put(&bytes) {
            Ok(()) => _ = shared.lines.fetch_add(lines, Ordering::Relaxed),
            Err(error) => {
                shared.lost.fetch_add(lines, Ordering::Relaxed);
                self.complain(&error);
            }
        }
        self.spare.bytes = bytes;
        self.spare.bytes.clear();
        true
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.file {
            Some((_, file)) => file.write_all(bytes),
            None => Err(io::Error::other("no file is open yet")),
        }
    }

    fn complain(&mut self, error: &io::Error) {
        let errors = self
            .errors
            .get_or_insert_with(|| RateLimited::new(ERRORS_PER_SECOND));
        if errors.allow(self.elapsed, "access log").is_some() {
            let path = self.file.as_ref().map(|(path, _)| path.display());
            tracing::error!(path = path.map(tracing::field::display), %error, "the access log loses lines: it cannot be written");
        }
    }
}

/// Lanes whose worker is gone, and which are empty.
fn forget_dropped(shared: &Shared) {
    lock(&shared.lanes).retain(|lane| Arc::strong_count(lane) > 1 || !lock(lane).bytes.is_empty());
}

// Writing to a vector cannot fail, so the results of `write!` below say nothing.

/// Apache's and nginx's `combined`: client, time, request line, status, bytes, referer, user agent.
fn combined(out: &mut Vec<u8>, line: &Line<'_>) {
    let (date, time) = (Date::of(line.at), Clock::of(line.at));
    let _ = write!(
        out,
        "{} - - [{:02}/{}/{}:{:02}:{:02}:{:02} +0000] \"",
        line.client, date.day, MONTHS[date.month], date.year, time.hour, time.minute, time.second
    );
    if line.method.is_empty() {
        out.push(b'-');
    } else {
        hex_escaped(out, line.method);
        out.push(b' ');
        hex_escaped(out, line.target);
        let _ = write!(out, " {}", line.version);
    }
    let _ = write!(out, "\" {} {} \"", line.status, line.bytes_out);
    for (text, end) in [(line.referer, &b"\" \""[..]), (line.user_agent, b"\"\n")] {
        match text {
            [] => out.push(b'-'),
            text => hex_escaped(out, text),
        }
        out.extend_from_slice(end);
    }
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

fn json(out: &mut Vec<u8>, line: &Line<'_>, front: &str) {
    let (date, time) = (Date::of(line.at), Clock::of(line.at));
    let _ = write!(
        out,
        "{{\"time\":\"{}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z\",\"front\":\"",
        date.year,
        date.month + 1,
        date.day,
        time.hour,
        time.minute,
        time.second,
        time.millisecond
    );
    json_escaped(out, front.as_bytes());
    let _ = write!(out, "\",\"client\":\"{}\"", line.client);
    for (key, text) in [
        ("method", line.method),
        ("host", line.host),
        ("target", line.target),
        ("referer", line.referer),
        ("user_agent", line.user_agent),
    ] {
        let _ = write!(out, ",\"{key}\":\"");
        json_escaped(out, text);
        out.push(b'"');
    }
    let _ = write!(
        out,
        ",\"version\":\"{}\",\"status\":{},\"bytes_in\":{},\"bytes_out\":{},\"seconds\":{:.6},",
        line.version,
        line.status,
        line.bytes_in,
        line.bytes_out,
        line.took.as_secs_f64()
    );
    let _ = match line.decision {
        Decision::Passed => writeln!(out, "\"decision\":\"passed\"}}"),
        Decision::Admitted { waited, price } => writeln!(
            out,
            "\"decision\":\"admitted\",\"waited\":{:.6},\"price\":{price}}}",
            waited.as_secs_f64()
        ),
        Decision::Refused { cause, price } => writeln!(
            out,
            "\"decision\":\"refused\",\"cause\":\"{cause}\",\"price\":{price}}}"
        ),
    };
}

/// The part of a stranger's text that is written, and whether more follows.
fn cut(text: &[u8]) -> (&[u8], &'static [u8]) {
    match text.split_at_checked(FIELD_BYTES_MAX) {
        Some((head, rest)) if !rest.is_empty() => (head, b"..."),
        _ => (text, b""),
    }
}

/// As nginx: a quote, a backslash and what is no printable ASCII as `\xXX`.
fn hex_escaped(out: &mut Vec<u8>, text: &[u8]) {
    let (text, more) = cut(text);
    for byte in text {
        match byte {
            b'"' | b'\\' | ..=0x1f | 0x7f.. => _ = write!(out, "\\x{byte:02X}"),
            plain => out.push(*plain),
        }
    }
    out.extend_from_slice(more);
}

/// The inside of a JSON text, all ASCII; what is no UTF-8 becomes U+FFFD.
fn json_escaped(out: &mut Vec<u8>, text: &[u8]) {
    let (text, more) = cut(text);
    for chunk in text.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '"' | '\\' => out.extend_from_slice(&[b'\\', char as u8]),
                ' '..='~' => out.push(char as u8),
                other => {
                    for unit in other.encode_utf16(&mut [0; 2]) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice(b"\\ufffd");
        }
    }
    out.extend_from_slice(more);
}

/// A time of day in UTC.
struct Clock {
    hour: u64,
    minute: u64,
    second: u64,
    millisecond: u32,
}

impl Clock {
    fn of(at: SystemTime) -> Self {
        let since = since_1970(at);
        let second = since.as_secs();
        Clock {
            hour: second / 3_600 % 24,
            minute: second / 60 % 60,
            second: second % 60,
            millisecond: since.subsec_millis(),
        }
    }
}

/// A day of the Gregorian calendar; the month counts from 0.
#[derive(Debug, PartialEq, Eq)]
struct Date {
    year: u64,
    month: usize,
    day: u64,
}

impl Date {
    /// Counts in years that begin in March, so that a leap day is the last of its year.
    fn of(at: SystemTime) -> Self {
        const DAYS_OF_400_YEARS: u64 = 146_097;
        // From 1 March of the year 0 to 1 January 1970.
        const DAYS_BEFORE_1970: u64 = 719_468;
        let days = since_1970(at).as_secs() / 86_400 + DAYS_BEFORE_1970;
        let (era, day_of_era) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        // Five months from March have 153 days, again and again.
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = (month_from_march + 2) % 12;
        Date {
            year: era * 400 + year_of_era + u64::from(month < 2),
            month: usize::try_from(month).unwrap_or(0),
            day,
        }
    }
}

fn since_1970(at: SystemTime) -> Duration {
    at.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(seconds * 1_000 + 7)
    }

    fn line() -> Line<'static> {
        Line {
            at: at(1_796_046_258),
            client: "203.0.113.7".parse().unwrap(),
            method: b"GET",
            target: b"/a?b=c",
            version: "HTTP/1.1",
            host: b"example.net",
            referer: b"",
            user_agent: b"curl/8",
            status: 200,
            bytes_in: 3,
            bytes_out: 42,
            took: Duration::from_micros(1_234),
            decision: Decision::Passed,
        }
    }

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_day_is_that_of_the_calendar() {
        let day = |seconds: u64| {
            let date = Date::of(at(seconds));
            (date.year, date.month + 1, date.day)
        };
        for (seconds, expect) in [
            (0, (1970, 1, 1)),
            (951_782_399, (2000, 2, 28)),
            (951_782_400, (2000, 2, 29)),
            (951_868_800, (2000, 3, 1)),
            (1_735_689_599, (2024, 12, 31)),
            (1_735_689_600, (2025, 1, 1)),
            (4_107_542_400, (2100, 3, 1)),
            (253_402_300_799, (9999, 12, 31)),
        ] {
            assert_eq!(day(seconds), expect, "{seconds}");
        }
        // Each day follows the one before.
        let mut before = Date::of(at(0));
        for days in 1..100_000 {
            let next = Date::of(at(days * 86_400));
            let follows = (next.year, next.month, next.day)
                == (before.year, before.month, before.day + 1)
                || (next.year, next.month, next.day) == (before.year, before.month + 1, 1)
                || (next.year, next.month, next.day) == (before.year + 1, 0, 1);
            assert!(follows, "{next:?} after {before:?}");
            before = next;
        }
    }

    #[test]
    fn a_line_is_as_others_write_it() {
        let plain = line();
        assert_eq!(
            text(|out| combined(out, &plain)),
            "203.0.113.7 - - [30/Nov/2026:13:44:18 +0000] \"GET /a?b=c HTTP/1.1\" 200 42 \"-\" \"curl/8\"\n"
        );
        assert_eq!(
            text(|out| json(out, &plain, "web")),
            "{\"time\":\"2026-11-30T13:44:18.007Z\",\"front\":\"web\",\"client\":\"203.0.113.7\",\"method\":\"GET\",\
             \"host\":\"example.net\",\"target\":\"/a?b=c\",\"referer\":\"\",\"user_agent\":\"curl/8\",\
             \"version\":\"HTTP/1.1\",\"status\":200,\"bytes_in\":3,\"bytes_out\":42,\"seconds\":0.001234,\
             \"decision\":\"passed\"}\n"
        );
        let unread = Line {
            method: b"",
            status: 400,
            ..plain
        };
        assert!(text(|out| combined(out, &unread)).contains("] \"-\" 400 "));
    }

    #[test]
    fn a_decision_is_told_with_its_price() {
        for (decision, expect) in [
            (
                Decision::Admitted {
                    waited: Duration::from_millis(1_500),
                    price: 9,
                },
                "\"decision\":\"admitted\",\"waited\":1.500000,\"price\":9}\n",
            ),
            (
                Decision::Refused {
                    cause: "outbid",
                    price: 10,
                },
                "\"decision\":\"refused\",\"cause\":\"outbid\",\"price\":10}\n",
            ),
        ] {
            let line = Line { decision, ..line() };
            let written = text(|out| json(out, &line, "web"));
            assert!(written.ends_with(expect), "{written}");
            serde_json::from_str::<serde_json::Value>(&written).unwrap();
        }
    }

    /// Every byte in every place: the line stays one line of printable ASCII and reads back.
    #[test]
    fn a_stranger_cannot_forge_a_line() {
        let all: Vec<u8> = (0..=255).collect();
        let hostile = Line {
            method: &all,
            target: b"/\"} \r\n{\"client\":\"1.2.3.4\"\x1b[2J\xc2\x9b",
            host: "b\u{fc}cher.example \u{1f600}\u{202e}".as_bytes(),
            referer: &all,
            user_agent: &all,
            ..line()
        };
        for written in [
            text(|out| json(out, &hostile, "web")),
            text(|out| combined(out, &hostile)),
        ] {
            let inside = written.strip_suffix('\n').unwrap();
            assert!(inside.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        }
        let written = text(|out| json(out, &hostile, "web"));
        let read: serde_json::Value = serde_json::from_str(&written).unwrap();
        assert_eq!(read["client"], "203.0.113.7");
        assert_eq!(read["host"], "b\u{fc}cher.example \u{1f600}\u{202e}");
        assert_eq!(
            read["target"],
            "/\"} \r\n{\"client\":\"1.2.3.4\"\u{1b}[2J\u{9b}"
        );
        let combined = text(|out| combined(out, &hostile));
        assert_eq!(combined.matches('"').count(), 6, "{combined}");
    }

    #[test]
    fn a_long_text_is_cut_and_says_so() {
        let long = vec![b'a'; FIELD_BYTES_MAX + 1];
        for (length, ends) in [(FIELD_BYTES_MAX, "aa"), (FIELD_BYTES_MAX + 1, "a...")] {
            for escaped in [hex_escaped, json_escaped] {
                let written = text(|out| escaped(out, &long[..length]));
                assert!(written.ends_with(ends), "{length}");
                assert!(written.len() <= FIELD_BYTES_MAX + 3);
            }
        }
    }

    fn settings(path: &Path, format: AccessLogFormat) -> AccessLogSettings {
        AccessLogSettings {
            path: path.to_owned(),
            format,
        }
    }

    /// Waits for this many written lines.
    fn wait(log: &AccessLog, lines: u64) {
        let begun = Instant::now();
        while log.lines() < lines {
            assert!(begun.elapsed() < PATIENCE, "{log:?}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn lines_of_all_workers_are_written_and_the_file_can_be_rotated() {
        let folder = tempfile::tempdir().unwrap();
        let (path, rotated) = (folder.path().join("a.log"), folder.path().join("a.log.1"));
        let log = AccessLog::start(&settings(&path, AccessLogFormat::Json)).unwrap();
        let lanes = [log.lane("web"), log.lane("web")];
        thread::scope(|scope| {
            for lane in &lanes {
                scope.spawn(|| (0..500).for_each(|_| lane.write(&line())));
            }
        });
        // The writer has begun, and gathers now.
        wait(&log, 1);
        std::fs::rename(&path, &rotated).unwrap();
        log.reload(&settings(&path, AccessLogFormat::Combined))
            .unwrap();
        lanes[0].write(&line());
        // Dropping writes what is left.
        drop(log);
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        let (old, new) = (read(&rotated), read(&path));
        assert_eq!((old.lines().count(), new.lines().count()), (1_000, 1));
        assert!(old.lines().all(|line| line.starts_with('{')));
        assert!(new.starts_with("203.0.113.7 - - "), "{new}");
    }

    #[test]
    fn a_file_that_cannot_be_opened_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let absent = folder.path().join("absent/a.log");
        let log = AccessLog::start(&settings(&path, AccessLogFormat::Json)).unwrap();
        let error = log
            .reload(&settings(&absent, AccessLogFormat::Combined))
            .unwrap_err();
        assert!(error.to_string().contains("absent/a.log"), "{error}");
        log.lane("web").write(&line());
        drop(log);
        assert!(std::fs::read_to_string(&path).unwrap().starts_with('{'));
        assert!(AccessLog::start(&settings(&absent, AccessLogFormat::Json)).is_err());
    }

    #[test]
    fn a_full_lane_drops_lines_and_counts_them() {
        // A log whose writer never takes anything.
        let shared = Arc::<Shared>::default();
        let lane = Lane {
            front: "web".into(),
            buffer: Arc::default(),
            shared: Arc::clone(&shared),
            writer: thread::current(),
        };
        let bytes = text(|out| json(out, &line(), "web")).len();
        let fit = LANE_BYTES_MAX.div_ceil(bytes);
        for _ in 0..fit + 10 {
            lane.write(&line());
        }
        assert_eq!(shared.lost.load(Ordering::Relaxed), 10);
        assert_eq!(lock(&lane.buffer).lines, fit as u64);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn lines_that_the_disk_refuses_are_counted() {
        let log = AccessLog::start(&settings(Path::new("/dev/full"), AccessLogFormat::Json));
        let log = log.unwrap();
        log.lane("web").write(&line());
        let shared = Arc::clone(&log.shared);
        drop(log);
        assert_eq!(shared.lost.load(Ordering::Relaxed), 1);
        assert_eq!(shared.lines.load(Ordering::Relaxed), 0);
    }
}
