//! Writes down what a defence saw and decided, so that the same code can be asked again later.
//!
//! # The file
//!
//! `events.jsonl`: JSON, one object a line. The first is the [`Header`], with everything that a fresh machine needs. Then
//! come, in the order in which the machine met them,
//!
//! ```text
//! {"t":<ns>,"in":{…}}             an input
//! {"t":<ns>,"deadline":true}      a deadline that was handled
//! {"t":<ns>,"out":{…}}            an output, after the input or deadline that caused it
//! {"end":"stopped"}               the last line, with the reason
//! ```
//!
//! Callers and sources stand there as keyed hashes ([`levee_policy::selective::Identity`]), not as names.
//!
//! # What keeps a replay exact
//!
//! A recording starts with a fresh machine and has no gap. From this follows what happens at a limit:
//!
//! - The file reaches its bound: the recording ends there, and what comes after is only counted. A new recording can begin
//!   when the table is empty, for then a fresh machine is as good as the running one ([`Recorded::is_idle`]); the front makes one
//!   with a new seed and calls [`Recorder::restart`]. Old recordings are renamed `.1`, `.2` …, and the oldest is deleted.
//! - The disk is slower than the calls and the queue runs full: the recording ends as well. A gap would make it a lie.
//! - The process dies: the last line may be cut, and a replay says so.
//!
//! A thread of its own writes; the loop that decides calls only `try_send`.

mod format;
mod machine;
mod replay;
mod what_if;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use levee_policy::Time;
use levee_policy::selective::Selective;
use rand_core::SeedableRng as _;

pub use self::format::{EndReason, VERSION};
pub use self::machine::{Header, Recorded, ThinnerHeader, Word};
pub use self::replay::{Difference, End, ReplayError, Replayed, replay, replay_file};
pub use self::what_if::{FATES, Group, History, Outcome, RefusedBy, WhatIf};

/// Entries between the loop and the writer: half a second at 100,000 entries a second, about 5 MB.
const QUEUE_ENTRIES_MAX: usize = 65_536;
/// Of an earlier recording, enough for its header and the line after it.
const HEAD_BYTES_MAX: u64 = 2 << 20;
/// Kept free at the end of a file for the line that says why it ends.
const END_BYTES_MAX: u64 = 128;

/// Where the inputs and verdicts of the defence are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSettings {
    /// The file; see [the module](self) for the names that follow it.
    pub path: PathBuf,
    /// Most bytes in one file.
    pub bytes_max: u64,
    /// Most files kept.
    pub files: u32,
}

impl RecordSettings {
    /// Default of [`RecordSettings::bytes_max`]: about 300,000 arrivals.
    pub const BYTES_MAX_DEFAULT: u64 = 64 * 1024 * 1024;
    /// Default of [`RecordSettings::files`].
    pub const FILES_DEFAULT: u32 = 4;
}

/// The randomness of a recorded defence. A replay makes the same.
pub type PolicyRng = rand_pcg::Pcg64Mcg;

/// The random numbers of a defence with this seed.
pub fn policy_rng(seed: u64) -> PolicyRng {
    PolicyRng::seed_from_u64(seed)
}

/// A recording that cannot begin.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the recording {path}: check that its folder exists and can be written")]
pub struct RecordError {
    /// The file.
    pub path: PathBuf,
    /// What the system says.
    #[source]
    pub source: io::Error,
}

/// Writes one defence's recording.
#[derive(Debug)]
pub struct Recorder<M: Recorded = Selective> {
    settings: RecordSettings,
    /// Of the current recording: an older writer keeps its own until it is done.
    shared: Arc<Shared>,
    missed: Arc<AtomicU64>,
    recordings: u64,
    /// `None` once the recording has ended.
    sender: Option<SyncSender<Entry<M>>>,
    writer: Option<JoinHandle<()>>,
}

/// How a recording is doing.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RecorderStatus {
    /// Lines in the current file, the header included.
    pub lines: u64,
    /// Bytes in the current file.
    pub bytes: u64,
    /// Inputs, deadlines and outputs that no file holds.
    pub missed: u64,
    /// Recordings begun.
    pub recordings: u64,
    /// Why the current recording ended, if it did.
    pub ended: Option<EndReason>,
}

/// What the loop and the writer of one recording tell each other.
#[derive(Debug, Default)]
struct Shared {
    lines: AtomicU64,
    bytes: AtomicU64,
    /// Set with `ended`, to be read on the hot path.
    over: AtomicBool,
    ended: Mutex<Option<EndReason>>,
}

