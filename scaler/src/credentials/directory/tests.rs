//! A hostile directory, kubelet's directory, and a clock.

use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::SystemTime,
};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use secrecy::ExposeSecret;
use tidegate_connectors::clock::TokioClock;
use tokio::time::advance;

use super::*;

/// A root of its own for one test, gone at its end.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, below: &str) -> PathBuf {
        let path = self.0.join(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn write(&self, below: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(below), content).unwrap();
    }

    fn link(&self, below: &str, to: impl AsRef<Path>) {
        symlink(to, self.path(below)).unwrap();
    }

    fn directory(&self) -> Directory {
        self.laid_out(Layout::OneCluster)
    }

    fn laid_out(&self, layout: Layout) -> Directory {
        let clock = TokioClock::starting_at(SystemTime::UNIX_EPOCH);
        Directory::open(self.0.clone(), layout, Arc::new(clock)).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn name(name: &str) -> CredentialName {
    CredentialName::new(name).unwrap()
}

async fn get(directory: &Directory, namespace: &str, credential: &str) -> Content {
    directory.get(&TenantId::local(namespace), &name(credential)).await
}

fn value(content: &Content, key: &str) -> Option<String> {
    content.as_ref().unwrap().get(key).map(|secret| secret.expose_secret().to_owned())
}

/// Lays out `tenant-a/kafka`, and says why it is refused.
async fn refused(test: &str, lay_out: impl FnOnce(&Place)) -> String {
    let place = Place::new(test);
    place.write("tenant-b/kafka/password", "b's");
    place.write("outside", "nobody's");
    fs::create_dir_all(place.path("tenant-a/kafka")).unwrap();
    lay_out(&place);
    let error = get(&place.directory(), "tenant-a", "kafka").await.unwrap_err().to_string();
    error.strip_prefix("credential kafka ").unwrap_or(&error).to_owned()
}

#[tokio::test]
async fn values_are_trimmed_and_what_is_no_key_is_not_there() {
    let place = Place::new("values");
    place.write("tenant-a/kafka/username", " alice\n");
    place.write("tenant-a/kafka/.dotted-key_1", "dotted");
    place.write("tenant-a/kafka/blank", " \n");
    place.write("tenant-a/kafka/two words", "no");
    place.write("tenant-a/kafka/..hidden", "no");
    place.link("tenant-a/kafka/alias", "username");
    let content = get(&place.directory(), "tenant-a", "kafka").await;
    for (key, expected) in [
        ("username", Some("alice")),
        (".dotted-key_1", Some("dotted")),
        ("alias", Some("alice")),
        ("blank", None),
        ("two words", None),
        ("..hidden", None),
    ] {
        assert_eq!(value(&content, key).as_deref(), expected, "{key}");
    }
}

#[tokio::test]
async fn a_credential_is_its_own_tenants_and_its_own_clusters() {
    let place = Place::new("tenants");
    place.write("local/tenant-a/kafka/password", "local a");
    place.write("plane-7/tenant-a/kafka/password", "plane-7 a");
    let directory = place.laid_out(Layout::ManyClusters);
    let other = TenantId { cluster: "plane-7".into(), namespace: "tenant-a".into() };
    let contents = [get(&directory, "tenant-a", "kafka").await, directory.get(&other, &name("kafka")).await];
    assert_eq!(value(&contents[0], "password").as_deref(), Some("local a"));
    assert_eq!(value(&contents[1], "password").as_deref(), Some("plane-7 a"));
    assert_eq!(get(&directory, "tenant-b", "kafka").await, Err(CredentialError::NotFound(name("kafka"))));
}

#[tokio::test]
async fn equal_content_of_two_tenants_is_not_shared() {
    let place = Place::new("equal");
    place.write("tenant-a/kafka/password", "same");
    place.write("tenant-b/kafka/password", "same");
    let directory = place.directory();
    let (a, b) = (get(&directory, "tenant-a", "kafka").await, get(&directory, "tenant-b", "kafka").await);
    assert!(!Arc::ptr_eq(&a.unwrap(), &b.unwrap()));
}

#[tokio::test]
async fn no_name_leads_out_of_the_root() {
    let place = Place::new("names");
    place.write("root/tenant-a/kafka/password", "a's");
    place.write("kafka/password", "nobody's");
    let clock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
    let directory = Directory::open(place.path("root"), Layout::OneCluster, clock).unwrap();
    for namespace in ["..", ".", "", "tenant-a/..", "tenant-a/kafka/../../..", "/", "Tenant-A", "tenant-a\0"] {
        assert_eq!(get(&directory, namespace, "kafka").await, Err(CredentialError::NotFound(name("kafka"))));
    }
    for credential in ["..", ".", "", "../tenant-b", "a/b", "/etc", "Kafka", "kafka\0"] {
        assert_eq!(CredentialName::new(credential), None, "{credential}");
    }
}

#[tokio::test]
async fn no_link_leads_out_of_the_credential() {
    const OUT: &str = "is not usable: a key links out of its own directory";
    let key = "tenant-a/kafka/password";
    assert_eq!(refused("relative", |place| place.link(key, "../../outside")).await, OUT);
    assert_eq!(refused("absolute", |place| place.link(key, place.path("outside"))).await, OUT);
    assert_eq!(refused("passwd", |place| place.link(key, "/etc/passwd")).await, OUT);
    assert_eq!(refused("key-of-b", |place| place.link(key, "../../tenant-b/kafka/password")).await, OUT);
    assert_eq!(refused("magic", |place| place.link(key, "/proc/self/environ")).await, OUT);
    assert_eq!(refused("loop", |place| place.link(key, "password")).await, OUT);
    let back = |place: &Place| place.link(key, "../kafka/other");
    assert_eq!(refused("out-and-back", back).await, OUT);
    let published = |place: &Place| place.link("tenant-a/kafka/..data", "../../tenant-b/kafka");
    assert_eq!(refused("data", published).await, "is not usable: ..data links out of its own directory");
}

#[tokio::test]
async fn no_directory_on_the_way_is_a_link() {
    const LINK: &str = "is not usable: its directory is a link";
    let whole = |place: &Place| {
        fs::remove_dir(place.path("tenant-a/kafka")).unwrap();
        place.link("tenant-a/kafka", "../tenant-b/kafka");
    };
    assert_eq!(refused("credential-of-b", whole).await, LINK);
    let namespace = |place: &Place| {
        fs::remove_dir_all(place.path("tenant-a")).unwrap();
        place.link("tenant-a", "tenant-b");
    };
    assert_eq!(refused("namespace-b", namespace).await, LINK);
}

#[tokio::test]
async fn only_small_regular_text_files_are_read() {
    let key = "tenant-a/kafka/password";
    let not_regular = "is not usable: a key is not a regular file";
    let fifo = |place: &Place| mknodat(CWD, place.path(key), FileType::Fifo, Mode::RUSR, 0).unwrap();
    assert_eq!(refused("fifo", fifo).await, not_regular);
    let socket = |place: &Place| drop(UnixListener::bind(place.path(key)).unwrap());
    assert_eq!(refused("socket", socket).await, not_regular);
    assert_eq!(refused("directory", |place| fs::create_dir(place.path(key)).unwrap()).await, not_regular);
    let long = |place: &Place| place.write(key, vec![b'x'; 65_537]);
    assert_eq!(refused("long", long).await, "is not usable: a key is longer than 64 KiB");
    let binary = |place: &Place| place.write(key, [b'p', 0xff]);
    assert_eq!(refused("binary", binary).await, "is not usable: a key is not UTF-8 text");
    let dangling = |place: &Place| place.link(key, "nowhere");
    assert_eq!(refused("dangling", dangling).await, "is not usable: a key links to a file that is not there");
    let many = |place: &Place| (0..65).for_each(|n| place.write(&format!("tenant-a/kafka/key-{n}"), "x"));
    assert_eq!(refused("many", many).await, "is not usable: it has more than 64 keys");
    let crowded = |place: &Place| (0..300).for_each(|n| place.write(&format!("tenant-a/kafka/..{n}"), "x"));
    assert_eq!(refused("crowded", crowded).await, "is not usable: its directory has too many entries");
    let file = |place: &Place| {
        fs::remove_dir(place.path("tenant-a/kafka")).unwrap();
        place.write("tenant-a/kafka", "x");
    };
    assert_eq!(refused("file", file).await, "is not usable: it is not a directory");
}

#[tokio::test]
async fn the_limits_themselves_are_allowed() {
    let place = Place::new("limits");
    for n in 0..63 {
        place.write(&format!("tenant-a/kafka/key-{n}"), "x");
    }
    place.write("tenant-a/kafka/longest", vec![b'x'; 65_536]);
    let content = get(&place.directory(), "tenant-a", "kafka").await;
    assert_eq!(value(&content, "longest").map(|text| text.len()), Some(65_536));
    assert_eq!(value(&content, "key-62").as_deref(), Some("x"));
}

/// Does what kubelet's `AtomicWriter` does: a new directory, then the link replaced by renaming, then the old one gone.
fn publish(place: &Place, version: &str, before: Option<&str>, password: &str) {
    place.write(&format!("tenant-a/kafka/..{version}/password"), password);
    place.link("tenant-a/kafka/..data_tmp", format!("..{version}"));
    fs::rename(place.path("tenant-a/kafka/..data_tmp"), place.path("tenant-a/kafka/..data")).unwrap();
    match before {
        Some(before) => fs::remove_dir_all(place.path(&format!("tenant-a/kafka/..{before}"))).unwrap(),
        None => place.link("tenant-a/kafka/password", "..data/password"),
    }
}

#[tokio::test(start_paused = true)]
async fn kubelets_links_work_and_its_swap_is_seen() {
    let place = Place::new("kubelet");
    publish(&place, "2026_1", None, "first");
    let directory = place.directory();
    assert_eq!(value(&get(&directory, "tenant-a", "kafka").await, "password").as_deref(), Some("first"));
    publish(&place, "2026_2", Some("2026_1"), "second");
    advance(FRESH).await;
    assert_eq!(value(&get(&directory, "tenant-a", "kafka").await, "password").as_deref(), Some("second"));
}

#[tokio::test(start_paused = true)]
async fn a_change_is_seen_in_time_and_only_a_change() {
    let place = Place::new("rotation");
    place.write("tenant-a/kafka/password", "first");
    let directory = place.directory();
    let first = get(&directory, "tenant-a", "kafka").await.unwrap();
    advance(FRESH).await;
    let again = get(&directory, "tenant-a", "kafka").await.unwrap();
    assert!(Arc::ptr_eq(&first, &again), "the same content is the same Arc");

    place.write("tenant-a/kafka/password", "second");
    let remembered = get(&directory, "tenant-a", "kafka").await.unwrap();
    assert!(Arc::ptr_eq(&first, &remembered), "a young copy answers from memory");
    advance(FRESH).await;
    assert_eq!(value(&get(&directory, "tenant-a", "kafka").await, "password").as_deref(), Some("second"));
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_or_spoilt_leaves_no_copy() {
    let place = Place::new("deletion");
    place.write("tenant-a/kafka/password", "p");
    place.write("tenant-a/other/password", "p");
    let directory = place.directory();
    let deleted = Arc::downgrade(&get(&directory, "tenant-a", "kafka").await.unwrap());
    let spoilt = Arc::downgrade(&get(&directory, "tenant-a", "other").await.unwrap());
    fs::remove_dir_all(place.path("tenant-a/kafka")).unwrap();
    place.write("tenant-a/other/password", [0xff]);
    advance(FRESH).await;
    assert_eq!(get(&directory, "tenant-a", "kafka").await, Err(CredentialError::NotFound(name("kafka"))));
    assert!(get(&directory, "tenant-a", "other").await.is_err());
    assert!(deleted.upgrade().is_none() && spoilt.upgrade().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_nobody_asks_for_is_dropped() {
    let place = Place::new("idle");
    place.write("tenant-a/kafka/password", "p");
    place.write("tenant-b/kafka/password", "p");
    let directory = place.directory();
    let unused = Arc::downgrade(&get(&directory, "tenant-a", "kafka").await.unwrap());
    advance(IDLE / 2).await;
    get(&directory, "tenant-b", "kafka").await.unwrap();
    assert!(unused.upgrade().is_some());
    advance(IDLE / 2).await;
    get(&directory, "tenant-b", "kafka").await.unwrap();
    assert!(unused.upgrade().is_none());
    assert_eq!(locked(&directory.tenants).known.len(), 1);
}

/// Reads for `tenant-a` hang until the sender is dropped; every other tenant's are answered at once.
struct Hanging {
    until_dropped: Mutex<Option<mpsc::Receiver<()>>>,
    begun: AtomicUsize,
}

impl Source for Hanging {
    fn read(&self, tenant: &TenantId, _name: &CredentialName) -> Result<Credentials, Problem> {
        if &*tenant.namespace == "tenant-a" {
            self.begun.fetch_add(1, Ordering::SeqCst);
            let _ = locked(&self.until_dropped).take().map(|end| end.recv());
        }
        Ok(Credentials::new([("password".to_owned(), "p".to_owned())]))
    }
}

#[tokio::test(start_paused = true)]
async fn a_mount_that_hangs_stops_nobody_else() {
    let (end, until_dropped) = mpsc::channel();
    let source = Arc::new(Hanging { until_dropped: Mutex::new(Some(until_dropped)), begun: 0.into() });
    let clock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
    let directory = Directory::new(source.clone(), clock);
    for _ in 0..3 {
        let past_the_deadline = async {
            tokio::task::yield_now().await;
            assert!(get(&directory, "tenant-b", "kafka").await.is_ok());
            advance(DEADLINE).await;
        };
        let (hung, ()) = tokio::join!(get(&directory, "tenant-a", "kafka"), past_the_deadline);
        assert_eq!(hung.unwrap_err().to_string(), "credential kafka is not usable: reading it takes too long");
    }
    drop(end);
    assert!(get(&directory, "tenant-a", "kafka").await.is_ok());
    assert_eq!(source.begun.load(Ordering::SeqCst), 2, "the three shared one read");
}

#[test]
fn a_root_that_is_not_there_stops_the_start() {
    let place = Place::new("root");
    let clock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
    let error = Directory::open(place.path("nowhere"), Layout::OneCluster, clock).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}
