//! TLS of a listener: certificates from PEM files, the one that a client's server name asks for, HTTP/2 or 1.1 by ALPN.
//!
//! [`load`] reads everything or nothing, so a reload with a bad certificate keeps the old ones. TLS 1.2 and 1.3 with the
//! `ring` provider. No 0-RTT: a request in it can be replayed.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::settings::{CertificateFiles, TlsSettings};
use crate::config::read_text;

/// Longest PEM file. A chain has some kilobytes.
const PEM_BYTES_MAX: u64 = 1 << 20;
/// Most certificates of one listener (a guess; each handshake looks one up in a tree).
pub const CERTIFICATES_MAX: usize = 1_024;

/// A certificate that cannot be shown.
#[derive(Debug, thiserror::Error)]
#[error("{}: {found}", path.display())]
pub struct TlsError {
    /// Which of [`TlsSettings::certificates`].
    pub index: usize,
    /// Whether the key is wrong, not the certificate.
    pub of_key: bool,
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub found: String,
}

/// Reads the certificates and offers HTTP/2, if `h2`, and HTTP/1.1.
///
/// # Errors
///
/// A file cannot be read, or a certificate has not its key.
pub fn load(settings: &TlsSettings, h2: bool) -> Result<Arc<ServerConfig>, TlsError> {
    let certificates = Certificates::read(&settings.certificates)?;
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| certificates_unusable(settings, &error))?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(certificates));
    let offered: &[&[u8]] = if h2 {
        &[b"h2", b"http/1.1"]
    } else {
        &[b"http/1.1"]
    };
    config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
    // Tickets keep what is needed to resume at the client, so that returning clients take no memory here.
    config.ticketer =
        ring::Ticketer::new().map_err(|error| certificates_unusable(settings, &error))?;
    Ok(Arc::new(config))
}

fn certificates_unusable(settings: &TlsSettings, error: &rustls::Error) -> TlsError {
    let first = settings.certificates.first();
    TlsError {
        index: 0,
        of_key: false,
        path: first
            .map(|files| files.certificate.clone())
            .unwrap_or_default(),
        found: error.to_string(),
    }
}

/// What the client and we agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, also where the client said nothing.
    Http1,
    /// HTTP/2.
    Http2,
}

/// A handshake that did not come to its end; the cause is the value of a metric's label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeError {
    /// It took too long.
    TimedOut,
    /// The two have nothing in common, or the client broke off or speaks no TLS.
    Failed,
}

impl HandshakeError {
    /// The value of a metric's label.
    #[must_use]
    pub fn cause(self) -> &'static str {
        match self {
            HandshakeError::TimedOut => "tls_timed_out",
            HandshakeError::Failed => "tls_failed",
        }
    }
}

/// Shakes hands within `deadline`.
///
/// # Errors
///
/// It did not come to its end; the stream is closed.
pub async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
    config: &Arc<ServerConfig>,
    stream: S,
    deadline: Duration,
) -> Result<(TlsStream<S>, Protocol), HandshakeError> {
    let accept = TlsAcceptor::from(Arc::clone(config)).accept(stream);
    let stream = tokio::time::timeout(deadline, accept)
        .await
        .map_err(|_| HandshakeError::TimedOut)?
        .map_err(|_| HandshakeError::Failed)?;
    let protocol = match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => Protocol::Http2,
        _ => Protocol::Http1,
    };
    Ok((stream, protocol))
}

/// The certificates of a listener, by the names that they are for.
#[derive(Debug)]
struct Certificates {
    /// Shown where no name fits.
    first: Arc<CertifiedKey>,
    /// In lower case; `*.` names stand without the star, `.example.net`.
    by_name: BTreeMap<String, Arc<CertifiedKey>>,
}

impl Certificates {
    fn read(files: &[CertificateFiles]) -> Result<Self, TlsError> {
        let mut first = None;
        let mut by_name = BTreeMap::new();
        for (index, files) in files.iter().enumerate() {
            let key = Arc::new(read_certified(index, files)?);
            for name in names(&key) {
                // The first that is for a name is shown for it.
                by_name.entry(name).or_insert_with(|| Arc::clone(&key));
            }
            first.get_or_insert(key);
        }
        let first = first.ok_or_else(|| TlsError {
            index: 0,
            of_key: false,
            path: PathBuf::new(),
            found: "there is no certificate".to_owned(),
        })?;
        Ok(Certificates { first, by_name })
    }

