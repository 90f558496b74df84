//! Credentials in a directory: `<root>/<namespace>/<name>/<key>`, or `<root>/<cluster>/<namespace>/<name>/<key>`.
//!
//! Invariants:
//! - What was read for one tenant is kept under that tenant, and answers no other.
//! - No copy older than [`FRESH`] answers; a credential that is gone or spoilt leaves no copy behind.
//! - Files are read off the runtime's own threads, one credential of a tenant at a time and under a deadline: a mount
//!   that hangs costs the tenant whose it is, and at most one thread of [`READS`].

mod files;

use std::{
    collections::HashMap,
    fmt, io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tidegate_connectors::{
    clock::{BootInstant, SharedClock},
    credentials::{CredentialName, Credentials, is_dns_label},
    tenant::TenantId,
};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

use self::files::Problem;
use super::{Content, CredentialError, Provider};

/// How old a copy may be. With the deadline of a read, a change is seen within 12 s.
const FRESH: Duration = Duration::from_secs(10);

/// How long a read may take, waiting for its turn included.
const DEADLINE: Duration = Duration::from_secs(2);

/// A copy that nobody asked for this long is dropped.
const IDLE: Duration = Duration::from_secs(600);

/// How often idle copies are looked for.
const SWEEP: Duration = Duration::from_secs(60);

/// Reads in progress, of all tenants; well under tokio's 512 blocking threads, which resolve host names too.
const READS: usize = 64;

/// What reads one credential; a test puts a slow one here.
trait Source: Send + Sync + 'static {
    fn read(&self, tenant: &TenantId, name: &CredentialName) -> Result<Credentials, Problem>;
}

/// Whether the first level of the directory is a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `<root>/<namespace>/<name>/<key>`.
    OneCluster,
    /// `<root>/<cluster>/<namespace>/<name>/<key>`.
    ManyClusters,
}

/// A directory of credentials.
pub struct Directory {
    source: Arc<dyn Source>,
    clock: SharedClock,
    reads: Arc<Semaphore>,
    tenants: Mutex<Tenants>,
}

#[derive(Default)]
struct Tenants {
    known: HashMap<TenantId, Arc<Tenant>>,
    swept: BootInstant,
}

struct Tenant {
    /// The one who has the permit reads.
    turn: Arc<Semaphore>,
    copies: Mutex<HashMap<CredentialName, Remembered>>,
}

struct Remembered {
    content: Arc<Credentials>,
    read: BootInstant,
    asked: BootInstant,
}

impl Directory {
    /// The credentials under `root`, which must be there, on a system that can confine a look-up to it.
    pub fn open(root: PathBuf, layout: Layout, clock: SharedClock) -> io::Result<Self> {
        files::check(&root)?;
        Ok(Self::new(Arc::new(Root { root, layout }), clock))
    }

    fn new(source: Arc<dyn Source>, clock: SharedClock) -> Self {
        Self { source, clock, reads: Arc::new(Semaphore::new(READS)), tenants: Mutex::default() }
    }

    async fn current(&self, id: &TenantId, name: &CredentialName) -> Content {
        let now = self.clock.boot();
        let tenant = self.tenant(id, now);
        if let Some(content) = tenant.fresh(name, now) {
            return Ok(content);
        }
        timeout(DEADLINE, self.read(id, &tenant, name)).await.unwrap_or_else(|_elapsed| {
            Err(CredentialError::Unusable { name: name.clone(), problem: "reading it takes too long" })
        })
    }

    async fn read(&self, id: &TenantId, tenant: &Tenant, name: &CredentialName) -> Content {
        const OPEN: &str = "these semaphores are never closed";
        let turn = tenant.turn.clone().acquire_owned().await.expect(OPEN);
        let read = self.reads.clone().acquire_owned().await.expect(OPEN);
        let now = self.clock.boot();
        if let Some(content) = tenant.fresh(name, now) {
            return Ok(content);
        }
        let (source, id, named) = (self.source.clone(), id.clone(), name.clone());
        // The permits go along: a read that outlives this call still counts, and nobody starts a second one beside it.
        let reading = spawn_blocking(move || (source.read(&id, &named), (turn, read)));
        match reading.await {
            Ok((content, _permits)) => tenant.remember(name, content, now),
            Err(_panicked) => tenant.remember(name, Err(Problem::Unusable("it cannot be read")), now),
        }
    }

    fn tenant(&self, id: &TenantId, now: BootInstant) -> Arc<Tenant> {
        let mut tenants = locked(&self.tenants);
        if now.since(tenants.swept) >= SWEEP {
            tenants.swept = now;
            tenants.known.retain(|_, tenant| tenant.forget_idle(now) || Arc::strong_count(tenant) > 1);
        }
        tenants.known.entry(id.clone()).or_insert_with(|| Arc::new(Tenant::new())).clone()
    }
}

impl Provider for Directory {
    fn get<'a>(&'a self, tenant: &'a TenantId, name: &'a CredentialName) -> BoxFuture<'a, Content> {
        Box::pin(self.current(tenant, name))
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory").finish_non_exhaustive()
    }
}

impl Tenant {
    fn new() -> Self {
        Self { turn: Arc::new(Semaphore::new(1)), copies: Mutex::default() }
    }

    /// The copy of `name`, if it is young enough to answer.
    fn fresh(&self, name: &CredentialName, now: BootInstant) -> Option<Arc<Credentials>> {
        let mut copies = locked(&self.copies);
        let copy = copies.get_mut(name)?;
        copy.asked = now;
        (now.since(copy.read) < FRESH).then(|| copy.content.clone())
    }

    /// Keeps what a read that began at `read` found; the same content stays the same `Arc`.
    fn remember(&self, name: &CredentialName, found: Result<Credentials, Problem>, read: BootInstant) -> Content {
        let mut copies = locked(&self.copies);
        let found = match found {
            Ok(found) => found,
            Err(problem) => {
                copies.remove(name);
                return Err(problem.of(name));
            }
        };
        let content = match copies.remove(name) {
            Some(copy) if *copy.content == found => copy.content,
            _ => Arc::new(found),
        };
        copies.insert(name.clone(), Remembered { content: content.clone(), read, asked: read });
        Ok(content)
    }

    /// Drops the copies that nobody asked for; `false` if nothing is left, not even a read in progress.
    fn forget_idle(&self, now: BootInstant) -> bool {
        let mut copies = locked(&self.copies);
        copies.retain(|_, copy| now.since(copy.asked) < IDLE);
        !copies.is_empty() || self.turn.available_permits() == 0
    }
}

impl Problem {
    fn of(self, name: &CredentialName) -> CredentialError {
        match self {
            Self::NotFound => CredentialError::NotFound(name.clone()),
            Self::Unusable(problem) => CredentialError::Unusable { name: name.clone(), problem },
        }
    }
}

/// The real source.
struct Root {
    root: PathBuf,
    layout: Layout,
}

impl Source for Root {
    fn read(&self, tenant: &TenantId, name: &CredentialName) -> Result<Credentials, Problem> {
        let levels = match self.layout {
            Layout::OneCluster => vec![&*tenant.namespace, name.as_str()],
            Layout::ManyClusters => vec![&*tenant.cluster, &*tenant.namespace, name.as_str()],
        };
        if !levels.iter().all(|level| is_dns_label(level)) {
            return Err(Problem::NotFound);
        }
        files::read(&self.root, &levels.iter().collect::<PathBuf>())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder panics")
}

#[cfg(test)]
mod tests;
