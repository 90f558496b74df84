//! Frames: a 32-bit size, a header with the correlation id, a message (<https://kafka.apache.org/protocol.html>).

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::{
    messages::RequestHeader,
    protocol::{Decodable, Encodable, HeaderVersion, StrBytes},
};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::{
    api::Api,
    fault::{Fault, broken, malformed, unreachable},
    shape::after_tags,
};

/// The largest reply that is read, in bytes (safety.md E4 counts on it).
const MAX_REPLY: usize = 8 << 20;
/// How much room a reply gets before it arrives; more comes with its bytes, not with its header.
const FIRST_ROOM: usize = 64 << 10;
/// A correlation id, in bytes.
const CORRELATION: usize = 4;

/// The bytes of a request.
pub(super) fn encode<R: Api>(request: &R, version: i16, correlation: i32) -> Result<Bytes, Fault> {
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation)
        .with_client_id(Some(StrBytes::from_static_str(concat!("tidegate/", env!("CARGO_PKG_VERSION")))));
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    header
        .encode(&mut frame, R::header_version(version))
        .and_then(|()| request.encode(&mut frame, version))
        .map_err(|_| malformed("it leads to a request that its protocol cannot express"))?;
    let size = i32::try_from(frame.len() - 4).map_err(|_| malformed("it leads to a request that is too large"))?;
    frame[..4].copy_from_slice(&size.to_be_bytes());
    Ok(frame.freeze())
}

/// Reads one reply: its correlation id and what follows it.
pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<(i32, Bytes), Fault> {
    let size = from.read_i32().await.map_err(broken)?;
    let size = usize::try_from(size)
        .ok()
        .filter(|size| (CORRELATION..=MAX_REPLY).contains(size))
        .ok_or_else(|| malformed("a reply of a size that is not allowed"))?;
    let mut body = Vec::with_capacity(size.min(FIRST_ROOM));
    from.take(size as u64).read_to_end(&mut body).await.map_err(broken)?;
    if body.len() < size {
        return Err(unreachable("the connection was closed within a reply"));
    }
    let mut body = Bytes::from(body);
    let correlation = body.split_to(CORRELATION);
    let correlation = i32::from_be_bytes(correlation[..].try_into().expect("it was split to this length"));
    Ok((correlation, body))
}

/// Decodes what follows a correlation id, after a walk over it: the codec believes every length.
pub(super) fn decode<R: Api>(version: i16, mut body: Bytes) -> Result<R::Response, Fault> {
    let wrong = || malformed("a reply that its protocol does not allow");
    if R::Response::header_version(version) > 0 {
        let left = after_tags(&body).ok_or_else(wrong)?.len();
        body = body.split_off(body.len() - left);
    }
    if !R::REPLY.fits(version, &body) {
        return Err(wrong());
    }
    R::Response::decode(&mut body, version).map_err(|_| wrong())
}
