//! What a broker answers, from the state of the cluster.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use kafka_protocol::{
    messages::{
        ApiKey, ApiVersionsResponse, BrokerId, FindCoordinatorRequest, FindCoordinatorResponse, ListOffsetsRequest,
        ListOffsetsResponse, MetadataRequest, MetadataResponse, OffsetFetchRequest, OffsetFetchResponse,
        SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
        ShareGroupDescribeRequest, ShareGroupDescribeResponse, TopicName,
        api_versions_response::ApiVersion,
        find_coordinator_response::Coordinator,
        list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse},
        metadata_response::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic},
        offset_fetch_response::{
            OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
            OffsetFetchResponseTopic, OffsetFetchResponseTopics,
        },
        share_group_describe_response::DescribedGroup,
    },
    protocol::{Decodable, Encodable, StrBytes},
};

use super::{Group, State};

/// An answer, which a script may change.
pub enum Reply {
    /// To `ApiVersions`.
    ApiVersions(ApiVersionsResponse),
    /// To `SaslHandshake`.
    SaslHandshake(SaslHandshakeResponse),
    /// To `SaslAuthenticate`.
    SaslAuthenticate(SaslAuthenticateResponse),
    /// To `Metadata`.
    Metadata(MetadataResponse),
    /// To `FindCoordinator`.
    FindCoordinator(FindCoordinatorResponse),
    /// To `OffsetFetch`.
    OffsetFetch(OffsetFetchResponse),
    /// To `ListOffsets`.
    ListOffsets(ListOffsetsResponse),
    /// To `ShareGroupDescribe`.
    ShareGroupDescribe(ShareGroupDescribeResponse),
}

impl Reply {
    pub(super) fn encode(&self, to: &mut BytesMut, version: i16) {
        let encoded = match self {
            Self::ApiVersions(reply) => reply.encode(to, version),
            Self::SaslHandshake(reply) => reply.encode(to, version),
            Self::SaslAuthenticate(reply) => reply.encode(to, version),
            Self::Metadata(reply) => reply.encode(to, version),
            Self::FindCoordinator(reply) => reply.encode(to, version),
            Self::OffsetFetch(reply) => reply.encode(to, version),
            Self::ListOffsets(reply) => reply.encode(to, version),
            Self::ShareGroupDescribe(reply) => reply.encode(to, version),
        };
        encoded.expect("a test's answer fits its version");
    }
}

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const NOT_LEADER_OR_FOLLOWER: i16 = 6;
const COORDINATOR_NOT_AVAILABLE: i16 = 15;
const NOT_COORDINATOR: i16 = 16;
const UNSUPPORTED_SASL_MECHANISM: i16 = 33;
const ILLEGAL_SASL_STATE: i16 = 34;
const INVALID_REQUEST: i16 = 42;
const SASL_AUTHENTICATION_FAILED: i16 = 58;
const GROUP_ID_NOT_FOUND: i16 = 69;

/// What a broker of Kafka 4.1 speaks, of what a client that only reads asks.
const VERSIONS: &[(ApiKey, i16, i16)] = &[
    (ApiKey::ApiVersions, 0, 4),
    (ApiKey::SaslHandshake, 0, 1),
    (ApiKey::SaslAuthenticate, 0, 2),
    (ApiKey::Metadata, 0, 13),
    (ApiKey::FindCoordinator, 0, 6),
    (ApiKey::OffsetFetch, 1, 10),
    (ApiKey::ListOffsets, 1, 10),
    (ApiKey::ShareGroupDescribe, 1, 1),
];

/// The answer; `None` closes the connection, as brokers do for what they cannot read or do not allow yet.
pub(super) fn answer(
    state: &State,
    broker: i32,
    api: ApiKey,
    version: i16,
    mut body: Bytes,
    authenticated: &mut bool,
) -> Option<Reply> {
    let before_login = matches!(api, ApiKey::ApiVersions | ApiKey::SaslHandshake | ApiKey::SaslAuthenticate);
    if state.login.is_some() && !*authenticated && !before_login {
        return None;
    }
    let body = &mut body;
    Some(match api {
        ApiKey::ApiVersions => Reply::ApiVersions(versions(state)),
        ApiKey::SaslHandshake => {
            Reply::SaslHandshake(handshake(state, &SaslHandshakeRequest::decode(body, version).ok()?))
        }
        ApiKey::SaslAuthenticate => {
            let request = SaslAuthenticateRequest::decode(body, version).ok()?;
            Reply::SaslAuthenticate(authenticate(state, &request, version, authenticated))
        }
        ApiKey::Metadata => Reply::Metadata(metadata(state, MetadataRequest::decode(body, version).ok()?, version)),
        ApiKey::FindCoordinator => {
            Reply::FindCoordinator(coordinators(state, FindCoordinatorRequest::decode(body, version).ok()?, version))
        }
        ApiKey::OffsetFetch => {
            Reply::OffsetFetch(commits(state, broker, OffsetFetchRequest::decode(body, version).ok()?, version))
        }
        ApiKey::ListOffsets => {
            Reply::ListOffsets(offsets(state, broker, ListOffsetsRequest::decode(body, version).ok()?, version))
        }
        ApiKey::ShareGroupDescribe => {
            Reply::ShareGroupDescribe(share_groups(state, ShareGroupDescribeRequest::decode(body, version).ok()?))
        }
        _ => return None,
    })
}

