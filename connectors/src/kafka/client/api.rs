//! The requests that this client sends: their versions, and the shapes of their replies. None of them writes.

use kafka_protocol::{
    messages::{
        ApiVersionsRequest, FindCoordinatorRequest, ListOffsetsRequest, MetadataRequest, OffsetFetchRequest,
        SaslAuthenticateRequest, SaslHandshakeRequest, ShareGroupDescribeRequest,
    },
    protocol::{Request, VersionRange},
};

use super::shape::{BLOB, BYTE, INT16, INT32, INT64, INTEGERS, Shape, TEXT, TEXTS, UUID, array, structure};

/// A request that this client sends.
pub(super) trait Api: Request {
    /// The versions that this client speaks; brokers from 2.1 to 4.x share one of each with it.
    const VERSIONS: VersionRange;
    /// The shape of a reply.
    const REPLY: Shape;
}

/// Later versions add the broker's features, which nothing here needs; every broker still answers the first.
impl Api for ApiVersionsRequest {
    const VERSIONS: VersionRange = VersionRange { min: 0, max: 0 };
    const REPLY: Shape = Shape { flexible: 3, fields: &[INT16, array(&[INT16, INT16, INT16])] };
}

impl Api for SaslHandshakeRequest {
    const VERSIONS: VersionRange = VersionRange { min: 1, max: 1 };
    const REPLY: Shape = Shape { flexible: i16::MAX, fields: &[INT16, TEXTS] };
}

impl Api for SaslAuthenticateRequest {
    const VERSIONS: VersionRange = VersionRange { min: 0, max: 2 };
    const REPLY: Shape = Shape { flexible: 2, fields: &[INT16, TEXT, BLOB, INT64.since(1)] };
}

/// From version 4 on a request says that no topic is to be created; from 10 on topics have ids.
/// Later versions ask by id, which nothing here does.
impl Api for MetadataRequest {
    const VERSIONS: VersionRange = VersionRange { min: 4, max: 10 };
    const REPLY: Shape = Shape {
        flexible: 9,
        fields: &[
            INT32,
            array(&[INT32, TEXT, INT32, TEXT]),
            TEXT,
            INT32,
            array(&[
                INT16,
                TEXT,
                UUID.since(10),
                BYTE,
                array(&[INT16, INT32, INT32, INT32.since(7), INTEGERS, INTEGERS, INTEGERS.since(5)]),
                INT32.since(8),
            ]),
            INT32.since(8).until(10),
        ],
    };
}

/// From version 4 on a request asks for many groups. Later versions answer for transactions and share groups.
impl Api for FindCoordinatorRequest {
    const VERSIONS: VersionRange = VersionRange { min: 1, max: 4 };
    const REPLY: Shape = Shape {
        flexible: 3,
        fields: &[
            INT32,
            INT16.until(3),
            TEXT.until(3),
            INT32.until(3),
            TEXT.until(3),
            INT32.until(3),
            array(&[TEXT, INT32, TEXT, INT32, INT16, TEXT]).since(4),
        ],
    };
}

/// From version 8 on a request asks for many groups. Later versions are for members of a group.
impl Api for OffsetFetchRequest {
    const VERSIONS: VersionRange = VersionRange { min: 2, max: 8 };
    const REPLY: Shape = Shape {
        flexible: 6,
        fields: &[
            INT32.since(3),
            array(&[TEXT, array(&[INT32, INT64, INT32.since(5), TEXT, INT16])]).until(7),
            INT16.until(7),
            array(&[TEXT, array(&[TEXT, array(&[INT32, INT64, INT32, TEXT, INT16])]), INT16]).since(8),
        ],
    };
}

/// Version 2 has isolation levels. Later versions answer for tiered storage.
impl Api for ListOffsetsRequest {
    const VERSIONS: VersionRange = VersionRange { min: 2, max: 7 };
    const REPLY: Shape =
        Shape { flexible: 6, fields: &[INT32, array(&[TEXT, array(&[INT32, INT16, INT64, INT64, INT32.since(4)])])] };
}

/// KIP-932, from Kafka 4.1 on.
impl Api for ShareGroupDescribeRequest {
    const VERSIONS: VersionRange = VersionRange { min: 1, max: 1 };
    const REPLY: Shape = Shape {
        flexible: 0,
        fields: &[
            INT32,
            array(&[
                INT16,
                TEXT,
                TEXT,
                TEXT,
                INT32,
                INT32,
                TEXT,
                array(&[TEXT, TEXT, INT32, TEXT, TEXT, TEXTS, structure(&[array(&[UUID, TEXT, INTEGERS])])]),
                INT32,
            ]),
        ],
    };
}