#[derive(Debug)]
enum Entry<M: Recorded> {
    Input(Time, M::Input),
    Deadline(Time),
    Output(Time, M::Output),
}

impl<M: Recorded> Recorder<M> {
    /// Begins a recording; a file of that name from earlier is kept as `.1`. To be called with a fresh machine.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn start(settings: &RecordSettings, header: M::Header) -> Result<Self, RecordError> {
        let fail = |source| RecordError {
            path: settings.path.clone(),
            source,
        };
        let file = create(settings).map_err(fail)?;
        let mut recorder = Recorder::unstarted(settings);
        recorder.begin(header, Ok(file)).map_err(fail)?;
        Ok(recorder)
    }

    fn unstarted(settings: &RecordSettings) -> Self {
        Recorder {
            settings: settings.clone(),
            shared: Arc::default(),
            missed: Arc::default(),
            recordings: 0,
            sender: None,
            writer: None,
        }
    }

    /// Takes note of an input, before the machine gets it.
    pub fn input(&mut self, at: Time, input: &M::Input) {
        self.send(|| Entry::Input(at, input.clone()));
    }

    /// Takes note of a deadline, before the machine handles it.
    pub fn deadline(&mut self, at: Time) {
        self.send(|| Entry::Deadline(at));
    }

    /// Takes note of an output.
    pub fn output(&mut self, at: Time, output: &M::Output) {
        self.send(|| Entry::Output(at, output.clone()));
    }

    /// Whether the recording has ended at a limit, and a new one may begin as soon as the table is empty.
    pub fn wants_restart(&self) -> bool {
        self.shared.over.load(Ordering::Relaxed)
            && self.settings.files > 1
            && self.shared.reason() != Some(EndReason::Failed)
    }

    /// Begins a new recording, for a machine that was made from `header` just now in place of an idle one.
    pub fn restart(&mut self, header: M::Header) {
        self.sender = None;
        // The new writer renames files, so it first waits for the old one to be done with them.
        let old = self.writer.take();
        if self.begin(header, Err(old)).is_err() {
            self.shared.end(EndReason::Failed);
        }
    }

    /// How it is doing.
    pub fn status(&self) -> RecorderStatus {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RecorderStatus {
            lines: read(&self.shared.lines),
            bytes: read(&self.shared.bytes),
            missed: read(&self.missed),
            recordings: self.recordings,
            ended: self.shared.reason(),
        }
    }

    /// Writes what is queued and the last line. Waits for the disk.
    pub fn finish(mut self) -> RecorderStatus {
        self.close();
        self.status()
    }

    fn close(&mut self) {
        self.sender = None;
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has left a file without its last line, which a replay reports.
            let _ = writer.join();
        }
    }

    fn begin(
        &mut self,
        header: M::Header,
        file: Result<File, Option<JoinHandle<()>>>,
    ) -> io::Result<()> {
        self.shared = Arc::default();
        self.recordings += 1;
        let (sender, entries) = sync_channel(QUEUE_ENTRIES_MAX);
        let (settings, shared, missed) = (
            self.settings.clone(),
            Arc::clone(&self.shared),
            Arc::clone(&self.missed),
        );
        let work = move || {
            let file = file.or_else(|old| {
                if let Some(old) = old {
                    let _ = old.join();
                }
                create(&settings)
            });
            let written = file
                .and_then(|file| write::<M>(file, &header, &entries, settings.bytes_max, &shared));
            match written {
                Ok(beyond) => _ = missed.fetch_add(beyond, Ordering::Relaxed),
                Err(error) => {
                    shared.end(EndReason::Failed);
                    tracing::error!(path = %settings.path.display(), %error, "the recording has ended: it cannot be written");
                }
            }
            // What was queued behind the end, until the loop sees it and lets go.
            missed.fetch_add(entries.iter().count() as u64, Ordering::Relaxed);
        };
        self.writer = Some(
            std::thread::Builder::new()
                .name("levee-recorder".to_owned())
                .spawn(work)?,
        );
        self.sender = Some(sender);
        Ok(())
    }

    fn send(&mut self, entry: impl FnOnce() -> Entry<M>) {
        if self.shared.over.load(Ordering::Relaxed) {
            self.sender = None;
        }
        let sent = self
            .sender
            .as_ref()
            .is_some_and(|sender| sender.try_send(entry()).is_ok());
        if !sent {
            self.missed.fetch_add(1, Ordering::Relaxed);
            if self.sender.take().is_some() {
                self.shared.end(EndReason::QueueFull);
            }
        }
    }
}

