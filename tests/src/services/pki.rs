//! A certificate authority of the tests, and what it signs.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use crate::Result;

/// A certificate and its private key, as PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificate alone: its issuer is a root.
    pub certificate: String,
    /// The key as unencrypted PKCS #8.
    pub key: String,
}

/// One certificate authority.
pub struct Pki {
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Pki {
    /// Makes a new authority with an ECDSA P-256 key.
    pub fn new(common_name: &str) -> Result<Self> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = named(common_name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(Self { authority: CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)? })
    }

    /// The root certificate as PEM.
    pub fn ca_pem(&self) -> String {
        self.authority.pem()
    }

    /// A server's certificate for DNS names and IP addresses.
    pub fn server(&self, names: &[&str]) -> Result<Identity> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut parameters = CertificateParams::new(names.clone())?;
        parameters.distinguished_name = named(&names[0]);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&parameters)
    }

    /// A client's certificate with one URI as its alternative name, if any.
    pub fn client(&self, common_name: &str, uri: Option<&str>) -> Result<Identity> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = named(common_name);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if let Some(uri) = uri {
            parameters.subject_alt_names.push(rcgen::SanType::URI(uri.try_into()?));
        }
        self.sign(&parameters)
    }

    fn sign(&self, parameters: &CertificateParams) -> Result<Identity> {
        let key = KeyPair::generate()?;
        let certificate = parameters.signed_by(&key, &self.authority)?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}
