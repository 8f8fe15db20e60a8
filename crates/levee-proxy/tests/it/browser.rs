//! A headless Chromium, driven through chromedriver. WebDriver is JSON over HTTP (W3C WebDriver, Recommendation of 2018), and a
//! dozen of its commands are all that is needed here.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A browser that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// The key of an element in WebDriver's JSON (section 11 of the Recommendation).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with a fresh profile. Dropped, it and its driver end.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: TempDir,
}

/// How the browser is set up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Setup {
    pub(crate) no_script: bool,
    pub(crate) no_cookies: bool,
}

impl Browser {
    /// Starts one; its programs are Debian's `chromium` and `chromium-driver`.
    pub(crate) fn start(setup: Setup) -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver is installed: apt-get install chromium chromium-driver");
        let port = port_of(&mut driver);
        let mut browser = Browser {
            driver,
            port,
            session: String::new(),
            _profile: TempDir::new().unwrap(),
        };
        let blocked = |yes: bool| if yes { 2 } else { 1 };
        let profile = format!("--user-data-dir={}", browser._profile.path().display());
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            // A page that loads itself anew is never loaded: no command waits for it.
            "pageLoadStrategy": "none",
            "goog:chromeOptions": {
                "args": [
                    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                    "--disable-background-networking", "--disable-component-update", "--disable-sync", profile,
                ],
                "prefs": {
                    "profile.default_content_setting_values.javascript": blocked(setup.no_script),
                    "profile.default_content_setting_values.cookies": blocked(setup.no_cookies),
                },
            },
        }}});
        let session = browser.call("POST", "/session", &capabilities);
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        browser
    }

    /// Begins to load a page, and does not wait for it.
    pub(crate) fn go(&self, url: &str) {
        self.command("/url", &json!({"url": url}));
    }

    pub(crate) fn url(&self) -> String {
        self.read("/url")
    }

    pub(crate) fn title(&self) -> String {
        self.read("/title")
    }

    pub(crate) fn source(&self) -> String {
        self.read("/source")
    }

    /// Waits until the page has this title: how long it took.
    pub(crate) fn until_title(&self, title: &str, patience: Duration) -> Duration {
        let begun = Instant::now();
        loop {
            let found = self.title();
            if found == title {
                return begun.elapsed();
            }
            let (url, source) = (self.url(), self.source());
            assert!(
                begun.elapsed() < patience,
                "{title:?} did not come: {found:?} at {url}\n{source}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Clicks what this CSS selector finds first.
    pub(crate) fn click(&self, selector: &str) {
        let found = self.command(
            "/element",
            &json!({"using": "css selector", "value": selector}),
        );
        let element = found[ELEMENT].as_str().unwrap();
        self.command(&format!("/element/{element}/click"), &json!({}));
    }

    fn read(&self, path: &str) -> String {
        let path = format!("/session/{}{path}", self.session);
        self.call("GET", &path, &Value::Null)
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    fn command(&self, path: &str, body: &Value) -> Value {
        self.call("POST", &format!("/session/{}{path}", self.session), body)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.port,
            body.len()
        )
        .unwrap();
        let (head, body) = answer_of(stream);
        let mut value: Value =
            serde_json::from_str(&body).unwrap_or_else(|_| panic!("{head}\n{body}"));
        let value = value["value"].take();
        let error = value.get("error").and_then(Value::as_str);
        // A navigation that another one overtakes, as pages that load themselves anew do, is no failure.
        if let Some(error) = error.filter(|error| *error != "timeout") {
            panic!("{method} {path}: {error}: {}", value["message"]);
        }
        value
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.call(
                "DELETE",
                &format!("/session/{}", self.session),
                &Value::Null,
            );
        } else if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            // No second panic while the first is told.
            let _ = write!(
                stream,
                "DELETE /session/{} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
                self.session
            );
            let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
            let _ = stream.read(&mut [0; 1024]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// The head and the body of an answer. The driver keeps its connections, whatever it is asked.
fn answer_of(stream: TcpStream) -> (String, String) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(
            reader.read_line(&mut head).unwrap() > 0,
            "chromedriver answers: {head}"
        );
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().unwrap())
    });
    let mut body = vec![0; length.unwrap()];
    reader.read_exact(&mut body).unwrap();
    (head, String::from_utf8(body).unwrap())
}

/// The port that the driver says it listens on.
fn port_of(driver: &mut Child) -> u16 {
    let output = driver.stdout.take().unwrap();
    for line in BufReader::new(output).lines() {
        let line = line.unwrap();
        if let Some((_, port)) = line.split_once("started successfully on port ") {
            return port.trim_end_matches('.').parse().unwrap();
        }
    }
    panic!("chromedriver did not say where it listens");
}
