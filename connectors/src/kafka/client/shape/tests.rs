//! The shapes against the generated codec: what it encodes fits, and nothing shorter does.

use bytes::{Bytes, BytesMut};
use kafka_protocol::{
    messages::{
        ApiVersionsRequest, ApiVersionsResponse, FindCoordinatorRequest, FindCoordinatorResponse, ListOffsetsRequest,
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
        share_group_describe_response::{Assignment, DescribedGroup, Member, TopicPartitions},
    },
    protocol::{Encodable, StrBytes},
};

use super::super::{api::Api, frame};

fn text() -> StrBytes {
    StrBytes::from_static_str("a name")
}

fn name() -> TopicName {
    TopicName(text())
}

/// Checks every version of `R` with a reply that has something in every array.
#[track_caller]
fn check<R: Api>(reply: impl Fn(i16) -> R::Response) {
    let versions = <R as Api>::VERSIONS;
    for version in versions.min..=versions.max {
        let mut body = BytesMut::new();
        reply(version).encode(&mut body, version).expect("the reply is of this version");
        assert!(R::REPLY.fits(version, &body), "version {version}");
        for length in 0..body.len() {
            assert!(!R::REPLY.fits(version, &body[..length]), "{length} bytes of version {version}");
        }
        let longer = [&body[..], &[0]].concat();
        assert!(R::REPLY.fits(version, &longer), "one byte more than version {version}");
        // Whatever a byte is changed to, the answer is a value, and no length is believed that is not there.
        for at in 0..body.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut wrong = body.to_vec();
                wrong[at] = byte;
                if R::REPLY.fits(version, &wrong) {
                    let _ = frame::decode::<R>(version, Bytes::from(wrong));
                }
            }
        }
    }
}

#[test]
fn what_the_codec_encodes_fits() {
    check::<ApiVersionsRequest>(|_| ApiVersionsResponse::default().with_api_keys(vec![ApiVersion::default(); 3]));
    check::<SaslHandshakeRequest>(|_| SaslHandshakeResponse::default().with_mechanisms(vec![text(), text()]));
    check::<SaslAuthenticateRequest>(|_| {
        SaslAuthenticateResponse::default().with_error_message(Some(text())).with_auth_bytes(vec![7; 9].into())
    });
    check::<MetadataRequest>(|_| {
        let broker = MetadataResponseBroker::default().with_host(text()).with_rack(Some(text()));
        let partition = MetadataResponsePartition::default()
            .with_replica_nodes(vec![1.into(), 2.into()])
            .with_isr_nodes(vec![1.into()]);
        let topic = MetadataResponseTopic::default().with_name(Some(name())).with_partitions(vec![partition; 3]);
        MetadataResponse::default()
            .with_cluster_id(Some(text()))
            .with_brokers(vec![broker; 2])
            .with_topics(vec![topic; 2])
    });
    check::<FindCoordinatorRequest>(|version| {
        if version < 4 {
            return FindCoordinatorResponse::default().with_host(text()).with_error_message(Some(text()));
        }
        let found = Coordinator::default().with_key(text()).with_host(text()).with_error_message(Some(text()));
        FindCoordinatorResponse::default().with_coordinators(vec![found; 2])
    });
    check::<ListOffsetsRequest>(|_| {
        let partition = ListOffsetsPartitionResponse::default();
        let topic = ListOffsetsTopicResponse::default().with_name(name()).with_partitions(vec![partition; 3]);
        ListOffsetsResponse::default().with_topics(vec![topic; 2])
    });
}

#[test]
fn what_the_codec_encodes_of_groups_fits() {
    check::<OffsetFetchRequest>(|version| {
        if version < 8 {
            let partition = OffsetFetchResponsePartition::default().with_metadata(Some(text()));
            let topic = OffsetFetchResponseTopic::default().with_name(name()).with_partitions(vec![partition; 3]);
            return OffsetFetchResponse::default().with_topics(vec![topic; 2]);
        }
        let partition = OffsetFetchResponsePartitions::default().with_metadata(Some(text()));
        let topic = OffsetFetchResponseTopics::default().with_name(name()).with_partitions(vec![partition; 3]);
        let group = OffsetFetchResponseGroup::default().with_group_id(text().into()).with_topics(vec![topic; 2]);
        OffsetFetchResponse::default().with_groups(vec![group; 2])
    });
    check::<ShareGroupDescribeRequest>(|_| {
        let topic = TopicPartitions::default().with_topic_name(name()).with_partitions(vec![1, 2, 3]);
        let member = Member::default()
            .with_member_id(text())
            .with_rack_id(Some(text()))
            .with_subscribed_topic_names(vec![name(), name()])
            .with_assignment(Assignment::default().with_topic_partitions(vec![topic; 2]));
        let group = DescribedGroup::default()
            .with_error_message(Some(text()))
            .with_group_id(text().into())
            .with_members(vec![member; 2]);
        ShareGroupDescribeResponse::default().with_groups(vec![group; 2])
    });
}

#[test]
fn more_elements_than_the_limit_do_not_fit() {
    let reply = |count| {
        let mut body = BytesMut::new();
        let partition = ListOffsetsPartitionResponse::default();
        let topic = ListOffsetsTopicResponse::default().with_name(name()).with_partitions(vec![partition; count]);
        ListOffsetsResponse::default().with_topics(vec![topic]).encode(&mut body, 7).expect("it is of this version");
        body
    };
    // The topic counts too.
    assert!(ListOffsetsRequest::REPLY.fits(7, &reply(super::MAX_ELEMENTS - 1)));
    assert!(!ListOffsetsRequest::REPLY.fits(7, &reply(super::MAX_ELEMENTS)));
}

#[test]
fn tagged_fields_are_skipped() {
    let mut body = BytesMut::new();
    let topic = ListOffsetsTopicResponse::default().with_name(name()).with_unknown_tagged_field(9, vec![1, 2].into());
    let reply = ListOffsetsResponse::default().with_topics(vec![topic]).with_unknown_tagged_field(300, vec![].into());
    reply.encode(&mut body, 7).expect("it is of this version");
    assert!(ListOffsetsRequest::REPLY.fits(7, &body));
}
