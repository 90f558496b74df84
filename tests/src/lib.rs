//! The services that the integration tests need.
