//! Objects of kinds whose definition another release may have widened. One that this release cannot decode hides no other
//! of its kind: it is kept as it was answered, with what is wrong. So an export holds all of them, and what one release
//! cannot decode another can.

use karpenter_kube_harness::watch::{Readable, Undecoded};
use kube::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::Unseen;

/// The group of the node classes of EKS Auto Mode.
pub(super) const AUTO_MODE_GROUP: &str = "eks.amazonaws.com";

/// All objects of a kind.
#[derive(Clone, Debug)]
pub struct Objects<K> {
    pub(crate) decoded: Vec<K>,
    undecoded: Vec<Undecoded>,
}

impl<K> Objects<K> {
    /// Returns the objects that could be decoded. What follows from the absence of an object follows from [`Self::all`] only.
    pub fn decoded(&self) -> &[K] {
        &self.decoded
    }

    /// Returns the objects that could not be decoded, without what EKS Auto Mode works on, which no check looks at.
    pub(crate) fn undecoded(&self) -> impl Iterator<Item = &Undecoded> {
        self.undecoded.iter().filter(|object| {
            let group = ["/spec/template/spec/nodeClassRef/group", "/spec/nodeClassRef/group"]
                .into_iter()
                .find_map(|pointer| object.text(pointer));
            group != Some(AUTO_MODE_GROUP)
        })
    }
}

impl<K: Resource<DynamicType = ()>> Objects<K> {
    /// Returns all objects, unless one could not be decoded.
    pub(crate) fn all(&self) -> Result<&[K], Unseen> {
        let mut undecoded = self.undecoded();
        let Some(first) = undecoded.next() else { return Ok(&self.decoded) };
        let (_, name) = first.key();
        let more = match undecoded.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Err(Unseen(format!("{} {name}{more} cannot be decoded, see D-46", K::kind(&()))))
    }
}

impl<K> Default for Objects<K> {
    fn default() -> Self {
        Self { decoded: Vec::new(), undecoded: Vec::new() }
    }
}

impl<K> FromIterator<Readable<K>> for Objects<K> {
    fn from_iter<I: IntoIterator<Item = Readable<K>>>(objects: I) -> Self {
        let mut all = Self::default();
        for object in objects {
            match object {
                Readable::Whole(object) => all.decoded.push(object),
                Readable::Undecoded(mut object) => {
                    if let Some(metadata) = object.value["metadata"].as_object_mut() {
                        metadata.shift_remove("managedFields");
                    }
                    all.undecoded.push(*object);
                }
            }
        }
        all
    }
}

impl<K: Serialize> Serialize for Objects<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// One object of either kind.
        #[derive(Serialize)]
        #[serde(untagged)]
        enum One<'a, K> {
            Decoded(&'a K),
            Undecoded(&'a Value),
        }
        let undecoded = self.undecoded.iter().map(|object| One::Undecoded(&object.value));
        serializer.collect_seq(self.decoded.iter().map(One::Decoded).chain(undecoded))
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Objects<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Readable<K>>::deserialize(deserializer)?.into_iter().collect())
    }
}
