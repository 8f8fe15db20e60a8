//! A `levee run --json` of a test.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::levee;

/// How long anything may take before a test gives up; a failure, never a measure.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Running {
    child: Child,
    /// JSON log lines.
    logs: Receiver<serde_json::Value>,
    /// The configuration; its folder is the test's own.
    pub(super) config: PathBuf,
    /// The listeners that the program told of, in its order.
    pub(super) listens: Vec<String>,
    pub(super) admin: String,
    _folder: tempfile::TempDir,
}

impl Running {
    /// Runs this configuration, with `log.format = "json"`, so many listeners and an admin page. `{folder}` in it is a folder of the test's own, which `prepare` fills.
    pub(super) fn start(
        text: &str,
        listeners: usize,
        prepare: impl FnOnce(&std::path::Path),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path());
        let config = folder.path().join("levee.toml");
        let (sender, logs) = channel();
        write(&config, text);
        let mut child = levee()
            .args(["run", "--json"])
            .arg(&config)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let json = serde_json::from_str(&line).unwrap_or(serde_json::Value::String(line));
                if sender.send(json).is_err() {
                    return;
                }
            }
        });
        let mut run = Running {
            child,
            logs,
            config,
            listens: Vec::new(),
            admin: String::new(),
            _folder: folder,
        };
        let address = |line: serde_json::Value| line["listen"].as_str().unwrap().to_owned();
        for _ in 0..listeners {
            let listen = address(run.log("listens"));
            run.listens.push(listen);
        }
        run.admin = address(run.log("the admin page listens"));
        run
    }

    /// Writes the configuration anew.
    pub(super) fn write(&self, text: &str) {
        write(&self.config, text);
    }

    /// A file in the test's folder.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.config.with_file_name(name)
    }

    /// Waits for a line with this in its message.
    #[track_caller]
    pub(super) fn log(&self, says: &str) -> serde_json::Value {
        let mut seen = Vec::new();
        loop {
            match self.logs.recv_timeout(PATIENCE) {
                Ok(line)
                    if line["message"]
                        .as_str()
                        .is_some_and(|message| message.contains(says)) =>
                {
                    return line;
                }
                Ok(line) => seen.push(line),
                Err(error) => panic!("no line says {says:?} ({error}): {seen:#?}"),
            }
        }
    }

    pub(super) fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
    }

    pub(super) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.admin).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[track_caller]
    pub(super) fn metric(&self, series: &str) -> f64 {
        let text = self.get("/metrics");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {series} in {text}"))
            .parse()
            .unwrap()
    }

    /// Waits for the end; exit status and the document on standard output.
    pub(super) fn end(mut self) -> (Option<i32>, String) {
        let mut out = String::new();
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut out)
            .unwrap();
        (self.child.wait().unwrap().code(), out)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only after a failed assertion is it still there.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write(config: &PathBuf, text: &str) {
    let folder = config.parent().unwrap().display().to_string();
    fs::write(config, text.replace("{folder}", &folder)).unwrap();
}
