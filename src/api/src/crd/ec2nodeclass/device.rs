//! Block devices of an EC2NodeClass (spec aws-provider 1.5).

use super::super::pattern;
use super::super::schema::Schema;
use crate::ec2nodeclass::VolumeType;

pub(super) fn block_device_mappings() -> Schema {
    let mapping = Schema::object().optional("deviceName", Schema::string()).optional("ebs", ebs()).optional(
        "rootVolume",
        Schema::boolean().describe("Marks the volume behind kubelet's root directory."),
    );
    Schema::list(mapping)
        .items(..=50)
        .describe("Volumes of the instances; unset means those of the image family.")
        .rule(
            "self.filter(x, has(x.rootVolume) && x.rootVolume).size() <= 1",
            "must have only one blockDeviceMappings with rootVolume",
        )
}

fn ebs() -> Schema {
    Schema::object()
        .optional("deleteOnTermination", Schema::boolean())
        .optional("encrypted", Schema::boolean())
        .optional("iops", Schema::int64())
        .optional("kmsKeyID", Schema::string())
        .optional("snapshotID", Schema::string())
        .optional("throughput", Schema::int64().describe("MiB per second."))
        .optional(
            "volumeInitializationRate",
            Schema::int32()
                .within(100..=300)
                .describe("MiB per second at which a volume is filled from its snapshot."),
        )
        .optional("volumeSize", Schema::string().pattern(pattern::VOLUME_SIZE))
        .optional("volumeType", Schema::string().one_of(VolumeType::ALL.map(VolumeType::as_str)))
        .rule("has(self.snapshotID) || has(self.volumeSize)", "snapshotID or volumeSize must be defined")
        .rule(
            "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
            "snapshotID must be set when volumeInitializationRate is set",
        )
}
