use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use pkcs8::{LineEnding, PrivateKeyInfo, der::pem::PemLabel, pkcs5::pbes2};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd,
};
use rustls::{ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::PrivateKeyDer;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::{
    credentials::Credentials,
    metadata::{CredentialSource, Metadata},
    sampler::SampleError,
};

const EXPIRED: &str = "the server's certificate has expired";
const UNKNOWN: &str = "the server's certificate has an unknown issuer; give it as ca";
const OTHER_NAME: &str = "the server's certificate is for another name";
const WANTS_CERTIFICATE: &str = "the server wants a client certificate";
const REFUSED_CERTIFICATE: &str = "the server refused the client's certificate";

/// A certificate authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key, as PEM.
struct Leaf {
    certificate: String,
    key: KeyPair,
}

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        // A name of its own, so that no other authority is taken for it.
        parameters.distinguished_name.push(DnType::CommonName, BASE64.encode(key.public_key_raw()));
        let pem = parameters.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(parameters, key), pem }
    }

    fn issue(&self, name: &str, usage: ExtendedKeyUsagePurpose, years: std::ops::Range<i32>) -> Leaf {
        let mut parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
        parameters.extended_key_usages = vec![usage];
        parameters.not_before = date_time_ymd(years.start, 1, 1);
        parameters.not_after = date_time_ymd(years.end, 1, 1);
        let key = KeyPair::generate().unwrap();
        Leaf { certificate: parameters.signed_by(&key, &self.issuer).unwrap().pem(), key }
    }

    fn server(&self, name: &str) -> Leaf {
        self.issue(name, ExtendedKeyUsagePurpose::ServerAuth, 2000..4000)
    }

    fn client(&self) -> Leaf {
        self.issue("client", ExtendedKeyUsagePurpose::ClientAuth, 2000..4000)
    }

    fn trusted(&self) -> TlsSettings {
        TlsSettings { ca: Some(self.pem.as_str().into()), ..TlsSettings::default() }
    }
}

impl Leaf {
    fn identity(&self, key: &str, key_password: Option<&str>) -> Identity {
        Identity {
            certificate: self.certificate.as_str().into(),
            key: key.into(),
            key_password: key_password.map(SecretString::from),
        }
    }

    fn encrypted_key(&self, parameters: pbes2::Parameters<'_>, password: &str) -> String {
        let der = self.key.serialize_der();
        let document =
            PrivateKeyInfo::try_from(der.as_slice()).unwrap().encrypt_with_params(parameters, password).unwrap();
        document.to_pem(EncryptedPrivateKeyInfo::PEM_LABEL, LineEnding::LF).unwrap().to_string()
    }
}

type EncryptedPrivateKeyInfo = pkcs8::EncryptedPrivateKeyInfo<'static>;

/// A server that wants a certificate of `clients`, if that is given.
fn server(leaf: &Leaf, clients: Option<&Authority>) -> ServerConfig {
    let builder = ServerConfig::builder_with_provider(PROVIDER.clone()).with_safe_default_protocol_versions().unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let roots = Arc::new(roots(&clients.pem.as_str().into()).unwrap());
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, PROVIDER.clone()).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        }
    };
    let chain = certificates("cert", &leaf.certificate.as_str().into()).unwrap();
    builder.with_single_cert(chain, PrivateKeyDer::try_from(leaf.key.serialize_der()).unwrap()).unwrap()
}

/// A handshake with `host`, and one byte there and back.
async fn exchange(server: ServerConfig, settings: &TlsSettings, host: &str) -> Result<(), SampleError> {
    let config = settings.client_config().map_err(SampleError::Misconfigured)?;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = match TlsAcceptor::from(Arc::new(server)).accept(stream).into_fallible().await {
            Ok(stream) => stream,
            Err((_, stream)) => return Some(stream), // not dropped before the client has read the alert
        };
        let byte = stream.read_u8().await.unwrap();
        stream.write_u8(byte).await.unwrap();
        stream.shutdown().await.unwrap();
        None
    };
    let ask = async {
        let mut stream = connect(TcpStream::connect(address).await.unwrap(), host, &config).await?;
        stream.write_u8(7).await.map_err(io_failure)?;
        assert_eq!(stream.read_u8().await.map_err(io_failure)?, 7);
        Ok(())
    };
    tokio::join!(serve, ask).1
}

