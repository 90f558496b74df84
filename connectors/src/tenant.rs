//! Whose trigger it is. Every key of every map starts with a [`TenantId`], so that no lookup can forget it.

use std::{fmt, sync::Arc};

/// A tenant: a namespace of a cluster. The cluster comes from the caller's certificate, never from metadata.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TenantId {
    /// `local` where the caller has no certificate.
    pub cluster: Arc<str>,
    /// A Kubernetes namespace, a DNS-1123 label.
    pub namespace: Arc<str>,
}

impl TenantId {
    /// A tenant of the cluster that callers without a certificate speak for.
    pub fn local(namespace: &str) -> Self {
        Self { cluster: "local".into(), namespace: namespace.into() }
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.cluster, self.namespace)
    }
}
