//! README.md says what the code does: its tables are compared with the code's own lists, its examples are parsed, and the
//! files of `deploy/examples` are checked as far as they can be without their sources.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::{
    check::{self, Output},
    cli::Cli,
    config::{Config, Overrides},
    credentials::{Directory, Layout, NoCredentials, Provider},
    metrics::{Method, Metrics},
    trigger::{COMMON_KEYS, KEDA_KEYS, PollBounds, Trigger},
};
use clap::{CommandFactory, Parser};
use serde_json::Value;
use tidegate_connectors::{
    clock::SystemClock,
    kafka,
    metadata::Metadata,
    prometheus,
    tenant::TenantId,
    trigger::{KINDS, Kind},
};
use tonic::Code;

type Names = BTreeSet<String>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate is a folder of the workspace").to_owned()
}

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).unwrap()
}

/// The part of `text` from the heading that starts with `heading` to the next one that is not below it.
#[track_caller]
fn section(text: &str, heading: &str) -> String {
    let level = |line: &str| line.chars().take_while(|c| *c == '#').count();
    let mut lines = text.lines().skip_while(|line| !line.starts_with(heading));
    let first = lines.next().unwrap_or_else(|| panic!("README.md has no heading {heading}"));
    let mut fenced = false;
    let rest = lines.take_while(|line| {
        fenced ^= line.starts_with("```");
        fenced || !line.starts_with('#') || level(line) > level(heading)
    });
    [first].into_iter().chain(rest).collect::<Vec<_>>().join("\n")
}

/// The names in backticks of the first cells of all table rows, each once.
#[track_caller]
fn listed(section: &str) -> Names {
    let cells = section.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
    let all: Vec<_> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let names = names(all.iter().copied());
    assert_eq!(names.len(), all.len(), "a name is listed twice in\n{section}");
    names
}

fn names<'a>(all: impl IntoIterator<Item = &'a str>) -> Names {
    all.into_iter().map(str::to_owned).collect()
}

/// The code blocks of a language, without their fences.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let rests = text.split(&format!("```{language}\n")).skip(1).map(str::to_owned).collect::<Vec<_>>();
    rests.iter().map(|rest| rest.split("\n```").next().unwrap_or(rest).to_owned()).collect()
}

fn titled(word: &str) -> String {
    format!("`triggerType: {word}`")
}

#[test]
fn every_key_of_every_kind_is_in_its_table_and_no_other() {
    let readme = readme();
    for (word, kind) in KINDS {
        let heading = readme.lines().find(|line| line.starts_with("###") && line.contains(&titled(word)));
        let heading = heading.unwrap_or_else(|| panic!("no section for {word}"));
        assert_eq!(listed(&section(&readme, heading)), names(kind.keys().iter().copied()), "{word}");
    }
    let common = COMMON_KEYS.iter().chain(KEDA_KEYS).copied();
    assert_eq!(listed(&section(&readme, "### Every trigger")), names(common));
}

/// What decides how a client connects may come from the credential, and nothing else may.
#[test]
fn the_keys_that_a_credential_may_hold_are_marked() {
    let readme = readme();
    for (word, connection) in [("kafka", kafka::CONNECTION_KEYS), ("prometheus", prometheus::CONNECTION_KEYS)] {
        let heading = readme.lines().find(|line| line.starts_with("###") && line.contains(&titled(word)));
        let section = section(&readme, heading.expect("every kind has a section"));
        let marked: Vec<_> = section.lines().filter(|line| line.contains(" | m, c | ")).collect();
        assert_eq!(listed(&marked.join("\n")), names(connection.iter().copied()), "{word}");
    }
}

#[test]
fn only_kinds_that_exist_have_a_section_and_an_example() {
    let readme = readme();
    let headings = readme.lines().filter(|line| line.starts_with("###"));
    let of_kinds = names(headings.filter_map(|line| line.split_once("`triggerType: ")?.1.split('`').next()));
    let kinds = names(KINDS.iter().map(|(word, _)| *word));
    assert_eq!(of_kinds, kinds);
    assert_eq!(examples().into_keys().collect::<Names>(), kinds);
}

