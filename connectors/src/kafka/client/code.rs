//! Kafka's error codes that mean something to a client that only reads.
//! <https://kafka.apache.org/protocol.html#protocol_error_codes>

pub(super) const NONE: i16 = 0;
pub(super) const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
pub(super) const LEADER_NOT_AVAILABLE: i16 = 5;
pub(super) const NOT_LEADER_OR_FOLLOWER: i16 = 6;
pub(super) const REPLICA_NOT_AVAILABLE: i16 = 9;
pub(super) const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
pub(super) const COORDINATOR_NOT_AVAILABLE: i16 = 15;
pub(super) const NOT_COORDINATOR: i16 = 16;
pub(super) const INVALID_TOPIC: i16 = 17;
pub(super) const INVALID_GROUP_ID: i16 = 24;
pub(super) const TOPIC_AUTHORIZATION_FAILED: i16 = 29;
pub(super) const GROUP_AUTHORIZATION_FAILED: i16 = 30;
pub(super) const UNSUPPORTED_SASL_MECHANISM: i16 = 33;
pub(super) const ILLEGAL_SASL_STATE: i16 = 34;
pub(super) const UNSUPPORTED_VERSION: i16 = 35;
pub(super) const SASL_AUTHENTICATION_FAILED: i16 = 58;
pub(super) const GROUP_ID_NOT_FOUND: i16 = 69;
pub(super) const FENCED_LEADER_EPOCH: i16 = 74;
pub(super) const UNKNOWN_LEADER_EPOCH: i16 = 75;
pub(super) const UNSTABLE_OFFSET_COMMIT: i16 = 88;
