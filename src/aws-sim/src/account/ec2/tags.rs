//! Tags on anything that has an id: all of the resources, or none.

use super::Compute;
use karpenter_aws_api::{Error, Result, Tags};

/// Tags that a resource may have, without those of AWS.
const MOST_TAGS: usize = 50;

impl Compute {
    pub(super) fn tag(&mut self, resources: &[String], tags: &Tags) -> Result<()> {
        if let Some(key) = tags.keys().find(|key| key.starts_with("aws:")) {
            let text = "Tag keys starting with 'aws:' are reserved for internal use";
            return Err(Error::answered("CreateTags", key, "InvalidParameterValue", text));
        }
        self.check_exist("CreateTags", resources)?;
        for id in resources {
            if let Some(found) = self.tags_of(id) {
                let added = tags.keys().filter(|key| !found.contains_key(*key)).count();
                if found.keys().filter(|key| !key.starts_with("aws:")).count() + added > MOST_TAGS {
                    let text = "The maximum number of tags for a resource has been reached";
                    return Err(Error::answered("CreateTags", id, "TagLimitExceeded", text));
                }
                found.extend(tags.clone());
            }
        }
        Ok(())
    }

    pub(super) fn untag(&mut self, resources: &[String], keys: &[String]) -> Result<()> {
        self.check_exist("DeleteTags", resources)?;
        for id in resources {
            if let Some(found) = self.tags_of(id) {
                found.retain(|key, _| !keys.contains(key));
            }
        }
        Ok(())
    }

    fn check_exist(&mut self, operation: &'static str, resources: &[String]) -> Result<()> {
        for id in resources {
            if self.tags_of(id).is_none() {
                let code = match id.split('-').next() {
                    Some("i") => "InvalidInstanceID.NotFound",
                    Some("subnet") => "InvalidSubnetID.NotFound",
                    Some("sg") => "InvalidGroup.NotFound",
                    Some("lt") => "InvalidLaunchTemplateId.NotFound",
                    Some("vpc") => "InvalidVpcID.NotFound",
                    Some("ami") => "InvalidAMIID.NotFound",
                    _ => "InvalidID",
                };
                let text = format!("The ID '{id}' does not exist");
                return Err(Error::answered(operation, id, code, text));
            }
        }
        Ok(())
    }

    fn tags_of(&mut self, id: &str) -> Option<&mut Tags> {
        match id.split('-').next()? {
            "i" => self.vms.get_mut(id).map(|vm| &mut vm.tags),
            "subnet" => self.network.subnets.get_mut(id).map(|subnet| &mut subnet.tags),
            "sg" => self.network.groups.get_mut(id).map(|group| &mut group.tags),
            "vpc" => self.network.vpcs.get_mut(id).map(|vpc| &mut vpc.tags),
            "ami" => self.images.get_mut(id).map(|image| &mut image.tags),
            "lt" => {
                let mut templates = self.templates.values_mut();
                templates.find(|found| found.summary.id == *id).map(|found| &mut found.summary.tags)
            }
            _ => None,
        }
    }
}