#[test]
fn every_flag_is_in_the_table_and_no_other() {
    let readme = readme();
    let mut command = Cli::command();
    command.build();
    let flags = |command: &clap::Command| -> Vec<String> {
        command.get_arguments().filter_map(clap::Arg::get_long).map(|long| format!("--{long}")).collect()
    };
    let mut all: Names = flags(&command).into_iter().collect();
    for subcommand in command.get_subcommands().filter(|subcommand| subcommand.get_name() != "help") {
        all.extend(flags(subcommand));
        assert!(readme.contains(&format!("**`tidegate {}`**", subcommand.get_name())), "{}", subcommand.get_name());
    }
    let commands = section(&readme, "## Commands");
    let listed = listed(commands.split("\n###").next().unwrap_or_default());
    assert_eq!(listed.into_iter().filter(|name| name.starts_with("--")).collect::<Names>(), all);
}

#[test]
fn every_metric_and_every_code_is_in_its_table_and_no_other() {
    let metrics = Metrics::new();
    metrics.call(Method::IsActive, Code::Ok, Duration::ZERO);
    metrics.poll(Kind::Kafka, &[], Duration::ZERO);
    metrics.sample_age(Duration::ZERO);
    let text = metrics.render();
    let shown = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    assert_eq!(listed(&section(&readme(), "### HTTP and gRPC")), names(shown));
    let codes = names(text.lines().filter_map(|line| line.split_once("code=\"")?.1.split('"').next()));
    assert_eq!(listed(&section(&readme(), "### Codes")), codes);
}

#[test]
fn the_configuration_file_has_every_key_with_its_default() {
    let block = blocks(&section(&readme(), "### Configuration file"), "yaml").pop().expect("the section has a file");
    assert_eq!(load(&block), Ok(Config::default()));
    let all = block.replace("provider: none", "provider: directory").replace("# directory:", "directory:");
    assert!(load(&all).is_ok(), "{all}");
    let file: Value = serde_saphyr::from_str(&all).unwrap();
    let mut keys = Names::new();
    collect_keys(&file, &mut keys);
    // A credential's provider is written otherwise than it is kept.
    let kept = format!("{:?}", Config::default());
    let fields = kept.split(": ").filter_map(|before| before.rsplit([' ', '{']).next());
    let known: Names = fields.filter(|field| is_field(field)).map(camel_case).collect();
    assert_eq!(keys, known.into_iter().chain(["provider", "directory"].map(str::to_owned)).collect());
}

fn collect_keys(value: &Value, keys: &mut Names) {
    for (key, below) in value.as_object().into_iter().flatten() {
        keys.insert(key.clone());
        collect_keys(below, keys);
    }
}

fn is_field(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}

fn camel_case(field: &str) -> String {
    let mut words = field.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

fn load(text: &str) -> Result<Config, String> {
    let scratch = Scratch::new();
    let file = scratch.0.join("tidegate.yaml");
    write(&file, text);
    Config::load(Some(&file), Overrides::default()).map_err(|error| error.to_string())
}

#[test]
fn every_scaled_object_of_the_readme_is_one() {
    let blocks = blocks(&readme(), "yaml");
    let objects: Vec<_> = blocks.iter().filter(|block| !block.starts_with("# tidegate.yaml")).collect();
    assert!(!objects.is_empty());
    for block in objects {
        let object: Value = serde_saphyr::from_str(block).unwrap();
        assert_eq!(object["kind"], "ScaledObject", "{block}");
        for trigger in object["spec"]["triggers"].as_array().expect("an object has triggers") {
            let metadata: BTreeMap<String, String> = serde_json::from_value(trigger["metadata"].clone()).unwrap();
            let metadata = Metadata::new(metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())));
            let trigger = Trigger::parse(&TenantId::local("shop"), &metadata, PollBounds::default());
            assert!(trigger.is_ok(), "{block}\n{trigger:?}");
        }
    }
}

