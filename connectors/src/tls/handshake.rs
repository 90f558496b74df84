//! The handshake, and a closed list of reasons why there is no TLS.

use std::{error::Error as StdError, io, sync::Arc};

use rustls::{AlertDescription, CertificateError, ClientConfig, Error};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::sampler::SampleError;

const CLOSED: &str = "the server closed the connection; does this port speak TLS?";

/// A handshake with `host`, which is a DNS name or an IP address without brackets. The caller has the deadline.
pub async fn connect(
    stream: TcpStream,
    host: &str,
    config: &Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>, SampleError> {
    // A name's last dot is DNS's, not the certificate's.
    let name = ServerName::try_from(host.strip_suffix('.').unwrap_or(host).to_owned())
        .map_err(|_| SampleError::Tls("the host is neither a DNS name nor an IP address", None))?;
    TlsConnector::from(config.clone()).connect(name, stream).await.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => SampleError::Tls(CLOSED, Some(error.into())),
        _ => io_failure(error),
    })
}

/// What an I/O error of a TLS stream means. In TLS 1.3 a server refuses a client's certificate only after the handshake,
/// so that the first read finds out.
pub fn io_failure(error: io::Error) -> SampleError {
    match failure(&error) {
        Some(reason) => SampleError::Tls(reason, Some(error.into())),
        None => SampleError::Unreachable(Some(error.into())),
    }
}

/// The reason, if TLS is at the root of `error`.
pub(crate) fn failure(error: &(dyn StdError + 'static)) -> Option<&'static str> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<Error>() {
            return Some(reason(error));
        }
        // An I/O error's source is the source of the error in it, and not that error.
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = inner.map(|inner| inner as &(dyn StdError + 'static)).or_else(|| error.source());
    }
    None
}

fn reason(error: &Error) -> &'static str {
    match error {
        Error::InvalidCertificate(error) => certificate_reason(error),
        Error::AlertReceived(alert) => alert_reason(*alert),
        Error::InvalidMessage(_) => "the server does not speak TLS on this port",
        Error::PeerIncompatible(_) => "the server has no TLS version or cipher in common",
        Error::NoCertificatesPresented => "the server showed no certificate",
        _ => "the server broke the protocol",
    }
}

fn certificate_reason(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "the server's certificate has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet"
        }
        CertificateError::UnknownIssuer => "the server's certificate has an unknown issuer; give it as ca",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the server's certificate is for another name"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the server's certificate is not one for servers"
        }
        _ => "the server's certificate is not valid",
    }
}

fn alert_reason(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::CertificateRequired => "the server wants a client certificate",
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied => "the server refused the client's certificate",
        AlertDescription::UnrecognisedName => "the server does not know this host name",
        _ => "the server refused the handshake",
    }
}
