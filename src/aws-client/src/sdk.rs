//! The backend over the AWS SDK.