fn versions(state: &State) -> ApiVersionsResponse {
    let keys = VERSIONS.iter().filter_map(|&(api, min, max)| {
        let max = state.newest.get(&(api as i16)).map_or(max, |&newest| newest.min(max));
        let key = ApiVersion::default().with_api_key(api as i16).with_min_version(min).with_max_version(max);
        (max >= min).then_some(key)
    });
    ApiVersionsResponse::default().with_api_keys(keys.collect())
}

fn handshake(state: &State, request: &SaslHandshakeRequest) -> SaslHandshakeResponse {
    let error = match (&state.login, &*request.mechanism) {
        (None, _) => ILLEGAL_SASL_STATE,
        (Some(_), "PLAIN") => 0,
        (Some(_), _) => UNSUPPORTED_SASL_MECHANISM,
    };
    SaslHandshakeResponse::default().with_error_code(error).with_mechanisms(vec![StrBytes::from_static_str("PLAIN")])
}

fn authenticate(
    state: &State,
    request: &SaslAuthenticateRequest,
    version: i16,
    authenticated: &mut bool,
) -> SaslAuthenticateResponse {
    let login = state.login.as_ref().map(|(user, password)| format!("\0{user}\0{password}"));
    *authenticated = login.is_none_or(|login| login.as_bytes() == &request.auth_bytes[..]);
    let error = if *authenticated { 0 } else { SASL_AUTHENTICATION_FAILED };
    let lifetime = if version >= 1 { state.session_lifetime } else { 0 };
    SaslAuthenticateResponse::default().with_error_code(error).with_session_lifetime_ms(lifetime)
}

fn host(address: &SocketAddr) -> StrBytes {
    StrBytes::from_string(address.ip().to_string())
}

fn metadata(state: &State, request: MetadataRequest, version: i16) -> MetadataResponse {
    let brokers = state.brokers.iter().map(|(id, address)| {
        let port = i32::from(address.port());
        MetadataResponseBroker::default().with_node_id(BrokerId(*id)).with_host(host(address)).with_port(port)
    });
    let topics = request.topics.into_iter().flatten().map(|asked| {
        let name = asked.name.expect("topics are asked for by name");
        let reply = MetadataResponseTopic::default().with_name(Some(name.clone()));
        let Some(topic) = state.topics.get(&**name) else {
            return reply.with_error_code(UNKNOWN_TOPIC_OR_PARTITION);
        };
        let partitions = (0..).zip(&topic.partitions).map(|(index, partition)| {
            MetadataResponsePartition::default()
                .with_partition_index(index)
                .with_leader_id(BrokerId(partition.leader))
                .with_leader_epoch(if version >= 7 { partition.epoch } else { -1 })
        });
        let id = format!("{:032x}", if version >= 10 { topic.id } else { 0 });
        reply.with_partitions(partitions.collect()).with_topic_id(id.parse().expect("it has 32 digits"))
    });
    MetadataResponse::default().with_brokers(brokers.collect()).with_topics(topics.collect())
}

fn coordinators(state: &State, request: FindCoordinatorRequest, version: i16) -> FindCoordinatorResponse {
    let find = |key: &StrBytes| {
        // Kafka finds a coordinator for every name; the last broker has those that the test does not name.
        let id = state.groups.get(&**key).map(|group| group.coordinator);
        let id = id.or_else(|| state.brokers.keys().last().copied());
        id.and_then(|id| Some((BrokerId(id), *state.brokers.get(&id)?)))
    };
    let reply = FindCoordinatorResponse::default();
    if version < 4 {
        return match find(&request.key) {
            Some((id, address)) => {
                reply.with_node_id(id).with_host(host(&address)).with_port(i32::from(address.port()))
            }
            None => reply.with_error_code(COORDINATOR_NOT_AVAILABLE),
        };
    }
    let found = request.coordinator_keys.into_iter().map(|key| {
        let found = Coordinator::default();
        match find(&key) {
            Some((id, address)) => {
                found.with_node_id(id).with_host(host(&address)).with_port(i32::from(address.port())).with_key(key)
            }
            None => found.with_error_code(COORDINATOR_NOT_AVAILABLE).with_key(key),
        }
    });
    reply.with_coordinators(found.collect())
}

