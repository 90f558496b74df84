//! Administrative requests that librdkafka's Rust binding lacks, sent to a broker as they are.
//!
//! Test set-up only: what is compared with our own client's answers comes through librdkafka (`kafka_client`).

use std::time::Duration;

use kafka_protocol::messages::alter_partition_reassignments_request::{ReassignablePartition, ReassignableTopic};
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, BrokerId, CreateAclsRequest, DescribeAclsRequest, ElectLeadersRequest,
    FindCoordinatorRequest, GroupId, ListPartitionReassignmentsRequest, RequestHeader, ResponseHeader,
    ShareGroupHeartbeatRequest, TopicName, UnregisterBrokerRequest,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::Result;

const CALL_DEADLINE: Duration = Duration::from_secs(15);
const MOVE_DEADLINE: Duration = Duration::from_secs(30);
const MOVE_POLL: Duration = Duration::from_millis(50);
const TIMEOUT_MS: i32 = 10_000;
const NO_ERROR: i16 = 0;
const COORDINATOR_NOT_AVAILABLE: i16 = 15;
const ELECTION_NOT_NEEDED: i16 = 84;

/// What an ACL is about.
#[derive(Clone, Copy, Debug)]
pub enum Resource<'a> {
    /// A topic, by its name.
    Topic(&'a str),
    /// A consumer group, by its name.
    Group(&'a str),
}

/// What an ACL allows, numbered as in Kafka's `AclOperation`.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    /// Read records, or join and commit as a group.
    Read = 3,
    /// See offsets and metadata.
    Describe = 8,
}