#[track_caller]
fn reason_of(result: Result<(), SampleError>) -> &'static str {
    match result {
        Ok(()) => "",
        Err(SampleError::Tls(reason, _)) => reason,
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_server_is_verified_against_ca_and_name() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let good = ours.server("broker.example");
    let expired = ours.issue("broker.example", ExtendedKeyUsagePurpose::ServerAuth, 2000..2001);
    let early = ours.issue("broker.example", ExtendedKeyUsagePurpose::ServerAuth, 3000..4000);
    let not_a_server = ours.issue("broker.example", ExtendedKeyUsagePurpose::ClientAuth, 2000..4000);
    let address = ours.server("127.0.0.1");
    let both = TlsSettings { ca: Some(format!("{}{}", theirs.pem, ours.pem).into()), ..TlsSettings::default() };
    let insecure = TlsSettings { insecure: true, ..TlsSettings::default() };
    for (leaf, settings, host, expected) in [
        (&good, &ours.trusted(), "broker.example", ""),
        (&good, &ours.trusted(), "BROKER.example.", ""),
        (&good, &both, "broker.example", ""),
        (&address, &ours.trusted(), "127.0.0.1", ""),
        (&good, &theirs.trusted(), "broker.example", UNKNOWN),
        (&good, &TlsSettings::default(), "broker.example", UNKNOWN),
        (&good, &ours.trusted(), "other.example", OTHER_NAME),
        (&good, &ours.trusted(), "127.0.0.1", OTHER_NAME),
        (&expired, &ours.trusted(), "broker.example", EXPIRED),
        (&early, &ours.trusted(), "broker.example", "the server's certificate is not valid yet"),
        (&not_a_server, &ours.trusted(), "broker.example", "the server's certificate is not one for servers"),
        (&good, &insecure, "other.example", ""),
        (&expired, &insecure, "127.0.0.1", ""),
    ] {
        assert_eq!(reason_of(exchange(server(leaf, None), settings, host).await), expected, "{host}");
    }
}

#[tokio::test]
async fn a_host_that_no_certificate_can_name() {
    let config = Authority::new().trusted().client_config().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let reason = reason_of(connect(stream, "not a name", &config).await.map(drop));
    assert_eq!(reason, "the host is neither a DNS name nor an IP address");
}

/// A server that shows a certificate whose key it does not have.
#[tokio::test]
async fn insecure_still_wants_the_key_of_the_certificate() {
    let authority = Authority::new();
    let (shown, owned) = (authority.server("broker.example"), authority.server("broker.example"));
    let chain = certificates("cert", &shown.certificate.as_str().into()).unwrap();
    let key = PrivateKeyDer::try_from(owned.key.serialize_der()).unwrap();
    let key = PROVIDER.key_provider.load_private_key(key).unwrap();
    let resolver = rustls::sign::SingleCertAndKey::from(rustls::sign::CertifiedKey::new(chain, key));
    let builder = ServerConfig::builder_with_provider(PROVIDER.clone()).with_safe_default_protocol_versions().unwrap();
    let server = builder.with_no_client_auth().with_cert_resolver(Arc::new(resolver));
    let insecure = TlsSettings { insecure: true, ..TlsSettings::default() };
    let result = exchange(server, &insecure, "broker.example").await;
    assert_eq!(reason_of(result), "the server's certificate is not valid");
}