    /// The certificate for this name: its own, else that of the wildcard in the place of its first label.
    fn find(&self, name: &str) -> &Arc<CertifiedKey> {
        let name = name.to_ascii_lowercase();
        let wildcard = name.find('.').and_then(|dot| name.get(dot..));
        self.by_name
            .get(&name)
            .or_else(|| self.by_name.get(wildcard?))
            .unwrap_or(&self.first)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(
            hello
                .server_name()
                .map_or(&self.first, |name| self.find(name)),
        ))
    }
}

/// The DNS names that a certificate is for. One that cannot be read for names can still be the first.
fn names(key: &CertifiedKey) -> Vec<String> {
    let of = |der| webpki::EndEntityCert::try_from(der).ok();
    let Some(certificate) = key.cert.first().and_then(of) else {
        return Vec::new();
    };
    let plain = |name: &str| name.strip_prefix('*').unwrap_or(name).to_ascii_lowercase();
    certificate.valid_dns_names().map(plain).collect()
}

fn read_certified(index: usize, files: &CertificateFiles) -> Result<CertifiedKey, TlsError> {
    let fail = |path: &Path, of_key, found: String| TlsError {
        index,
        of_key,
        path: path.to_owned(),
        found,
    };
    let (certificate, key) = (&files.certificate, &files.key);
    let text = read_text(certificate, PEM_BYTES_MAX)
        .map_err(|error| fail(certificate, false, unread(&error)))?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(text.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| fail(certificate, false, damaged(&error)))?;
    if chain.is_empty() {
        let found = "it has no `BEGIN CERTIFICATE`".to_owned();
        return Err(fail(certificate, false, found));
    }
    let text = read_text(key, PEM_BYTES_MAX).map_err(|error| fail(key, true, unread(&error)))?;
    let secret = match PrivateKeyDer::from_pem_slice(text.as_bytes()) {
        Err(pem::Error::NoItemsFound) => {
            let found = "it has no `BEGIN PRIVATE KEY`, `BEGIN RSA PRIVATE KEY` or `BEGIN EC PRIVATE KEY`; an encrypted key must be decrypted first";
            return Err(fail(key, true, found.to_owned()));
        }
        other => other.map_err(|error| fail(key, true, damaged(&error)))?,
    };
    let signer = ring::default_provider()
        .key_provider
        .load_private_key(secret)
        .map_err(|error| fail(key, true, format!("a key that cannot sign: {error}")))?;
    let certified = CertifiedKey::new(chain, signer);
    match certified.keys_match() {
        // Some keys do not tell their public half; the client will.
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(rustls::Error::InconsistentKeys(_)) => {
            let found = format!("it is not the key of {}", certificate.display());
            Err(fail(key, true, found))
        }
        Err(error) => Err(fail(
            certificate,
            false,
            format!("its first certificate cannot be read: {error}"),
        )),
    }
}

fn unread(error: &io::Error) -> String {
    format!("cannot be read: {error}")
}

