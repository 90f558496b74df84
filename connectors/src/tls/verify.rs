//! Who may be the server.

use std::sync::Arc;

use rustls::{
    DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// A server with a certificate that one of `roots`, of which there is at least one, stands for.
pub(super) fn issued_by(roots: RootCertStore, provider: &Arc<CryptoProvider>) -> Arc<dyn ServerCertVerifier> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .expect("there are roots, and no revocation lists that could be wrong")
}

/// A server that `first` or `second` accepts.
pub(super) fn either(
    first: Arc<dyn ServerCertVerifier>,
    second: Arc<dyn ServerCertVerifier>,
) -> Arc<dyn ServerCertVerifier> {
    Arc::new(Either { first, second })
}

/// A tenant's `ca` and the system's roots, without a copy of those for each tenant.
#[derive(Debug)]
struct Either {
    first: Arc<dyn ServerCertVerifier>,
    second: Arc<dyn ServerCertVerifier>,
}

impl ServerCertVerifier for Either {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.first.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now).or_else(|error| {
            self.second
                .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
                .map_err(|_| error)
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.first.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.first.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.first.supported_verify_schemes()
    }
}

/// `unsafeSsl`: any server, as long as it has the key of the certificate that it shows.
#[derive(Debug)]
pub(super) struct AnyCertificate(pub(super) Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