#[tokio::test]
async fn a_client_shows_its_certificate() {
    let (servers, clients, others) = (Authority::new(), Authority::new(), Authority::new());
    let leaf = servers.server("broker.example");
    let (client, stranger) = (clients.client(), others.client());
    let with = |identity| TlsSettings { identity, ..servers.trusted() };
    for (identity, expected) in [
        (Some(client.identity(&client.key.serialize_pem(), None)), ""),
        (Some(client.identity(&client.key.serialize_pem(), Some("not needed"))), ""),
        (Some(stranger.identity(&stranger.key.serialize_pem(), None)), REFUSED_CERTIFICATE),
        (None, WANTS_CERTIFICATE),
    ] {
        let result = exchange(server(&leaf, Some(&clients)), &with(identity), "broker.example").await;
        assert_eq!(reason_of(result), expected);
    }
}

#[tokio::test]
async fn b28_a_port_without_tls() {
    let config = Authority::new().trusted().client_config().unwrap();
    for (reply, expected) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "the server does not speak TLS on this port"),
        (b"", "the server closed the connection; does this port speak TLS?"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_u8().await.unwrap();
            stream.write_all(reply).await.unwrap();
            stream.shutdown().await.unwrap();
            stream // not dropped before the client has read it
        };
        let ask = async { connect(TcpStream::connect(address).await.unwrap(), "broker.example", &config).await };
        let (_open, result) = tokio::join!(serve, ask);
        assert_eq!(reason_of(result.map(drop)), expected);
    }
}

fn sec1_pem(leaf: &Leaf) -> String {
    let der = leaf.key.serialize_der();
    let sec1 = PrivateKeyInfo::try_from(der.as_slice()).unwrap().private_key;
    format!("-----BEGIN EC PRIVATE KEY-----\n{}\n-----END EC PRIVATE KEY-----\n", BASE64.encode(sec1))
}

fn pbkdf2(iterations: u32) -> pbes2::Parameters<'static> {
    pbes2::Parameters::pbkdf2_sha256_aes256cbc(iterations, b"saltsalt", &[7; 16]).unwrap()
}

fn scrypt(log_cost: u8) -> pbes2::Parameters<'static> {
    let parameters = pkcs8::pkcs5::scrypt::Params::new(log_cost, 8, 1, 32).unwrap();
    pbes2::Parameters::scrypt_aes256cbc(parameters, b"saltsalt", &[7; 16]).unwrap()
}

#[test]
fn keys_come_in_many_forms() {
    let client = Authority::new().client();
    let by_pbkdf2 = client.encrypted_key(pbkdf2(2048), "hunter2");
    let by_scrypt = client.encrypted_key(scrypt(4), "hunter2");
    let too_dear = client.encrypted_key(scrypt(4), "hunter2");
    let too_dear = raise_scrypt_cost(&too_dear);
    let other = Authority::new().client().key.serialize_pem();
    for (name, key, password, expected) in [
        ("PKCS#8", client.key.serialize_pem().as_str(), None, None),
        ("SEC1", &sec1_pem(&client), None, None),
        ("PBKDF2", &by_pbkdf2, Some("hunter2"), None),
        ("scrypt", &by_scrypt, Some("hunter2"), None),
        ("CRLF", &by_pbkdf2.replace('\n', "\r\n"), Some("hunter2"), None),
        ("wrong password", &by_pbkdf2, Some("hunter3"), Some("keyPassword")),
        ("no password", &by_pbkdf2, None, Some("keyPassword")),
        ("scrypt of 1 TiB", &too_dear, Some("hunter2"), Some("key")),
        (
            "not base64",
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\n%\n-----END ENCRYPTED PRIVATE KEY-----",
            Some("x"),
            Some("key"),
        ),
        (
            "not DER",
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----",
            Some("x"),
            Some("key"),
        ),
        ("no PEM", "hunter2", None, Some("key")),
        ("a certificate", &client.certificate, None, Some("key")),
        ("another's", &other, None, Some("key")),
    ] {
        let settings = TlsSettings { identity: Some(client.identity(key, password)), insecure: true, ca: None };
        let error = settings.client_config().err();
        assert_eq!(error.as_ref().map(|error| error.key.as_ref()), expected, "{name}: {error:?}");
        assert!(!error.is_some_and(|error| error.to_string().contains("hunter")), "{name}");
    }
}

