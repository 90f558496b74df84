//! KEDA's external scaler contract, generated from `externalscaler.proto`.
//!
//! `tests/generated.rs` fails when the generated code is not what the proto file gives, and can write it anew.

/// The file descriptor set, for gRPC reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/externalscaler.bin");

/// Package `externalscaler`: the messages, the client and the server.
#[allow(missing_docs, clippy::pedantic)]
pub mod externalscaler {
    include!("generated/externalscaler.rs");
}
