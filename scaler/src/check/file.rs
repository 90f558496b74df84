//! ScaledObject and ScaledJob files.

use std::{collections::BTreeMap, env, fs, path::Path};

use serde::Deserialize;

/// A file larger than this is not a file of ScaledObjects.
const LARGEST: u64 = 4 * 1024 * 1024;

/// One ScaledObject or ScaledJob.
pub struct Object {
    pub file: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// The least and the most replicas of the HPA.
    pub replicas: (u64, u64),
    /// Replicas while no trigger is active.
    pub asleep: u64,
    pub triggers: Vec<Trigger>,
}

/// One entry of `spec.triggers`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trigger {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    pub authentication_ref: Option<AuthenticationRef>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct AuthenticationRef {
    pub name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: serde_json::Value,
}

#[derive(Default, Deserialize)]
struct ObjectMeta {
    #[serde(default)]
    name: String,
    namespace: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    min_replica_count: Option<u64>,
    max_replica_count: Option<u64>,
    idle_replica_count: Option<u64>,
    triggers: Vec<Trigger>,
}

/// The ScaledObjects and ScaledJobs of a file; other documents are passed over.
pub fn read(path: &Path, namespace: &str) -> Result<Vec<Object>, String> {
    let size = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > LARGEST {
        return Err(format!("larger than {LARGEST} bytes"));
    }
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    parse(&text, &path.display().to_string(), namespace)
}

pub(super) fn parse(text: &str, file: &str, namespace: &str) -> Result<Vec<Object>, String> {
    let documents: Vec<Option<Document>> = serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    let scaled = documents.into_iter().flatten().filter(|d| matches!(d.kind.as_str(), "ScaledObject" | "ScaledJob"));
    let objects: Vec<_> = scaled.map(|document| object(document, file, namespace)).collect::<Result<_, _>>()?;
    if objects.is_empty() { Err("holds no ScaledObject and no ScaledJob".to_owned()) } else { Ok(objects) }
}

fn object(document: Document, file: &str, namespace: &str) -> Result<Object, String> {
    let Document { kind, metadata, spec } = document;
    let name = metadata.name;
    let spec: Spec = serde_json::from_value(spec).map_err(|error| format!("{kind} {name}: spec: {error}"))?;
    let least = spec.min_replica_count.unwrap_or(0);
    Ok(Object {
        file: file.to_owned(),
        kind,
        namespace: metadata.namespace.unwrap_or_else(|| namespace.to_owned()),
        name,
        replicas: (least.max(1), spec.max_replica_count.unwrap_or(100)),
        asleep: spec.idle_replica_count.unwrap_or(least),
        triggers: spec.triggers,
    })
}

impl Trigger {
    /// The metadata as KEDA would send it: `nameFromEnv` names a variable of the container, here one of this process.
    pub fn resolved(&self) -> BTreeMap<String, String> {
        let resolve = |(key, value): (&String, &String)| {
            if key.ends_with("FromEnv") {
                env::var(value).ok().map(|value| (key.clone(), value))
            } else {
                Some((key.clone(), value.clone()))
            }
        };
        self.metadata.iter().filter_map(resolve).collect()
    }
}
