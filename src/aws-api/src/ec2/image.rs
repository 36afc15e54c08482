//! Machine images (spec aws-provider 6.2, 6.3).

use jiff::Timestamp;

use super::Architecture;
use crate::id::ImageId;
use crate::{Filter, Tags};

/// Query of images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageQuery {
    /// Exactly these; an unknown one fails the call.
    pub ids: Vec<ImageId>,
    /// Account ids, `self`, `amazon`, `aws-marketplace`; empty means any image the account may launch.
    pub owners: Vec<String>,
    /// All of these filters.
    pub filters: Vec<Filter>,
    /// Deprecated images too.
    pub include_deprecated: bool,
}

/// One image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// `ami-...`
    pub id: ImageId,
    pub name: String,
    /// Owning account.
    pub owner: String,
    pub architecture: Architecture,
    /// Time of its registration.
    pub created_at: Timestamp,
    /// Time of its deprecation; `None` means never.
    pub deprecated_at: Option<Timestamp>,
    /// Usable or not.
    pub state: ImageState,
    /// Device of the root volume, for example `/dev/xvda`.
    pub root_device: Option<String>,
    pub tags: Tags,
}

/// State of an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImageState {
    /// Can be launched.
    Available,
    /// Anything else, as AWS spells it: `pending`, `deregistered`, `disabled`, ...
    Other(String),
}

impl From<&str> for ImageState {
    fn from(text: &str) -> Self {
        if text == "available" { Self::Available } else { Self::Other(text.to_owned()) }
    }
}