/// Sends one request to the first of the `bootstrap` servers that takes it, and returns the answer.
pub async fn call<R: Request>(bootstrap: &str, version: i16, request: &R) -> Result<R::Response> {
    let mut last = "no bootstrap server".into();
    for address in bootstrap.split(',') {
        match timeout(CALL_DEADLINE, call_one(address, version, request)).await? {
            Ok(response) => return Ok(response),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn call_one<R: Request>(address: &str, version: i16, request: &R) -> Result<R::Response> {
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_client_id(Some(StrBytes::from_static_str("tidegate-tests")));
    let mut frame = Vec::new();
    header.encode(&mut frame, R::header_version(version))?;
    request.encode(&mut frame, version)?;
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(&u32::try_from(frame.len())?.to_be_bytes()).await?;
    stream.write_all(&frame).await?;
    let mut answer = vec![0; usize::try_from(stream.read_u32().await?)?];
    stream.read_exact(&mut answer).await?;
    let mut answer = answer.as_slice();
    ResponseHeader::decode(&mut answer, R::Response::header_version(version))?;
    Ok(R::Response::decode(&mut answer, version)?)
}

fn check(what: &str, code: i16) -> Result {
    if code == NO_ERROR { Ok(()) } else { Err(format!("{what}: Kafka's error code {code}").into()) }
}

fn text(value: &str) -> StrBytes {
    StrBytes::from_string(value.to_owned())
}

fn topic_name(name: &str) -> TopicName {
    TopicName(text(name))
}

/// Allows a user one operation on one resource, from anywhere.
pub async fn allow(bootstrap: &str, user: &str, operation: Operation, resource: Resource<'_>) -> Result {
    const LITERAL: i8 = 3;
    const ALLOW: i8 = 3;
    let (kind, name) = match resource {
        Resource::Topic(name) => (2, name),
        Resource::Group(name) => (3, name),
    };
    let acl = AclCreation::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_resource_pattern_type(LITERAL)
        .with_principal(text(&format!("User:{user}")))
        .with_host(StrBytes::from_static_str("*"))
        .with_operation(operation as i8)
        .with_permission_type(ALLOW);
    let response = call(bootstrap, 3, &CreateAclsRequest::default().with_creations(vec![acl])).await?;
    response.results.iter().try_for_each(|result| check("CreateAcls", result.error_code))?;
    for address in bootstrap.split(',') {
        wait_for_acl(address, kind, name, user, operation).await?;
    }
    Ok(())
}

/// A broker learns of an ACL a little after the controller has taken it.
async fn wait_for_acl(address: &str, kind: i8, name: &str, user: &str, operation: Operation) -> Result {
    const ANY: i8 = 1;
    const LITERAL: i8 = 3;
    let request = DescribeAclsRequest::default()
        .with_resource_type_filter(kind)
        .with_resource_name_filter(Some(text(name)))
        .with_pattern_type_filter(LITERAL)
        .with_principal_filter(Some(text(&format!("User:{user}"))))
        .with_host_filter(None)
        .with_operation(operation as i8)
        .with_permission_type(ANY);
    let until = Instant::now() + MOVE_DEADLINE;
    loop {
        let response = call(address, 3, &request).await?;
        check("DescribeAcls", response.error_code)?;
        if !response.resources.is_empty() {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(format!("broker {address} does not know the ACL").into());
        }
        sleep(MOVE_POLL).await;
    }
}

/// The broker that coordinates a group. The first such question of a cluster creates its offsets topic.
pub async fn coordinator(bootstrap: &str, group: &str) -> Result<i32> {
    let until = Instant::now() + MOVE_DEADLINE;
    loop {
        let request = FindCoordinatorRequest::default().with_coordinator_keys(vec![text(group)]);
        let response = call(bootstrap, 4, &request).await?;
        let answer = response.coordinators.first().ok_or("no coordinator in the answer")?;
        if answer.error_code != COORDINATOR_NOT_AVAILABLE || Instant::now() > until {
            check("FindCoordinator", answer.error_code)?;
            return Ok(answer.node_id.0);
        }
        sleep(MOVE_POLL).await;
    }
}

/// The partition of `__consumer_offsets` that holds a group, of the 50 that are Kafka's default: the group's
/// `String.hashCode` in Java.
pub fn offsets_partition(group: &str) -> i32 {
    const PARTITIONS: i32 = 50;
    let hash = group.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    (hash & i32::MAX) % PARTITIONS
}

/// Moves a group to another coordinator, which must be in sync or become so.
pub async fn move_coordinator(bootstrap: &str, group: &str, replicas: &[i32]) -> Result {
    let to = *replicas.first().ok_or("a partition needs a replica")?;
    coordinator(bootstrap, group).await?;
    reassign(bootstrap, "__consumer_offsets", offsets_partition(group), replicas).await?;
    let until = Instant::now() + MOVE_DEADLINE;
    while coordinator(bootstrap, group).await? != to {
        if Instant::now() > until {
            return Err(format!("the coordinator of {group} did not move to broker {to}").into());
        }
        sleep(MOVE_POLL).await;
    }
    Ok(())
}

/// Gives a partition these replicas, waits until they have its data, and makes the first one its leader.
pub async fn reassign(bootstrap: &str, topic: &str, partition: i32, replicas: &[i32]) -> Result {
    let wanted = ReassignablePartition::default()
        .with_partition_index(partition)
        .with_replicas(Some(replicas.iter().map(|&id| BrokerId(id)).collect()));
    let of_topic = ReassignableTopic::default().with_name(topic_name(topic)).with_partitions(vec![wanted]);
    let request = AlterPartitionReassignmentsRequest::default().with_timeout_ms(TIMEOUT_MS).with_topics(vec![of_topic]);
    let response = call(bootstrap, 0, &request).await?;
    check("AlterPartitionReassignments", response.error_code)?;
    for partition in response.responses.iter().flat_map(|topic| &topic.partitions) {
        check("AlterPartitionReassignments of a partition", partition.error_code)?;
    }
    wait_for_reassignments(bootstrap).await?;
    elect_preferred_leader(bootstrap, topic, partition).await
}

async fn wait_for_reassignments(bootstrap: &str) -> Result {
    let until = Instant::now() + MOVE_DEADLINE;
    loop {
        let request = ListPartitionReassignmentsRequest::default().with_timeout_ms(TIMEOUT_MS).with_topics(None);
        let response = call(bootstrap, 0, &request).await?;
        check("ListPartitionReassignments", response.error_code)?;
        if response.topics.is_empty() {
            return Ok(());
        }
        if Instant::now() > until {
            return Err("a reassignment did not end".into());
        }
        sleep(MOVE_POLL).await;
    }
}

/// Makes the first replica of a partition its leader.
pub async fn elect_preferred_leader(bootstrap: &str, topic: &str, partition: i32) -> Result {
    const PREFERRED: i8 = 0;
    let of_topic = TopicPartitions::default().with_topic(topic_name(topic)).with_partitions(vec![partition]);
    let request = ElectLeadersRequest::default()
        .with_election_type(PREFERRED)
        .with_topic_partitions(Some(vec![of_topic]))
        .with_timeout_ms(TIMEOUT_MS);
    let response = call(bootstrap, 2, &request).await?;
    check("ElectLeaders", response.error_code)?;
    for result in response.replica_election_results.iter().flat_map(|topic| &topic.partition_result) {
        if result.error_code != ELECTION_NOT_NEEDED {
            check("ElectLeaders of a partition", result.error_code)?;
        }
    }
    Ok(())
}

/// Takes a stopped broker out of the cluster's metadata.
pub async fn unregister_broker(bootstrap: &str, id: i32) -> Result {
    let response = call(bootstrap, 0, &UnregisterBrokerRequest::default().with_broker_id(BrokerId(id))).await?;
    check("UnregisterBroker", response.error_code)
}

/// Makes `group` a share group (KIP-932) by joining it as one member that reads `topic`.
pub async fn join_share_group(bootstrap: &str, group: &str, topic: &str) -> Result {
    const JOINS: i32 = 0;
    let coordinator = coordinator(bootstrap, group).await?;
    let address = bootstrap.split(',').nth(usize::try_from(coordinator - 1)?).ok_or("no address of the coordinator")?;
    let request = ShareGroupHeartbeatRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_member_id(StrBytes::from_static_str("AAAAAAAAAAAAAAAAAAAAAQ"))
        .with_member_epoch(JOINS)
        .with_subscribed_topic_names(Some(vec![topic_name(topic)]));
    check("ShareGroupHeartbeat", call(address, 1, &request).await?.error_code)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hash codes by the definition of `java.lang.String.hashCode`; `polygenelubricants` is known for `Integer.MIN_VALUE`.
    #[test]
    fn a_group_is_held_where_java_puts_it() {
        assert_eq!(offsets_partition(""), 0);
        assert_eq!(offsets_partition("a"), 97 % 50);
        assert_eq!(offsets_partition("ab"), (97 * 31 + 98) % 50);
        assert_eq!(offsets_partition("polygenelubricants"), 0);
    }
}
