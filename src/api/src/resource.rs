//! Traits that make a Rust struct a Kubernetes custom resource: group, version, kind, plural and the JSON envelope.
//!
//! Written as one macro instead of a derive so that there is exactly one way to get a
//! CustomResourceDefinition out of this crate ([`crate::crds`]) and so that the schema can express things a
//! derive cannot. Implementing the `k8s_openapi` traits gives `kube::Resource` for free.

use k8s_openapi::Resource;

/// Refuses an object of another declared type; an absent `apiVersion` or `kind` is accepted because
/// items of a list may leave them out.
pub(crate) fn check_type<R: Resource>(api_version: Option<&str>, kind: Option<&str>) -> Result<(), String> {
    if api_version.is_none_or(|v| v == R::API_VERSION) && kind.is_none_or(|k| k == R::KIND) {
        return Ok(());
    }
    Err(format!(
        "expected `{}` of `{}`, found `{}` of `{}`",
        R::KIND,
        R::API_VERSION,
        kind.unwrap_or_default(),
        api_version.unwrap_or_default(),
    ))
}

/// Declares the object struct of a custom resource with `metadata`, `spec` and `status`; cluster-scoped unless declared
/// `scope: Namespaced`.
macro_rules! custom_resource {
    (
        $(#[$doc:meta])*
        $name:ident { spec: $spec:ty, status: $status:ty }
        group: $group:literal, version: $version:literal, plural: $plural:literal
    ) => {
        crate::resource::custom_resource! {
            $(#[$doc])*
            $name { spec: $spec, status: $status }
            group: $group, version: $version, plural: $plural, scope: Cluster
        }
    };
    (@scope Cluster) => { k8s_openapi::ClusterResourceScope };
    (@scope Namespaced) => { k8s_openapi::NamespaceResourceScope };
    (
        $(#[$doc:meta])*
        $name:ident { spec: $spec:ty, status: $status:ty }
        group: $group:literal, version: $version:literal, plural: $plural:literal, scope: $scope:ident
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            pub spec: $spec,
            pub status: Option<$status>,
        }

        impl $name {
            /// An object with this name and spec, without status, as a client would create it.
            pub fn new(name: &str, spec: $spec) -> Self {
                let metadata = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                    name: Some(name.to_owned()),
                    ..Default::default()
                };
                Self { metadata, spec, status: None }
            }
        }

        impl k8s_openapi::Resource for $name {
            const API_VERSION: &'static str = concat!($group, "/", $version);
            const GROUP: &'static str = $group;
            const KIND: &'static str = stringify!($name);
            const VERSION: &'static str = $version;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = crate::resource::custom_resource!(@scope $scope);
        }

        impl k8s_openapi::Metadata for $name {
            type Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

            fn metadata(&self) -> &Self::Ty {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut Self::Ty {
                &mut self.metadata
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct as _;
                let mut object = serializer.serialize_struct(stringify!($name), 5)?;
                object.serialize_field("apiVersion", <Self as k8s_openapi::Resource>::API_VERSION)?;
                object.serialize_field("kind", <Self as k8s_openapi::Resource>::KIND)?;
                object.serialize_field("metadata", &self.metadata)?;
                object.serialize_field("spec", &self.spec)?;
                match &self.status {
                    Some(status) => object.serialize_field("status", status)?,
                    None => object.skip_field("status")?,
                }
                object.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(serde::Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Wire {
                    api_version: Option<String>,
                    kind: Option<String>,
                    #[serde(default)]
                    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
                    #[serde(default)]
                    spec: $spec,
                    status: Option<$status>,
                }
                let wire = Wire::deserialize(deserializer)?;
                crate::resource::check_type::<Self>(wire.api_version.as_deref(), wire.kind.as_deref())
                    .map_err(serde::de::Error::custom)?;
                Ok(Self { metadata: wire.metadata, spec: wire.spec, status: wire.status })
            }
        }
    };
}

pub(crate) use custom_resource;

#[cfg(test)]
mod tests {
    use kube::Resource;

    use crate::{CapacityBuffer, EC2NodeClass, NodeClaim, NodePool};

    fn path<R: Resource<DynamicType = ()>>() -> String {
        format!("{}/{} {}", R::group(&()), R::version(&()), R::plural(&()))
    }

    #[test]
    fn kube_finds_group_version_and_plural() {
        assert_eq!(path::<NodePool>(), "karpenter.sh/v1 nodepools");
        assert_eq!(path::<NodeClaim>(), "karpenter.sh/v1 nodeclaims");
        assert_eq!(path::<EC2NodeClass>(), "karpenter.k8s.aws/v1 ec2nodeclasses");
        assert_eq!(path::<CapacityBuffer>(), "autoscaling.x-k8s.io/v1beta1 capacitybuffers");
    }
}