#[test]
fn every_command_of_the_readme_can_be_given() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let blocks = blocks(&readme(), "sh");
    assert!(!blocks.is_empty());
    for line in blocks.iter().flat_map(|block| block.lines()) {
        let words: Vec<_> = line.split(" #").next().unwrap_or_default().split_whitespace().collect();
        match words[..] {
            ["make", target] => assert!(makefile.contains(&format!("\n{target}:")), "{line}"),
            ["tidegate", ..] => {
                assert!(Cli::try_parse_from(&words).is_ok(), "{line}");
                let mut paths = words.iter().filter(|word| word.starts_with("deploy/"));
                assert!(paths.all(|path| root().join(path).exists()), "{line}");
            }
            _ => panic!("no test knows what to do with: {line}"),
        }
    }
}

#[test]
fn every_link_to_a_file_or_a_heading_leads_somewhere() {
    for document in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"] {
        let text = fs::read_to_string(root().join(document)).unwrap();
        let anchors: Names = text.lines().filter(|line| line.starts_with('#')).map(anchor).collect();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let there = match link.strip_prefix('#') {
                Some(heading) => anchors.contains(heading),
                None => link.contains("://") || root().join(link).exists(),
            };
            assert!(there, "{document}: {link}");
        }
    }
}

/// A heading's anchor, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// The files of `deploy/examples`, by name.
fn examples() -> BTreeMap<String, String> {
    let files = fs::read_dir(root().join("deploy/examples")).unwrap().map(|entry| entry.unwrap().path());
    let yaml = files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    let named = yaml.map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), path));
    named.map(|(name, path)| (name, fs::read_to_string(path).unwrap())).collect()
}

/// With a port where nobody listens in the place of their sources, all that is wrong with them is that.
#[tokio::test]
async fn every_example_is_understood_up_to_its_source() {
    let scratch = Scratch::new();
    let credentials = example_credentials(&scratch);
    for (kind, text) in examples() {
        let report = check_one(&unplugged(&text), &credentials).await;
        assert_eq!(report["triggerType"], *kind);
        if kind == "cron" {
            assert_eq!((&report["error"], &report["target"]), (&Value::Null, &Value::from(1.0)), "{report}");
        } else {
            assert_eq!(report["error"]["code"], "UNAVAILABLE", "{report}");
        }
    }
    let none: Arc<dyn Provider> = Arc::new(NoCredentials);
    let report = check_one(&unplugged(&examples()["kafka"]), &none).await;
    assert_eq!(report["error"]["code"], "FAILED_PRECONDITION", "the credential is looked for: {report}");
}

/// The example with sources that refuse every connection.
fn unplugged(text: &str) -> String {
    const HTTP: &str = "http://127.0.0.1:1";
    let mut object: Value = serde_saphyr::from_str(text).unwrap();
    let metadata = object["spec"]["triggers"][0]["metadata"].as_object_mut().expect("a trigger has metadata");
    for (key, address) in [("bootstrapServers", "127.0.0.1:1"), ("host", HTTP), ("serverAddress", HTTP)] {
        if let Some(value) = metadata.get_mut(key) {
            *value = address.into();
        }
    }
    object.to_string() // JSON is YAML
}

/// The credentials of the examples, but for the hosts that they are bound to.
fn example_credentials(scratch: &Scratch) -> Arc<dyn Provider> {
    let source = root().join("deploy/examples/credentials");
    let mut folders = vec![source.clone()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("allowedHosts") {
                let below = path.strip_prefix(&source).unwrap();
                write(&scratch.0.join(below), &fs::read_to_string(&path).unwrap());
            }
        }
    }
    Arc::new(Directory::open(scratch.0.clone(), Layout::OneCluster, Arc::new(SystemClock)).unwrap())
}

/// What `tidegate check` says of an object of one trigger.
async fn check_one(yaml: &str, credentials: &Arc<dyn Provider>) -> Value {
    let scratch = Scratch::new();
    let file = scratch.0.join("object.yaml");
    write(&file, yaml);
    let options = check::Options { files: vec![file], output: Output::Json, namespace: "default".to_owned() };
    let mut out = Vec::new();
    check::run(&options, credentials.clone(), &mut out).await;
    let mut reports: Vec<Value> = serde_json::from_slice(&out).unwrap();
    assert_eq!(reports.len(), 1, "{reports:?}");
    reports.remove(0)
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("it is in a directory")).unwrap();
    fs::write(path, text).unwrap();
}

/// A directory that goes when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tidegate-docs-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // what is left there harms nobody
    }
}