fn damaged(error: &pem::Error) -> String {
    format!("it is no PEM: {error}")
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use tokio_rustls::TlsConnector;

    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            Folder(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        /// Writes a self-signed certificate for these names, and its key.
        fn certificate(&self, file: &str, names: &[&str]) -> CertificateFiles {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            let made = rcgen::generate_simple_self_signed(names).unwrap();
            let files = CertificateFiles {
                certificate: self.path(&format!("{file}.pem")),
                key: self.path(&format!("{file}.key")),
            };
            std::fs::write(&files.certificate, made.cert.pem()).unwrap();
            std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
            files
        }
    }

    fn settings(certificates: &[CertificateFiles]) -> TlsSettings {
        TlsSettings {
            certificates: certificates.to_vec(),
        }
    }

    /// A client that trusts the certificates of these files.
    fn client(trusts: &[&CertificateFiles], alpn: &[&[u8]]) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        for files in trusts {
            let text = std::fs::read(&files.certificate).unwrap();
            roots
                .add(CertificateDer::from_pem_slice(&text).unwrap())
                .unwrap();
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Arc::new(config).into()
    }

    const DEADLINE: Duration = Duration::from_secs(10);

    /// Connects with this server name; what the client was shown, and what was agreed on.
    async fn connect(
        config: &Arc<ServerConfig>,
        client: &TlsConnector,
        name: &str,
    ) -> Result<Protocol, HandshakeError> {
        let (ours, theirs) = tokio::io::duplex(65_536);
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let (server, client) = tokio::join!(
            handshake(config, ours, DEADLINE),
            client.connect(name, theirs)
        );
        server
            .map(|(_, protocol)| protocol)
            .and_then(|protocol| client.map(|_| protocol).map_err(|_| HandshakeError::Failed))
    }

    #[tokio::test]
    async fn the_protocol_is_agreed_on() {
        let folder = Folder::new();
        let files = folder.certificate("a", &["example.net"]);
        let both = load(&settings(std::slice::from_ref(&files)), true).unwrap();
        let only_1 = load(&settings(std::slice::from_ref(&files)), false).unwrap();
        let offers: [&[&[u8]]; 3] = [&[b"h2", b"http/1.1"], &[b"http/1.1"], &[]];
        for (offer, with_h2) in
            offers
                .into_iter()
                .zip([Protocol::Http2, Protocol::Http1, Protocol::Http1])
        {
            let client = client(&[&files], offer);
            assert_eq!(connect(&both, &client, "example.net").await, Ok(with_h2));
            assert_eq!(
                connect(&only_1, &client, "example.net").await,
                Ok(Protocol::Http1)
            );
        }
        // A client that wants nothing that is offered is told so (RFC 7301 section 3.2).
        let other = client(&[&files], &[b"gopher"]);
        assert_eq!(
            connect(&both, &other, "example.net").await,
            Err(HandshakeError::Failed)
        );
    }

    #[tokio::test]
    async fn a_client_is_shown_the_certificate_for_its_name() {
        let folder = Folder::new();
        let first = folder.certificate("first", &["first.example"]);
        let second = folder.certificate("second", &["second.example", "*.Wild.example"]);
        let third = folder.certificate("third", &["exact.wild.example"]);
        let config = load(
            &settings(&[first.clone(), second.clone(), third.clone()]),
            true,
        )
        .unwrap();
        for (name, shown) in [
            ("first.example", &first),
            ("second.example", &second),
            ("a.wild.example", &second),
            ("EXACT.wild.example", &third),
        ] {
            // The client trusts the expected one alone.
            let client = client(&[shown], &[]);
            assert_eq!(
                connect(&config, &client, name).await,
                Ok(Protocol::Http1),
                "{name}"
            );
        }
        // Neither an unknown name nor one with two labels in the star's place has one of its own.
        let of = |name: &str| {
            Certificates::read(&[first.clone(), second.clone()])
                .map(|all| Arc::ptr_eq(all.find(name), &all.first))
        };
        for name in [
            "other.example",
            "a.b.wild.example",
            "wild.example",
            "nodots",
        ] {
            assert!(of(name).unwrap(), "{name}");
        }
    }

    #[test]
    fn a_bad_file_is_named_with_what_is_wrong() {
        let folder = Folder::new();
        let good = folder.certificate("good", &["a.example"]);
        let other = folder.certificate("other", &["b.example"]);
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path(name), text).unwrap();
            folder.path(name)
        };
        let empty = write("empty", "");
        let cut = write("cut", "-----BEGIN CERTIFICATE-----\nAAAA\n");
        let noise = write(
            "noise",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        );
        let with = |certificate: &Path, key: &Path| CertificateFiles {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
        };
        let absent = folder.path("absent");
        for (files, of_key, path, says) in [
            (with(&absent, &good.key), false, &absent, "cannot be read"),
            (with(&empty, &good.key), false, &empty, "BEGIN CERTIFICATE"),
            (with(&cut, &good.key), false, &cut, "no PEM"),
            (with(&noise, &good.key), false, &noise, "first certificate"),
            (
                with(&good.certificate, &absent),
                true,
                &absent,
                "cannot be read",
            ),
            (
                with(&good.certificate, &good.certificate),
                true,
                &good.certificate,
                "BEGIN PRIVATE KEY",
            ),
            (
                with(&good.certificate, &other.key),
                true,
                &other.key,
                "not the key of",
            ),
        ] {
            let error = load(&settings(&[good.clone(), files]), true).unwrap_err();
            assert_eq!((error.index, error.of_key), (1, of_key), "{error}");
            assert_eq!(&error.path, path, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
        assert!(load(&settings(&[]), true).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_silent_or_speaks_no_tls_is_cut() {
        use tokio::io::AsyncWriteExt as _;
        let folder = Folder::new();
        let config = load(&settings(&[folder.certificate("a", &["a.example"])]), true).unwrap();
        let (ours, theirs) = tokio::io::duplex(65_536);
        let error = handshake(&config, ours, DEADLINE).await.unwrap_err();
        assert_eq!(error.cause(), "tls_timed_out");
        drop(theirs);
        let (ours, mut theirs) = tokio::io::duplex(65_536);
        theirs.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let error = handshake(&config, ours, DEADLINE).await.unwrap_err();
        assert_eq!(error.cause(), "tls_failed");
    }
}
