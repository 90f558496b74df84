//! gRPC reflection, in the two versions that clients ask for.

use tonic::service::Routes;
use tonic_reflection::server::Builder;

/// Adds reflection of the external scaler and of health.
pub fn add(routes: Routes) -> Routes {
    let describe = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(tidegate_proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    routes
        .add_service(describe().build_v1().expect("the descriptors are compiled in, and a test decodes them"))
        .add_service(describe().build_v1alpha().expect("the descriptors are compiled in, and a test decodes them"))
}