impl<M: Recorded> Drop for Recorder<M> {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// The first reason stays.
    fn end(&self, reason: EndReason) {
        lock(&self.ended).get_or_insert(reason);
        self.over.store(true, Ordering::Relaxed);
    }

    fn reason(&self) -> Option<EndReason> {
        *lock(&self.ended)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Renames the older recordings and creates a new file that only its owner can read.
fn create(settings: &RecordSettings) -> io::Result<File> {
    let keep = is_worth_keeping(&settings.path)?;
    let aged = |age: u32| {
        if age == 0 {
            settings.path.clone()
        } else {
            with_suffix(&settings.path, age)
        }
    };
    for age in (1..settings.files).rev().filter(|_| keep) {
        match fs::rename(aged(age - 1), aged(age)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(&settings.path)?;
    // Where a file cannot be locked, two programs on one path are the operator's to avoid.
    file.try_lock().ok();
    Ok(file)
}

/// Whether there is an earlier recording in which something happened. One that only begins and ends would push out a real
/// one at each start that fails.
fn is_worth_keeping(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        // A device or a folder is not to be renamed.
        Ok(what) if !what.is_file() => return Err(io::Error::other("it is there and is no file")),
        other => _ = other?,
    }
    let earlier = File::open(path)?;
    if matches!(earlier.try_lock(), Err(TryLockError::WouldBlock)) {
        return Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another program is writing it",
        ));
    }
    let mut lines = BufReader::new(earlier.take(HEAD_BYTES_MAX)).split(b'\n');
    let header = lines.next().transpose()?.unwrap_or_default();
    let second = lines.next().transpose()?.unwrap_or_default();
    // A file that is no recording is kept too: it is not ours to overwrite.
    let begun = replay::machine(&header).is_ok();
    let ended = format::is_end(&second);
    Ok(!begun || !(second.is_empty() || ended))
}

/// `events.jsonl` of age 2 is `events.jsonl.2`.
fn with_suffix(path: &Path, age: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{age}"));
    name.into()
}

/// Writes until the sender is gone or the bound is reached; returns how many entries it took and did not write.
fn write<M: Recorded>(
    file: File,
    header: &M::Header,
    entries: &Receiver<Entry<M>>,
    bytes_max: u64,
    shared: &Shared,
) -> io::Result<u64> {
    let mut file = BufWriter::new(file);
    let mut line = Vec::new();
    let mut beyond = 0;
    format::header_line(&mut line, header)?;
    put(&mut file, &line, shared)?;
    while let Some(entry) = next(entries, &mut file)? {
        format::entry_line(&mut line, &entry)?;
        let bytes = shared.bytes.load(Ordering::Relaxed) + line.len() as u64;
        if bytes + END_BYTES_MAX > bytes_max {
            shared.end(EndReason::Bound);
            beyond = 1;
            break;
        }
        put(&mut file, &line, shared)?;
    }
    shared.end(EndReason::Stopped);
    let reason = shared.reason().unwrap_or(EndReason::Stopped);
    if reason != EndReason::Stopped {
        let bytes = shared.bytes.load(Ordering::Relaxed);
        tracing::warn!(
            ?reason,
            bytes,
            "the recording has ended; what follows is only counted"
        );
    }
    format::end_line(&mut line, reason)?;
    put(&mut file, &line, shared)?;
    file.flush()?;
    Ok(beyond)
}

fn put(file: &mut impl Write, line: &[u8], shared: &Shared) -> io::Result<()> {
    file.write_all(line)?;
    shared.lines.fetch_add(1, Ordering::Relaxed);
    shared.bytes.fetch_add(line.len() as u64, Ordering::Relaxed);
    Ok(())
}

/// The next entry; before it waits for one, what is buffered goes to the file. `None` once the sender is gone.
fn next<E>(entries: &Receiver<E>, file: &mut impl Write) -> io::Result<Option<E>> {
    match entries.try_recv() {
        Ok(entry) => Ok(Some(entry)),
        Err(TryRecvError::Disconnected) => Ok(None),
        Err(TryRecvError::Empty) => {
            file.flush()?;
            Ok(entries.recv().ok())
        }
    }
}

#[cfg(test)]
mod tests;
