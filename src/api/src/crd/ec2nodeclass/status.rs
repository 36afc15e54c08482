//! The status of an EC2NodeClass (spec aws-provider 1.6).

use super::super::condition;
use super::super::schema::Schema;

pub(super) fn status() -> Schema {
    let subnet = Schema::object()
        .required("id", Schema::string())
        .required("zone", Schema::string())
        .optional("zoneID", Schema::string());
    let security_group = Schema::object().required("id", Schema::string()).optional("name", Schema::string());
    Schema::object()
        .optional("amis", Schema::list(ami()).describe("Images found, newest first."))
        .optional("capacityReservations", Schema::list(capacity_reservation()))
        .optional("conditions", condition::conditions())
        .optional("instanceProfile", Schema::string().describe("The instance profile in use."))
        .optional("securityGroups", Schema::list(security_group))
        .optional("subnets", Schema::list(subnet).describe("Subnets found, most free addresses first."))
}

fn ami() -> Schema {
    let requirement = Schema::object()
        .required("key", Schema::string())
        .required("operator", Schema::string())
        .optional("values", Schema::list(Schema::string()).list_type("atomic"));
    Schema::object()
        .optional("deprecated", Schema::boolean())
        .required("id", Schema::string())
        .optional("name", Schema::string())
        .required("requirements", Schema::list(requirement).describe("Nodes the image is for."))
}

fn capacity_reservation() -> Schema {
    Schema::object()
        .required("availabilityZone", Schema::string())
        .optional("endTime", Schema::date_time())
        .required("id", Schema::string().pattern("^cr-[0-9a-z]+$"))
        .required("instanceMatchCriteria", Schema::string().one_of(["open", "targeted"]))
        .required("instanceType", Schema::string())
        .optional("interruptible", Schema::boolean())
        .required("ownerID", Schema::string().pattern("^[0-9]{12}$"))
        .required(
            "reservationType",
            Schema::string().default_value("default").one_of(["default", "capacity-block"]),
        )
        .required("state", Schema::string().default_value("active").one_of(["active", "expiring"]))
}
