//! Selector terms of an EC2NodeClass (spec aws-provider 1.2 and 1.3).
//!
//! The rules on exclusive ids of subnets, security groups and reservations say "not all terms", so a list
//! that mixes a wrong term with a right one passes. Manifests that work today must go on working.

use super::super::schema::Schema;

const TERMS_MAX: i64 = 30;

pub(super) fn subnets() -> Schema {
    let term = Schema::object().optional("id", id("subnet-[0-9a-z]+")).optional("tags", tags());
    terms(term)
        .describe("Subnets instances may be launched in: terms are alternatives, parts of a term must all hold.")
        .rule("self.size() != 0", "subnetSelectorTerms cannot be empty")
        .rule(
            "self.all(x, has(x.tags) || has(x.id))",
            "expected at least one, got none, ['tags', 'id'] in subnetSelectorTerms",
        )
        .rule(
            "!self.all(x, has(x.id) && has(x.tags))",
            "'id' is mutually exclusive, cannot be set with a combination of other fields in subnetSelectorTerms",
        )
}

pub(super) fn security_groups() -> Schema {
    let term = Schema::object()
        .optional("id", id("sg-[0-9a-z]+"))
        .optional("name", Schema::string().describe("The group name, which is not the Name tag."))
        .optional("tags", tags());
    terms(term)
        .describe("Security groups of the instances: terms are alternatives, parts of a term must all hold.")
        .rule("self.size() != 0", "securityGroupSelectorTerms cannot be empty")
        .rule(
            "self.all(x, has(x.tags) || has(x.id) || has(x.name))",
            "expected at least one, got none, ['tags', 'id', 'name'] in securityGroupSelectorTerms",
        )
        .rule(
            "!self.all(x, has(x.id) && (has(x.tags) || has(x.name)))",
            "'id' is mutually exclusive, cannot be set with a combination of other fields in securityGroupSelectorTerms",
        )
        .rule(
            "!self.all(x, has(x.name) && (has(x.tags) || has(x.id)))",
            "'name' is mutually exclusive, cannot be set with a combination of other fields in securityGroupSelectorTerms",
        )
}

pub(super) fn capacity_reservations() -> Schema {
    let term = Schema::object()
        .optional("id", id("^cr-[0-9a-z]+$"))
        .optional("instanceMatchCriteria", Schema::string().one_of(["open", "targeted"]))
        .optional("ownerID", Schema::string().pattern("^[0-9]{12}$"))
        .optional("tags", tags());
    terms(term)
        .describe("Capacity reservations instances may be launched into.")
        .rule(
            "self.all(x, has(x.tags) || has(x.id) || has(x.instanceMatchCriteria))",
            "expected at least one, got none, ['tags', 'id', 'instanceMatchCriteria'] in capacityReservationSelectorTerms",
        )
        .rule(
            "!self.all(x, has(x.id) && (has(x.tags) || has(x.ownerID) || has(x.instanceMatchCriteria)))",
            "'id' is mutually exclusive, cannot be set along with other fields in a capacity reservation selector term",
        )
}

pub(super) fn placement_group() -> Schema {
    Schema::object()
        .describe("The placement group of the instances, by name or by id.")
        .optional("id", id("^pg-[0-9a-z]+$"))
        .optional("name", Schema::string().length(1..))
        .rule(
            "has(self.name) || has(self.id)",
            "must specify one of ['name', 'id'] in placementGroupSelector",
        )
        .rule(
            "!(has(self.name) && has(self.id))",
            "'name' and 'id' are mutually exclusive in placementGroupSelector",
        )
}

pub(super) fn amis() -> Schema {
    let term = Schema::object()
        .optional("alias", alias())
        .optional("id", id("ami-[0-9a-z]+"))
        .optional("name", Schema::string())
        .optional("owner", Schema::string().describe("Account id or alias; narrows name and tags."))
        .optional(
            "ssmParameter",
            Schema::string().describe("Name or ARN of a parameter that holds an image id."),
        )
        .optional("tags", tags());
    terms(term)
        .items(1..=TERMS_MAX)
        .describe("Images of the instances: terms are alternatives, parts of a term must all hold.")
        .rule(
            "self.all(x, has(x.tags) || has(x.id) || has(x.name) || has(x.alias) || has(x.ssmParameter))",
            "expected at least one, got none, ['tags', 'id', 'name', 'alias', 'ssmParameter'] in amiSelectorTerms",
        )
        .rule(
            "!self.exists(x, has(x.id) && (has(x.alias) || has(x.tags) || has(x.name) || has(x.owner)))",
            "'id' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
        )
        .rule(
            "!self.exists(x, has(x.alias) && (has(x.id) || has(x.tags) || has(x.name) || has(x.owner)))",
            "'alias' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
        )
        .rule(
            "!(self.exists(x, has(x.alias)) && self.size() != 1)",
            "'alias' is mutually exclusive, cannot be set with a combination of other amiSelectorTerms",
        )
}

fn alias() -> Schema {
    Schema::string()
        .length(..=30)
        .describe("Image family and version, for example al2023@latest.")
        .rule("self.matches('^[a-zA-Z0-9]+@.+$')", "'alias' is improperly formatted, must match the format 'family@version'")
        .rule(
            "self.find('^[^@]+') in ['al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025']",
            "family is not supported, must be one of: al2, al2023, bottlerocket, windows2019, windows2022, windows2025",
        )
        .rule(
            "self.find('^[^@]+') in ['windows2019', 'windows2022', 'windows2025'] ? self.find('@.*$') == '@latest' : true",
            "windows families may only specify version 'latest'",
        )
}

fn terms(term: Schema) -> Schema {
    Schema::list(term).items(..=TERMS_MAX)
}

fn id(pattern: &str) -> Schema {
    Schema::string().pattern(pattern)
}

fn tags() -> Schema {
    Schema::map(Schema::string())
        .entries(..=20)
        .describe("Tags to match; the value * matches any.")
        .rule("self.all(k, k != '' && self[k] != '')", "empty tag keys or values aren't supported")
}
