//! Where credentials come from: by tenant and name, from nowhere else.

mod directory;

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use tidegate_connectors::{
    credentials::{CredentialName, Credentials},
    tenant::TenantId,
};

pub use directory::{Directory, Layout};

/// Why a credential could not be read. The texts are safe for the tenant: they name the credential, no path, no content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// It is not there.
    #[error("credential {0} not found in this namespace")]
    NotFound(CredentialName),
    /// It is there, but not as a directory of small regular files under the root.
    #[error("credential {name} is not usable: {problem}")]
    Unusable {
        /// Which.
        name: CredentialName,
        /// Why.
        problem: &'static str,
    },
    /// The trigger names a credential, and this service has no provider.
    #[error("credentialsRef names credential {0}, but this service has no credentials provider")]
    NoProvider(CredentialName),
}

/// The content of a credential, or why there is none.
pub type Content = Result<Arc<Credentials>, CredentialError>;

/// Reads credentials.
pub trait Provider: Send + Sync + fmt::Debug + 'static {
    /// The current content of `name`. Answers from memory where it can: a poller asks before every poll. The same
    /// content is the same `Arc`, so that a caller sees a change by pointer.
    fn get<'a>(&'a self, tenant: &'a TenantId, name: &'a CredentialName) -> BoxFuture<'a, Content>;
}

/// No credentials at all.
#[derive(Debug)]
pub struct NoCredentials;

impl Provider for NoCredentials {
    fn get<'a>(&'a self, _tenant: &'a TenantId, name: &'a CredentialName) -> BoxFuture<'a, Content> {
        Box::pin(async { Err(CredentialError::NoProvider(name.clone())) })
    }
}
