//! Images over the SDK. An image without id, architecture or readable creation date is skipped by name.

use aws_sdk_ec2::{Client, types};

use super::super::call::{Call, each_page};
use super::super::convert::{describe, instant_text, text};
use super::{filters_to_sdk, ids_to_sdk, page_size, tags_from_sdk};
use karpenter_aws_api::ec2::{Architecture, Image, ImageQuery, ImageState};
use karpenter_aws_api::{Listing, Result, Skipped};

pub(super) async fn images(client: &Client, query: &ImageQuery) -> Result<Listing<Image>> {
    let call = Call::new("DescribeImages", describe(&query.ids, &query.filters));
    let request = client
        .describe_images()
        .set_image_ids(ids_to_sdk(&query.ids))
        .set_owners(ids_to_sdk(&query.owners))
        .set_filters(filters_to_sdk(&query.filters))
        .include_deprecated(query.include_deprecated)
        .set_max_results(page_size(&query.ids, 1000));
    let mut listing = Listing::default();
    each_page!(call, request.into_paginator(), next_token, |page| {
        for found in page.images.unwrap_or_default() {
            let entry = found.image_id.clone().unwrap_or_else(|| "?".to_owned());
            listing.push(image(found).map_err(|field| Skipped { entry, why: format!("no `{field}`") }));
        }
    });
    Ok(listing)
}

/// The error is the name of the missing field.
fn image(image: types::Image) -> std::result::Result<Image, &'static str> {
    Ok(Image {
        id: image.image_id.ok_or("imageId")?.into(),
        name: image.name.unwrap_or_default(),
        owner: image.owner_id.unwrap_or_default(),
        architecture: Architecture::from(image.architecture.ok_or("architecture")?.as_str()),
        created_at: instant_text(image.creation_date.as_deref()).ok_or("creationDate")?,
        deprecated_at: match image.deprecation_time.as_deref() {
            None | Some("") => None,
            Some(time) => Some(instant_text(Some(time)).ok_or("deprecationTime")?),
        },
        state: ImageState::from(image.state.ok_or("imageState")?.as_str()),
        root_device: text(image.root_device_name.as_deref()),
        tags: tags_from_sdk(image.tags),
    })
}