/// Topic by topic: partition, offset. Of a partition without a commit, or of a share group, the offset is -1.
fn committed(group: Option<&Group>, topics: Option<Vec<(TopicName, Vec<i32>)>>) -> Vec<(TopicName, Vec<(i32, i64)>)> {
    let commits = group.filter(|group| !group.share).map(|group| group.commits.clone()).unwrap_or_default();
    let Some(topics) = topics else {
        let mut all: Vec<(TopicName, Vec<(i32, i64)>)> = Vec::new();
        for ((topic, index), offset) in commits {
            match all.last_mut() {
                Some((name, offsets)) if ***name == *topic => offsets.push((index, offset)),
                _ => all.push((StrBytes::from_string(topic).into(), vec![(index, offset)])),
            }
        }
        return all;
    };
    let offset = |name: &TopicName, index| commits.get(&(name.to_string(), index)).copied().unwrap_or(-1);
    topics
        .into_iter()
        .map(|(name, partitions)| {
            let offsets = partitions.into_iter().map(|index| (index, offset(&name, index))).collect();
            (name, offsets)
        })
        .collect()
}

fn commits(state: &State, broker: i32, request: OffsetFetchRequest, version: i16) -> OffsetFetchResponse {
    assert!(!request.require_stable, "stable offsets are never asked for");
    let error = |group: &StrBytes| match state.groups.get(&**group) {
        Some(group) if group.coordinator != broker => NOT_COORDINATOR,
        _ => 0,
    };
    let reply = OffsetFetchResponse::default();
    if version < 8 {
        let group = &request.group_id.0;
        let topics = request.topics.map(|all| all.into_iter().map(|t| (t.name, t.partition_indexes)).collect());
        let topics = committed(state.groups.get(&**group), topics).into_iter().map(|(name, offsets)| {
            let partitions = offsets.into_iter().map(|(index, offset)| {
                OffsetFetchResponsePartition::default().with_partition_index(index).with_committed_offset(offset)
            });
            OffsetFetchResponseTopic::default().with_name(name).with_partitions(partitions.collect())
        });
        return reply.with_error_code(error(group)).with_topics(topics.collect());
    }
    let groups = request.groups.into_iter().map(|asked| {
        let topics = asked.topics.map(|all| all.into_iter().map(|t| (t.name, t.partition_indexes)).collect());
        let topics = committed(state.groups.get(&**asked.group_id), topics).into_iter().map(|(name, offsets)| {
            let partitions = offsets.into_iter().map(|(index, offset)| {
                OffsetFetchResponsePartitions::default().with_partition_index(index).with_committed_offset(offset)
            });
            OffsetFetchResponseTopics::default().with_name(name).with_partitions(partitions.collect())
        });
        let error = error(&asked.group_id.0);
        let topics = if error == 0 { topics.collect() } else { Vec::new() };
        OffsetFetchResponseGroup::default().with_group_id(asked.group_id).with_error_code(error).with_topics(topics)
    });
    reply.with_groups(groups.collect())
}

fn offsets(state: &State, broker: i32, request: ListOffsetsRequest, version: i16) -> ListOffsetsResponse {
    let topics = request.topics.into_iter().map(|asked| {
        let known = state.topics.get(&**asked.name);
        let mut seen = Vec::new();
        let partitions = asked.partitions.into_iter().map(|partition| {
            let index = partition.partition_index;
            let reply = ListOffsetsPartitionResponse::default().with_partition_index(index).with_offset(-1);
            let found = known.and_then(|topic| topic.partitions.get(usize::try_from(index).ok()?));
            let twice = seen.contains(&index);
            seen.push(index);
            match found {
                _ if twice => reply.with_error_code(INVALID_REQUEST),
                None => reply.with_error_code(UNKNOWN_TOPIC_OR_PARTITION),
                Some(found) if found.leader != broker => reply.with_error_code(NOT_LEADER_OR_FOLLOWER),
                Some(found) => {
                    let end = if request.isolation_level == 1 { found.stable } else { found.end };
                    let offset = if partition.timestamp == -2 { found.start } else { end };
                    reply.with_offset(offset).with_leader_epoch(if version >= 4 { found.epoch } else { -1 })
                }
            }
        });
        ListOffsetsTopicResponse::default().with_name(asked.name).with_partitions(partitions.collect())
    });
    ListOffsetsResponse::default().with_topics(topics.collect())
}

fn share_groups(state: &State, request: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse {
    let groups = request.group_ids.into_iter().map(|id| {
        let is_share = state.groups.get(&**id).is_some_and(|group| group.share);
        let (error, told) = if is_share { (0, "Empty") } else { (GROUP_ID_NOT_FOUND, "Dead") };
        DescribedGroup::default()
            .with_error_code(error)
            .with_group_state(StrBytes::from_static_str(told))
            .with_group_id(id)
    });
    ShareGroupDescribeResponse::default().with_groups(groups.collect())
}