/// Rewrites scrypt's cost of 16 into 2^30 in the DER, whose lengths stay the same.
fn raise_scrypt_cost(pem: &str) -> String {
    let parameters = pkcs8::pkcs5::scrypt::Params::new(30, 8, 1, 32).unwrap();
    let expensive = pbes2::Parameters::scrypt_aes256cbc(parameters, b"saltsalt", &[7; 16]).unwrap();
    let (_, document) = pkcs8::SecretDocument::from_pem(pem).unwrap();
    let cheap = pkcs8::EncryptedPrivateKeyInfo::try_from(document.as_bytes()).unwrap();
    let key =
        pkcs8::EncryptedPrivateKeyInfo { encryption_algorithm: expensive.into(), encrypted_data: cheap.encrypted_data };
    let der = pkcs8::SecretDocument::encode_msg(&key).unwrap();
    der.to_pem(EncryptedPrivateKeyInfo::PEM_LABEL, LineEnding::LF).unwrap().to_string()
}

#[test]
fn too_many_pbkdf2_iterations_are_refused() {
    let client = Authority::new().client();
    let cheap = client.encrypted_key(pbkdf2(1), "hunter2");
    let (_, document) = pkcs8::SecretDocument::from_pem(&cheap).unwrap();
    let cheap = pkcs8::EncryptedPrivateKeyInfo::try_from(document.as_bytes()).unwrap();
    let dear = pkcs8::EncryptedPrivateKeyInfo {
        encryption_algorithm: pbkdf2(600_001).into(),
        encrypted_data: cheap.encrypted_data,
    };
    let dear = pkcs8::SecretDocument::encode_msg(&dear).unwrap();
    let dear = dear.to_pem(EncryptedPrivateKeyInfo::PEM_LABEL, LineEnding::LF).unwrap();
    let settings = TlsSettings { identity: Some(client.identity(&dear, Some("hunter2"))), insecure: true, ca: None };
    assert_eq!(settings.client_config().expect_err("refused").key, "key");
}

#[test]
fn certificates_that_cannot_be_read() {
    let authority = Authority::new();
    let client = authority.client();
    let no_certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for ca in ["", "hunter2", no_certificate, "-----BEGIN CERTIFICATE-----\n%", &client.key.serialize_pem()] {
        let settings = TlsSettings { ca: Some(ca.into()), ..TlsSettings::default() };
        assert_eq!(settings.client_config().expect_err("refused").key, "ca", "{ca}");
    }
    let mut identity = client.identity(&client.key.serialize_pem(), None);
    identity.certificate = "hunter2".into();
    let settings = TlsSettings { identity: Some(identity), insecure: true, ca: None };
    assert_eq!(settings.client_config().expect_err("refused").key, "cert");
}

#[test]
fn parameters_are_read() {
    let read = |values: &[(&str, &str)], complete: bool| {
        let metadata = Metadata::new([("unsafeSsl", "true")]);
        let values = values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let credentials = Credentials::new(values);
        let source = if complete { CredentialSource::Given(&credentials) } else { CredentialSource::Later };
        TlsSettings::read(Parameters::new(&metadata, source))
    };
    let all = read(&[("ca", "a"), ("cert", "b"), ("key", "c"), ("keyPassword", "d")], true).unwrap();
    let identity = all.identity.unwrap();
    assert_eq!(all.ca.unwrap().expose_secret(), "a");
    assert_eq!(identity.certificate.expose_secret(), "b");
    assert_eq!(identity.key.expose_secret(), "c");
    assert_eq!(identity.key_password.unwrap().expose_secret(), "d");
    assert!(all.insecure);
    assert_eq!(read(&[("cert", "b")], true).err().unwrap().key, "key");
    assert_eq!(read(&[("key", "c")], true).err().unwrap().key, "cert");
    assert!(read(&[], false).unwrap().identity.is_none());
}
